"""How `gpubench run` ends: what is missing of what was asked for, and the exit code that says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gpubench.cli import streams
from gpubench.files.untrusted import inert
from gpubench.harness.plan import Cases, Plan, Skipped
from gpubench.spec.errors import GpubenchError, NothingToRunError, NotResolvedError

if TYPE_CHECKING:
    from gpubench.analysis.scaling import CaseSummary
    from gpubench.files.store import Run

# The settings that name what is to be measured, with where a case has it.
NAMED = {"workloads": "workload", "frameworks": "framework", "strategies": "strategy", "precision": "precision"}


def exit_code(cases: Cases, plan: Plan, summaries: Sequence[CaseSummary]) -> int:
    """Says on standard error what is missing, a line each. The code is that of the worst of it; 0 where nothing is."""
    from gpubench.analysis.shortfall import shortfall

    found = shortfall([one.case for one in cases.runnable], summaries, plan.until)
    lacking = _not_here(cases, plan)
    for told in (*found.failed, *lacking):
        streams.tell(f"gpubench: {inert(told)}.")
    for told in found.unresolved:
        streams.tell(f"gpubench: not resolved: {inert(told)}.")
    if found.failed:
        return GpubenchError.exit_code
    if lacking:
        return NothingToRunError.exit_code
    return NotResolvedError.exit_code if found.unresolved else 0


def judged(path: Path, cases: Cases, plan: Plan, run: Run) -> int:
    """As `exit_code`. GpubenchError where a library could not be loaded for it: the records are safe all the same."""
    try:
        from gpubench.analysis.scaling import summarize_runs

        return exit_code(cases, plan, summarize_runs([run]))
    except (ImportError, MemoryError, OSError) as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise GpubenchError(
            f"The run could not be judged ({why}). Its records are safe; make its table later: gpubench show {path}"
        ) from error


@contextmanager
def however_it_is_shown(path: Path) -> Iterator[None]:
    """A finished run is neither lost nor judged by what happens to its table: one line says where it is."""
    try:
        yield
        streams.flush()
    except Exception as error:
        streams.give_up_output()
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        streams.tell(f"gpubench: The table could not be shown ({why}). Show it again: gpubench show {path}")


def _not_here(cases: Cases, plan: Plan) -> list[str]:
    """Whatever was asked for by its name and cannot run here at all, with the reasons."""
    told = []
    for setting, field in NAMED.items():
        if not getattr(plan, setting):
            continue
        measured = {getattr(one.case, field) for one in cases.runnable}
        lost: dict[str, list[Skipped]] = {}
        for one in cases.skipped:
            lost.setdefault(getattr(one.case, field), []).append(one)
        for name, skipped in lost.items():
            if name not in measured:
                reasons = "; ".join(dict.fromkeys(one.reason for one in skipped))
                told.append(f"{name} was asked for, and nothing of it can run here: {reasons}")
    return told
