"""What `gpubench run --dry-run` says: the launches that would run, and what is known beforehand of the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpubench.analysis.stats import FEWEST_TO_STOP
from gpubench.harness.plan import Cases, Plan, Runnable, arranged, baseline_of
from gpubench.harness.schedule import missing, missing_pairs
from gpubench.spec.identity import cpu_limit

if TYPE_CHECKING:
    from gpubench.spec.case import Case
    from gpubench.spec.record import Machine, RunRecord


def as_text(
    cases: Cases, plan: Plan, this: Machine, records: Sequence[RunRecord] = (), forecast: str | None = None
) -> str:
    """A line a case, and below them how many launches are to run.

    `records` are those of a run that is continued; `forecast` has the words on how long a run with `until` takes.
    """
    plan = plan if plan.until is None else replace(plan, launches=max(plan.launches, FEWEST_TO_STOP))
    alone, paired = arranged(cases, plan)
    if isinstance(plan.per_device_batch, str):  # the records are of batches that the cases do not have yet
        records = ()
    todo = Counter(one.case for one, _ in missing(alone, plan.launches, plan.seed, records))
    pairs = Counter(one.case for one, _ in missing_pairs(paired, range(1, plan.launches + 1), records))
    limit = cpu_limit(this)
    lines = [f"A control group limits the CPUs to {limit}."] if limit else []
    lines += [_line(one, pairs if one in paired else todo, plan, one in paired) for one in (*alone, *paired)]
    lines += [f"skip  {skipped.case.id}: {skipped.reason}" for skipped in cases.skipped]
    return "\n".join([*lines, "", *_in_all(cases, plan, todo.total(), pairs.total(), forecast)])


def _line(one: Runnable, counts: Counter[Case], plan: Plan, is_paired: bool) -> str:
    count = counts[one.case]
    what = _count(count, "pair", "pairs") + " with `single`" if is_paired else _count(count, "launch", "launches")
    missing_of = f" (of {plan.launches})" if count < plan.launches else ""
    where = ", ".join(device.id for device in one.devices)
    return f"run   {one.case.id} x {what}{missing_of} on {where}, with {one.python}"


def _in_all(cases: Cases, plan: Plan, n_alone: int, n_pairs: int, forecast: str | None) -> list[str]:
    launches = n_alone + 2 * n_pairs
    if not cases.runnable:
        return ["Nothing would run."]
    pairs = f", {2 * n_pairs} of them in {_count(n_pairs, 'pair', 'pairs')} whose rounds take turns" if n_pairs else ""
    told = [f"In all {_count(launches, 'launch', 'launches')}{pairs}."]
    if launches:
        seconds = launches * plan.rounds * plan.round_seconds
        told.append(
            f"Their rounds alone take about {_time(seconds)}: {plan.rounds} of {plan.round_seconds:g} s a launch. "
            "Starting, compiling and warming up come on top; how long these take is not known beforehand."
        )
    if isinstance(plan.per_device_batch, str):
        told.append("A search for the batch comes first: some ten short launches for each workload and framework.")
    gangs = [one for one in cases.runnable if baseline_of(one, cases.runnable)]
    if plan.paired == "auto" and plan.until is None and gangs:
        told.append(
            f"Up to {len(gangs) * plan.launches} pairs of launches more follow where launches differ by over 5 %."
        )
    if plan.until is not None:
        told.append(f"Then more are added, one of each case at a time, until each case has its {plan.until}.")
        told += [forecast] if forecast else []
    if plan.wait_quiet_seconds is not None:
        told.append(f"Each waits up to {_time(plan.wait_quiet_seconds)} for quiet devices.")
    if plan.budget_seconds is not None:
        told.append(f"The budget of {_time(plan.budget_seconds)} may end the run before.")
    return told


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
