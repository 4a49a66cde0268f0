"""One pytest session over training cases: what it selected, its journal, its gate, and what it says at the end."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpubench.spec.errors import GpubenchError, UsageError

if TYPE_CHECKING:
    from gpubench.analysis.scaling import CaseSummary
    from gpubench.files.store import Journal
    from gpubench.harness.plan import Cases, Plan, Runnable, Skipped
    from gpubench.harness.session import Session
    from gpubench.progress import LineProgress
    from gpubench.spec.case import Case
    from gpubench.spec.record import Machine, RunRecord, Schedule

NO_REFERENCE = (
    "--benchmark-compare-fail has nothing to compare with: no saved run was found for --benchmark-compare. Save one "
    "first, with --benchmark-save and without --benchmark-compare-fail, or name it: --benchmark-compare=0001."
)


class Benchmarks:
    """A plugin of pytest. `played` has each case that pytest-benchmark got a number of, by its name of the test."""

    def __init__(self, config: pytest.Config, argument: str) -> None:
        self.config = config
        self.records: list[RunRecord] = []
        self.played: dict[str, Case] = {}
        self._argument = argument
        self._cases: Cases | None = None
        self._plan: Plan
        self._machine: Machine
        self._closing = ExitStack()
        self._session: Session | None = None
        self._journal: Journal | None = None
        self._progress: LineProgress
        self._fallback: str | None = None  # that CPU shares are measured, where a GPU might be expected
        self._selected: list[Runnable | Skipped] = []
        self._taken_away: list[str] = []

    def settle(self) -> Cases:
        """The cases that the options ask for, worked out once. pytest.UsageError where an option is wrong."""
        from gpubench.harness import machine, plan, registry
        from gpubench.harness.interpreters import Interpreters

        if self._cases is not None:
            return self._cases
        option = self.config.option
        try:
            settings = plan.given(option.gpubench_suite, _path(option.gpubench_plan), _given(option))
            _see_that_pytest_can(settings)
            wanted = plan.of_settings(settings)
            self._machine = machine.describe(wanted.machine)
            self._fallback = machine.fallback(wanted.device_kind, self._machine)
            interpreters = Interpreters.parse(list(wanted.python), list(registry.frameworks()))
            strict = bool(option.gpubench_devices or option.gpubench_plan)
            self._cases = plan.cases(plan.with_baselines(wanted), self._machine, interpreters, strict_devices=strict)
        except GpubenchError as error:
            raise pytest.UsageError(str(error)) from error
        self._plan = wanted
        return self._cases

    def cases(self) -> Cases:
        """The cases, for a session that can measure them."""
        if hasattr(self.config, "workerinput") or getattr(self.config.option, "numprocesses", None):
            raise pytest.UsageError(
                "Training benchmarks measure the whole machine, so they cannot share it: run them without -n (xdist)."
            )
        bench = self._bench
        if bench.compare_fail and not bench.compared_mapping:
            raise pytest.UsageError(NO_REFERENCE)
        cases = self.settle()
        if self._fallback:
            self._write(self._fallback)
            self._fallback = None
        return cases

    @property
    def _bench(self) -> Any:
        """pytest-benchmark's session."""
        return self.config._benchmarksession  # type: ignore[attr-defined]

    def reference_cases(self) -> set[str]:
        """The ids of the cases that a gate has a saved number of; empty where there is no gate."""
        if not self._bench.compare_fail:
            return set()
        saved = [one for by_name in self._bench.compared_mapping.values() for one in by_name.values()]
        return {str(one.get("param")) for one in saved if _has_number(one)}

    def not_comparable(self, fullname: str) -> str | None:
        """Why a gate cannot judge the test of that name; None where it can, or where there is no gate."""
        if not self._bench.compare_fail:
            return None
        saved = [by_name[fullname] for by_name in self._bench.compared_mapping.values() if fullname in by_name]
        if any(_has_number(one) for one in saved):
            return None
        files = ", ".join(Path(path).name for path in self._bench.compared_mapping)
        what = "has no number for it" if saved else "does not have it"
        return f"not resolved: --benchmark-compare-fail cannot judge this case, as the reference ({files}) {what}"

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """What is left after -k and -m: the cases that this session is about."""
        items = [item for item in session.items if isinstance(item, pytest.Function)]
        parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]
        self._selected = [cast("Runnable | Skipped", p[self._argument]) for p in parameters if self._argument in p]

    def measure(self, runnable: Runnable, smoke: bool) -> list[RunRecord]:
        """All launches of a case, each one on the disk before the next starts; a single one where `smoke`."""
        session = self._open()
        records = []
        for number in range(1, 2 if smoke else self._plan.launches + 1):
            record = session.launch(runnable, number, self._schedule(session, runnable))
            self._keep(record)
            self._progress.finished(record)
            records.append(record)
        return records

    def summary_of(self, case: Case) -> CaseSummary:
        """The case as all that was measured so far shows it: its baseline is among it, where it came first."""
        from gpubench.analysis.scaling import summarize

        return next(one for one in summarize(self.records) if one.case == case)

    def _schedule(self, session: Session, runnable: Runnable) -> Schedule:
        from gpubench.harness import quiet
        from gpubench.spec.record import Schedule

        plan = self._plan
        schedule = Schedule(order="case by case", seed=plan.seed, launches=plan.launches, position=len(self.records))
        if plan.wait_quiet_seconds is None or session.sampler is None:
            return schedule
        ids = [device.id for device in runnable.devices]
        was_quiet, waited = quiet.wait(session.sampler, ids, plan.wait_quiet_seconds)
        return replace(schedule, waited_for_quiet_seconds=waited, quiet=was_quiet)

    def _open(self) -> Session:
        from gpubench.analysis.checks import doubts
        from gpubench.files.store import Journal, machine_folder
        from gpubench.harness import interrupts
        from gpubench.harness.session import Session
        from gpubench.progress import LineProgress

        if self._session is not None:
            return self._session
        cases = self.cases()
        assert self._selected
        running = [case for case in self._selected if hasattr(case, "python")]
        self._progress = LineProgress(len(running) * self._plan.launches, write=self._write)
        name = self.config.getoption("benchmark_save") or self.config.getoption("benchmark_autosave")
        storage = self._bench.storage
        logs = None
        if name and hasattr(storage, "path"):
            try:
                self._journal = Journal.create(storage.path, machine_folder(), name)
            except GpubenchError as error:
                pytest.exit(str(error), returncode=2)
            self._journal.say = self._write
            self._bench.storage = _numbered(storage, self._journal.number)
            logs = self._journal.log_folder()
        session = Session(self._machine, cases, self._plan.timing, self._progress, doubts, logs)
        self._closing.enter_context(interrupts.raised())
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

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # before pytest-benchmark saves
    def pytest_sessionfinish(self) -> Generator[None]:
        self._closing.close()
        try:
            if self._journal is not None:
                self._journal.see_that_it_stands(at_the_end=True)
        except GpubenchError as error:
            self._taken_away.append(str(error))
        self._take_back()
        if self._selected and not self._bench.benchmarks:
            # pytest-benchmark warns that there is nothing to save, with a traceback where warnings are errors.
            self._bench.save = self._bench.autosave = self._bench.json = None
        return (yield)

    def _take_back(self) -> None:
        """No number is saved that was taken away after it was played: a case was seen beside a later one."""
        from gpubench.analysis.scaling import summarize

        if not self.played:
            return
        without = {one.case: one.no_number for one in summarize(self.records) if one.no_number is not None}
        for case in self.played.values():
            if case in without:
                self._taken_away.append(f"{case.id} has no number: {without[case]}")
        gone = {fullname for fullname, case in self.played.items() if case in without}
        self._bench.benchmarks = [one for one in self._bench.benchmarks if one.fullname not in gone]
        self.played = {name: case for name, case in self.played.items() if name not in gone}

    @pytest.hookimpl(optionalhook=True)  # there may be no pytest-benchmark: -p no:benchmark
    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        if self._journal is not None:
            output_json["gpubench_journal"] = self._journal.path.name

    @pytest.hookimpl(wrapper=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        try:
            return (yield)
        except Exception as error:
            if not self.records or type(error).__name__ != "PerformanceRegression":
                raise
            # It has been told which case got slower; its traceback would only bury that.
            _make_red(terminalreporter)
        finally:
            if self.records:
                from gpubench.closing_words import show_session

                show_session(terminalreporter, self.records, self._journal)
            self._tell_what_is_missing(terminalreporter)

    def _tell_what_is_missing(self, terminalreporter: pytest.TerminalReporter) -> None:
        """No green session without the numbers that were asked for."""
        told = list(self._taken_away)
        option = self.config.option
        looked_only = option.collectonly or getattr(option, "setupplan", False) or getattr(option, "setuponly", False)
        gated = bool(self._selected) and not looked_only and self._bench.compare_fail
        if gated and not any(self.not_comparable(fullname) is None for fullname in self.played):
            told.append("not resolved: --benchmark-compare-fail had no number to compare, of any training case")
        if told:
            terminalreporter.section("without a number", red=True)
            for line in told:
                terminalreporter.write_line(line)
            _make_red(terminalreporter)


def _given(option: Any) -> dict[str, Any]:
    """What was given on the command line, read by the rules that all commands share."""
    from gpubench.cli.options import read_batch, read_counts, read_words

    def read(name: str, reader: Any) -> Any:
        text = getattr(option, f"gpubench_{name}")
        return None if text is None else reader(f"--gpubench-{name.replace('_', '-')}", text)

    given = {name: read(name, read_words) for name in ("workloads", "frameworks", "strategies", "precision", "scaling")}
    plain = {name: getattr(option, f"gpubench_{name}") for name in ("device_kind", "launches", "machine")}
    batch = read("per_device_batch", read_batch)
    plain["python"] = tuple(option.gpubench_python)
    return {**given, **plain, "devices": read("devices", read_counts), "per_device_batch": batch}


def _see_that_pytest_can(settings: Mapping[str, Any]) -> None:
    """UsageError naming what the user has set and only `gpubench run` can honour; a suite's own values are not."""
    from gpubench.harness.settings import in_toml

    asked = {
        "per_device_batch": isinstance(settings.get("per_device_batch"), str),
        "paired": settings.get("paired", "no") != "no",
        "until": "until" in settings,
        "budget_seconds": "budget_seconds" in settings,
    }
    refused = [f"{name} = {in_toml(settings[name])}" for name, wanted in asked.items() if wanted]
    if refused:
        raise UsageError(
            f"pytest measures one case after the other and cannot honour {', '.join(refused)}: use `gpubench run`, "
            "or take it out of the plan."
        )


def _path(word: str | None) -> Path | None:
    return Path(word) if word is not None else None


def _has_number(saved: dict[str, Any]) -> bool:
    """Whether a saved benchmark still has its number: of an older file a check may have taken it away."""
    info = saved.get("extra_info") or {}
    return "samples_per_second" not in info or info["samples_per_second"] is not None


def _numbered(storage: Any, number: int) -> Any:
    """pytest-benchmark's storage, told to save under the journal's number, so that the two lie side by side."""
    from pytest_benchmark.storage.file import FileStorage

    class Numbered(FileStorage):
        _next_num = f"{number:04}"

    return cast(Any, Numbered)(storage.path, storage.logger, storage.default_machine_id)


def _make_red(terminalreporter: pytest.TerminalReporter) -> None:
    """Unless the session has ended badly already."""
    session = cast(Any, terminalreporter)._session
    if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
