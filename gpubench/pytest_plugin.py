"""`pytest benchmarks/`: every training case a test, its measured rounds played into pytest-benchmark.

pytest-benchmark's own options then work as documented: --benchmark-save, -autosave, -json, -compare, -compare-fail,
-histogram, -columns. It sees seconds a step, so its OPS column is steps per second. Launches of a case follow one
another here; `gpubench run` interleaves those of all cases.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpubench.spec.errors import GpubenchError, UsageError

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from gpubench.files.store import Journal
    from gpubench.harness.plan import Cases, Plan, Runnable, Skipped
    from gpubench.progress import LineProgress
    from gpubench.spec.record import Machine, RunRecord

TRAINING_CASE = "training_case"


class Playback:
    """A clock that moves only when a measured round is played: pytest-benchmark's timer.

    It reads 0 before a round and the round's duration after it, so that durations come out exact.
    """

    __name__ = "gpubench.playback"  # pytest-benchmark writes it into the file as the timer's name

    def __init__(self) -> None:
        self._pending = 0.0

    def __call__(self) -> float:
        reading, self._pending = self._pending, 0.0
        return reading

    def advance(self, seconds: float) -> None:
        self._pending = seconds


PLAYBACK = Playback()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpubench", "multi-GPU scaling benchmarks")
    group.addoption("--suite", help="quick, standard or full (default: quick)")
    group.addoption("--plan", metavar="FILE", help="TOML file with these settings")
    for name in ("workloads", "frameworks", "strategies", "devices", "precision", "scaling"):
        group.addoption(f"--{name}", metavar="A,B", help=f"only these {name}")
    group.addoption("--device-kind", choices=["auto", "cpu", "gpu"], help="GPUs or CPU shares (default: auto)")
    group.addoption("--per-device-batch", metavar="N,N", help="samples that one device sees in a step; each a series")
    group.addoption("--launches", type=int, metavar="N", help="fresh process groups of each case")
    group.addoption("--gpubench-machine", metavar="NAME", help="call this machine NAME (default: its host name)")
    group.addoption(
        "--python",
        dest="gpubench_pythons",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="the Python that has a framework (repeatable)",
    )


def pytest_configure(config: pytest.Config) -> None:
    from gpubench.harness import registry
    from gpubench.spec.workload import WORKLOADS

    frameworks = registry.frameworks().values()
    names = {*WORKLOADS, *(f.name for f in frameworks), *(s.name for f in frameworks for s in f.strategies)}
    for name in sorted(names):
        config.addinivalue_line("markers", f"{name}: training cases of {name}")
    config.pluginmanager.register(Benchmarks(config), "gpubench-benchmarks")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if TRAINING_CASE not in metafunc.fixturenames:
        return
    cases = _benchmarks(metafunc.config).cases()
    parameters = [
        *(pytest.param(r, id=r.case.id, marks=_marks(r)) for r in cases.runnable),
        *(pytest.param(s, id=s.case.id, marks=[*_marks(s), pytest.mark.skip(reason=s.reason)]) for s in cases.skipped),
    ]
    metafunc.parametrize(TRAINING_CASE, parameters)


@pytest.fixture
def measure(request: pytest.FixtureRequest, benchmark: BenchmarkFixture) -> Measure:
    """Measures a training case and plays its rounds into pytest-benchmark."""
    return Measure(_benchmarks(request.config), benchmark)


class Measure:
    """`measure(training_case)` returns the records of its launches; a launch that failed fails the test."""

    def __init__(self, benchmarks: Benchmarks, benchmark: BenchmarkFixture) -> None:
        self._benchmarks = benchmarks
        self._benchmark = benchmark

    def __call__(self, runnable: Runnable) -> list[RunRecord]:
        records = self._benchmarks.measure(runnable, smoke=self._benchmark.disabled)
        good = [record for record in records if record.outcome.status == "ok"]
        step_seconds = [one.seconds / one.steps for record in good for one in record.rounds]
        if step_seconds:
            durations = iter(step_seconds)
            self._benchmark.group = f"{runnable.case.workload} {runnable.case.precision} {runnable.case.scaling}"
            self._benchmark.extra_info.update(_extra_info(good))
            self._benchmark.pedantic(lambda: PLAYBACK.advance(next(durations, 0.0)), rounds=len(step_seconds))
        for record in records:
            if record.outcome.status != "ok":
                tail = "\n".join(f"  | {line}" for line in record.outcome.log_tail)
                pytest.fail(
                    f"launch {record.launch}: {record.outcome.status}: {record.outcome.message}\n"
                    f"{record.outcome.remedy}\n{tail}",
                    pytrace=False,
                )
        return records


class Benchmarks:
    """One pytest session's cases, its journal, and what to say at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.records: list[RunRecord] = []
        self._cases: Cases | None = None
        self._plan: Plan
        self._machine: Machine
        self._closing = ExitStack()
        self._session: Any = None
        self._journal: Journal | None = None
        self._progress: LineProgress
        self._selected: list[Runnable | Skipped] = []

    def cases(self) -> Cases:
        """Worked out once, when the first test asks for it."""
        from gpubench.cli.options import read_batch, read_counts
        from gpubench.harness import machine, plan, registry
        from gpubench.harness.interpreters import Interpreters

        if self._cases is not None:
            return self._cases
        option = self.config.option
        if hasattr(self.config, "workerinput") or getattr(option, "numprocesses", None):
            raise pytest.UsageError(
                "Training benchmarks measure the whole machine, so they cannot share it: run them without -n (xdist)."
            )
        lists = ("workloads", "frameworks", "strategies", "precision", "scaling")
        given: dict[str, Any] = {name: _words(getattr(option, name)) for name in lists}
        given["device_kind"] = option.device_kind
        given["launches"] = option.launches
        try:
            given["devices"] = read_counts("--devices", option.devices) if option.devices is not None else ()
            if option.per_device_batch is not None:
                given["per_device_batch"] = read_batch("--per-device-batch", option.per_device_batch)
            wanted = plan.chosen(option.suite, Path(option.plan) if option.plan else None, given)
            if isinstance(wanted.per_device_batch, str):
                raise UsageError(
                    f"per_device_batch = {wanted.per_device_batch}: pytest does not search for a batch. Name batches "
                    "here, or find one with `gpubench run`."
                )
            self._machine = machine.describe(option.gpubench_machine)
            if line := machine.fallback(wanted.device_kind, self._machine):
                self._write(line)
            interpreters = Interpreters.parse(option.gpubench_pythons, list(registry.frameworks()))
            strict = bool(option.devices or option.plan)
            self._cases = plan.cases(plan.with_baselines(wanted), self._machine, interpreters, strict_devices=strict)
        except GpubenchError as error:
            raise pytest.UsageError(str(error)) from error
        self._plan = wanted
        return self._cases

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """What is left after -k and -m: the cases that this session is about."""
        items = [item for item in session.items if isinstance(item, pytest.Function)]
        parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]
        self._selected = [cast("Runnable | Skipped", p[TRAINING_CASE]) for p in parameters if TRAINING_CASE in p]

    def measure(self, runnable: Runnable, smoke: bool) -> list[RunRecord]:
        """All launches of a case, each one on the disk before the next starts; a single one where `smoke`."""
        session = self._open()
        records = []
        for number in range(1, 2 if smoke else self._plan.launches + 1):
            record = session.launch(runnable, number)
            self._keep(record)
            self._progress.finished(record)
            records.append(record)
        return records

    def _open(self) -> Any:
        from gpubench.analysis.checks import doubts
        from gpubench.files.store import Journal, machine_folder
        from gpubench.harness.session import Session
        from gpubench.progress import LineProgress

        if self._session is not None:
            return self._session
        cases = self.cases()
        assert self._selected
        running = [case for case in self._selected if hasattr(case, "python")]
        self._progress = LineProgress(len(running) * self._plan.launches, write=self._write)
        name = self.config.getoption("benchmark_save") or self.config.getoption("benchmark_autosave")
        storage = self.config._benchmarksession.storage  # type: ignore[attr-defined]
        logs = None
        if name and hasattr(storage, "path"):
            try:
                self._journal = Journal.create(storage.path, machine_folder(), name)
            except GpubenchError as error:
                pytest.exit(str(error), returncode=2)
            self.config._benchmarksession.storage = _numbered(storage, self._journal.number)  # type: ignore[attr-defined]
            logs = self._journal.log_folder()
        session = Session(self._machine, cases, self._plan.timing, self._progress, doubts, logs)
        self._session = self._closing.enter_context(session)
        for case in self._selected:
            if not hasattr(case, "python"):
                self._keep(self._session.skip(case))
        return self._session

    def _keep(self, record: RunRecord) -> None:
        if self._journal is not None:
            try:
                record = self._journal.append(record)
            except GpubenchError as error:
                pytest.exit(str(error), returncode=1)
        self.records.append(record)

    def _write(self, text: str) -> None:
        """Progress shows all along, whatever pytest captures."""
        capture = self.config.pluginmanager.getplugin("capturemanager")
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(text)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._closing.close()

    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        if self._journal is not None:
            output_json["gpubench_journal"] = self._journal.path.name

    @pytest.hookimpl(wrapper=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        from pytest_benchmark.session import PerformanceRegression

        try:
            yield
        except PerformanceRegression:
            if not self.records:
                raise
            # It has been told which case got slower; its traceback would only bury that.
            cast(Any, terminalreporter)._session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.records:
            self._summarize(terminalreporter)

    def _summarize(self, terminalreporter: pytest.TerminalReporter) -> None:
        from gpubench.analysis.scaling import summarize, summarize_runs
        from gpubench.files.verified import beside
        from gpubench.report import tables

        verifications = beside(self._journal.path) if self._journal else []
        summaries = summarize(self.records, verifications)
        width = terminalreporter._tw.fullwidth
        terminalreporter.section("throughput and scaling")
        terminalreporter.write_line(_rendered(tables.to_rich(summaries, width), width))
        if self._journal is None:
            return
        from gpubench.files.store import load, with_traces
        from gpubench.report.html import write_html
        from gpubench.report.plots import write_plots

        path = self._journal.path
        page = path.with_suffix(".html")
        loaded = with_traces(load(path))
        drawn = summarize_runs([loaded])
        write_html([loaded], page, drawn)
        plots = write_plots(drawn, path.with_suffix(".plots"))
        terminalreporter.write_line("")
        saved = path.with_suffix(".json")
        for word, file in [("run", path), ("pytest-benchmark", saved), ("report", page), *(("plot", p) for p in plots)]:
            if file.exists():
                terminalreporter.write_line(f"{word:<17}{_relative(file)}")


def _numbered(storage: Any, number: int) -> Any:
    """pytest-benchmark's storage, told to save under the journal's number, so that the two lie side by side."""
    from pytest_benchmark.storage.file import FileStorage

    class Numbered(FileStorage):
        _next_num = f"{number:04}"

    return cast(Any, Numbered)(storage.path, storage.logger, storage.default_machine_id)


def _extra_info(records: Sequence[RunRecord]) -> dict[str, Any]:
    """The derived values under their export names, and the records without their series, which the journal holds."""
    from gpubench.analysis.scaling import summarize
    from gpubench.report import tables

    (row,) = tables.rows(summarize(records))
    plain = []
    for record in records:
        devices = [dataclasses.replace(d, time_ns=[], series={}) for d in record.telemetry.devices]
        telemetry = dataclasses.replace(record.telemetry, devices=devices)
        plain.append(dataclasses.asdict(dataclasses.replace(record, telemetry=telemetry)))
    return {**row, "records": plain}


def _marks(case: Runnable | Skipped) -> list[pytest.MarkDecorator]:
    words = {case.case.workload, case.case.framework, case.case.strategy}
    if case.case.device_kind == "gpu":
        words.add("gpu")
    # Where every launch fails there is nothing to play back; the failure says so better than this warning.
    unused = pytest.mark.filterwarnings("ignore:Benchmark fixture was not used at all")
    return [*(getattr(pytest.mark, word) for word in sorted(words)), unused]


def _benchmarks(config: pytest.Config) -> Benchmarks:
    plugin = config.pluginmanager.getplugin("gpubench-benchmarks")
    assert isinstance(plugin, Benchmarks)
    return plugin


def _words(value: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(",") if word.strip()) if value else ()


def _rendered(table: Any, width: int) -> str:
    from rich.console import Console

    console = Console(width=width, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def _relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
