"""`pytest benchmarks/`: every training case a test, its measured rounds played into pytest-benchmark.

pytest-benchmark's own options then work as documented: --benchmark-save, -autosave, -json, -compare, -compare-fail,
-histogram, -columns. It sees seconds a step, so its OPS column is steps per second. Launches of a case follow one
another here; `gpubench run` interleaves those of all cases.

pytest loads this plugin in every project that gpubench is installed for, where it must not be noticed: what it adds
carries the prefix `gpubench`, and it looks nothing up before a test or an option asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpubench.playback import PLAYBACK as PLAYBACK
from gpubench.playback import play

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from gpubench.analysis.scaling import CaseSummary
    from gpubench.benchmarking import Benchmarks
    from gpubench.harness.plan import Runnable, Skipped
    from gpubench.spec.record import RunRecord

CASE = "gpubench_case"  # the argument that a test of training cases takes
PREFIX = "--gpubench-"

OPTIONS: dict[str, dict[str, Any]] = {
    "suite": {"help": "quick, standard or full (default: quick)"},
    "plan": {"metavar": "FILE", "help": "TOML file with these settings"},
    **{
        name: {"metavar": "A,B", "help": f"only these {name}"}
        for name in ("workloads", "frameworks", "strategies", "devices", "precision", "scaling")
    },
    "device-kind": {"choices": ["auto", "cpu", "gpu"], "help": "GPUs or CPU shares (default: auto)"},
    "per-device-batch": {"metavar": "N,N", "help": "samples that one device sees in a step; each a series"},
    "launches": {"type": int, "metavar": "N", "help": "fresh process groups of each case"},
    "python": {
        "action": "append",
        "default": [],
        "metavar": "NAME=PATH",
        "help": "the Python that has a framework (repeatable)",
    },
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpubench", "multi-GPU scaling benchmarks")
    for name, about in OPTIONS.items():
        group.addoption(PREFIX + name, dest=_dest(name), **about)
    group.addoption(f"{PREFIX}machine", metavar="NAME", help="call this machine NAME (default: its host name)")


def add_short_options(parser: pytest.Parser) -> None:
    """`--devices` for `--gpubench-devices`, and so on: for the conftest.py of a folder of benchmarks.

    A spelling that pytest, another plugin or another conftest.py has already taken is left to it.
    """
    taken = {name for group in parser._groups for option in group.options for name in option.names()}
    group = parser.getgroup("gpubench")
    for name, about in OPTIONS.items():
        if f"--{name}" not in taken:
            group.addoption(f"--{name}", dest=_dest(name), **about)


def pytest_configure(config: pytest.Config) -> None:
    from gpubench.benchmarking import Benchmarks

    benchmarks = Benchmarks(config, CASE)
    config.pluginmanager.register(benchmarks, "gpubench-benchmarks")
    if not hasattr(config, "workerinput") and any(getattr(config.option, _dest(name)) for name in OPTIONS):
        benchmarks.settle()  # a mistake in the options is told before anything is collected


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if CASE not in metafunc.fixturenames:
        return
    benchmarks = _benchmarks(metafunc.config)
    cases = benchmarks.cases()
    everything: list[Runnable | Skipped] = [*cases.runnable, *cases.skipped]
    for name in sorted({word for one in everything for word in _words(one)}):
        metafunc.config.addinivalue_line("markers", f"{name}: training cases of {name}")
    in_reference = benchmarks.reference_cases()
    parameters = [pytest.param(one, id=one.case.id, marks=_marks(one)) for one in cases.runnable]
    for one in cases.skipped:
        # Where a gate has a number to compare with, a case that cannot run now is not passed over: `measure` fails it.
        passed_over = [] if one.case.id in in_reference else [pytest.mark.skip(reason=one.reason)]
        parameters.append(pytest.param(one, id=one.case.id, marks=[*_marks(one), *passed_over]))
    metafunc.parametrize(CASE, parameters)


@pytest.fixture
def gpubench_measure(request: pytest.FixtureRequest, benchmark: BenchmarkFixture) -> Measure:
    """Measures a training case and plays its rounds into pytest-benchmark."""
    return Measure(_benchmarks(request.config), benchmark)


class Measure:
    """`gpubench_measure(gpubench_case)` returns the records of the case's launches.

    It fails the test where a launch failed, where a check took the case's number away, and where
    --benchmark-compare-fail has no number to judge by. Only launches that count are played into pytest-benchmark.
    """

    def __init__(self, benchmarks: Benchmarks, benchmark: BenchmarkFixture) -> None:
        self._benchmarks = benchmarks
        self._benchmark = benchmark

    def __call__(self, one: Runnable | Skipped) -> list[RunRecord]:
        from gpubench.harness.plan import Skipped

        if isinstance(one, Skipped):
            pytest.fail(f"not resolved: the reference has a number, and this cannot run now: {one.reason}", False)
        smoke = self._benchmark.disabled
        try:
            records = self._benchmarks.measure(one, smoke)
        except KeyboardInterrupt:
            self._benchmark.skipped = True  # else its unused fixture is an error where warnings are, with a traceback
            raise
        summary = self._benchmarks.summary_of(one.case)
        # pytest-benchmark would write whatever repr() makes of the whole case, which is no JSON.
        self._benchmark.params = {CASE: one.case.id}
        if summary.no_number is None and not smoke:
            play(self._benchmark, summary)
            self._benchmarks.played[self._benchmark.fullname] = one.case
        if why := self._why_red(summary, smoke):
            pytest.fail(why, pytrace=False)
        return records

    def _why_red(self, summary: CaseSummary, smoke: bool) -> str | None:
        from gpubench.analysis.checks import sets_aside
        from gpubench.analysis.shortfall import why_failed

        lost = [record for record in summary.records if record.outcome.status not in ("ok", "skipped")]
        if lost:
            outcome = lost[-1].whole().outcome
            tail = "\n".join(f"  | {line}" for line in outcome.log_tail)
            return f"launch {lost[-1].launch}: {outcome.status}: {outcome.message}\n{outcome.remedy}\n{tail}"
        of_work = any(check.severity == "severe" and not sets_aside(check) for check in summary.checks)
        if (why := why_failed(summary)) and (of_work or not smoke):  # one short launch is no measurement
            return f"{summary.case.id} {why}"
        return None if smoke else self._benchmarks.not_comparable(self._benchmark.fullname)


def _dest(name: str) -> str:
    return "gpubench_" + name.replace("-", "_")


def _words(one: Runnable | Skipped) -> set[str]:
    """The markers of a case."""
    gpu = {"gpu"} if one.case.device_kind == "gpu" else set()
    return {one.case.workload, one.case.framework, one.case.strategy} | gpu


def _marks(one: Runnable | Skipped) -> list[pytest.MarkDecorator]:
    # Where every launch fails there is nothing to play back; the failure says so better than this warning.
    unused = pytest.mark.filterwarnings("ignore:Benchmark fixture was not used at all")
    return [*(getattr(pytest.mark, word) for word in sorted(_words(one))), unused]


def _benchmarks(config: pytest.Config) -> Benchmarks:
    from gpubench.benchmarking import Benchmarks

    plugin = config.pluginmanager.getplugin("gpubench-benchmarks")
    assert isinstance(plugin, Benchmarks)
    return plugin
