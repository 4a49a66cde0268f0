"""Whether the machine let the launch be measured: steady steps, cores of its own, ranks in step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from gpubench.analysis.checks.limits import (
    APART_SEVERE,
    APART_WARNING,
    IMBALANCE_LIMIT,
    LOAD_SEVERE,
    LOAD_WARNING,
    THROTTLE_SEVERE,
    THROTTLE_WARNING,
    UNLIKE_SEVERE,
    UNLIKE_WARNING,
)
from gpubench.analysis.checks.work import by_rank
from gpubench.analysis.load import RoundLoad, mean_load, round_loads
from gpubench.spec.invariants import rounds
from gpubench.spec.record import Check, RunRecord
from gpubench.spec.steady import steady_seconds, trend


def _steady_state(record: RunRecord) -> Iterator[Check]:
    """By what the step times say, where the warm-up was called steady."""
    warm_up = record.warmup
    if warm_up is None:
        return
    found = trend(warm_up.step_seconds) if warm_up.steady else None
    if not warm_up.steady or found in ("faster", "slower"):
        settled = f"step times did not settle in {warm_up.steps} warm-up steps"
        getting = f"step times were called steady, and were still getting {found}"
        yield Check(
            name="no_steady_state",
            severity="severe",
            message=getting if warm_up.steady else warm_up.verdict or settled,
            remedy="stop other work on the machine, or allow a longer warm-up",
        )


def _unlike_warm_up(record: RunRecord) -> Iterator[Check]:
    """A launch that was steady goes on as it was: else it is unknown which of the two the device can do."""
    warm_up = record.warmup
    if warm_up is None or not warm_up.steady or not warm_up.step_seconds or not record.rounds:
        return
    before = steady_seconds(warm_up.step_seconds)
    since = median(each.seconds / each.steps for each in record.rounds)
    apart = max(since, before) / max(min(since, before), 1e-12)
    if apart > UNLIKE_WARNING:
        yield Check(
            name="unlike_warm_up",
            severity="severe" if apart > UNLIKE_SEVERE else "warning",
            message=f"a step took {since:.3g} s in the rounds, and {before:.3g} s at the end of a steady warm-up",
            remedy="stop other work on the machine, and see that the device keeps its clock: one of the two was not "
            "its steady state",
        )


def _not_quiet(record: RunRecord) -> Iterator[Check]:
    """A warning: what load there was in the rounds themselves decides whether the launch counts."""
    schedule = record.schedule
    if schedule is not None and schedule.quiet is False:
        waited = schedule.waited_for_quiet_seconds or 0.0
        yield Check(
            name="not_quiet",
            severity="warning",
            message=f"the launch began although its devices had not become quiet within {waited:.0f} s",
            remedy="stop other work on the machine, or wait for longer with --wait-quiet",
        )


def _load_of_others(record: RunRecord) -> Iterator[Check]:
    loads = round_loads(record)
    yield from _load(
        loads,
        "foreign",
        name="foreign_load",
        who="other processes took",
        remedy="stop other work on the machine, or give the run cores that nobody else uses",
    )
    yield from _load(
        loads,
        "stolen",
        name="stolen_time",
        who="other guests of the host took",
        remedy="measure on a machine, or on an instance type, whose cores are not shared",
    )


def _load(loads: Sequence[RoundLoad], what: str, *, name: str, who: str, remedy: str) -> Iterator[Check]:
    """Severe by the mean over all rounds, as the throughput is made of all; a word where any round is over."""
    over = [str(load.index) for load in loads if (getattr(load, what) or 0.0) > LOAD_WARNING]
    if over and (mean := mean_load(loads, what)) is not None:
        which = f"round{'s' if len(over) > 1 else ''} {', '.join(over)} of {len(loads)}"
        where = "every round" if len(over) == len(loads) else which
        yield Check(
            name=name,
            severity="severe" if mean > LOAD_SEVERE else "warning",
            message=f"{who} {100 * mean:.0f} % of the cores' time (over {100 * LOAD_WARNING:.0f} % in {where})",
            remedy=remedy,
        )


def _swap(record: RunRecord) -> Iterator[Check]:
    moved = [record.host.swap_in_bytes, record.host.swap_out_bytes]
    if any(moved):
        told = ", ".join(f"{(b or 0) / 2**20:.1f} MiB {way}" for b, way in zip(moved, ("in", "out"), strict=True))
        yield Check(
            name="swap",
            severity="severe",
            message=f"the machine swapped during the rounds: {told}",
            remedy="use a smaller batch, close other programs, or measure on a machine with more memory",
        )


def _cpu_throttled(record: RunRecord) -> Iterator[Check]:
    """Of the CPU time that the launch wanted, the share that a CPU quota withheld: used and withheld make up wanted."""
    shares = []
    withheld = wanted = 0.0
    periods = throttled = 0
    for each in record.rounds:
        if each.cpu_throttled_seconds is None:
            continue
        used = sum(each.rank_cpu_seconds)
        withheld += each.cpu_throttled_seconds
        wanted += used + each.cpu_throttled_seconds
        shares.append(each.cpu_throttled_seconds / max(used + each.cpu_throttled_seconds, 1e-9))
        periods += each.cpu_periods or 0
        throttled += each.cpu_throttled_periods or 0
    if shares and max(shares) > THROTTLE_WARNING:
        share = withheld / wanted
        yield Check(
            name="cpu_throttled",
            severity="severe" if share > THROTTLE_SEVERE else "warning",
            message=f"a CPU quota stopped the launch in {throttled} of {periods} periods: "
            f"it withheld {100 * share:.0f} % of the CPU time that was wanted",
            remedy="raise the container's CPU limit, or measure fewer CPU shares",
        )


def _ranks_apart(record: RunRecord) -> Iterator[Check]:
    """A round is timed by its slowest rank: what ranks do one after another is no more than what one does."""
    shares = [rounds.apart(each) for each in record.rounds if len(each.rank_seconds) > 1]
    if shares and max(shares) > APART_WARNING:
        mean = sum(shares) / len(shares)
        yield Check(
            name="ranks_apart",
            severity="severe" if mean > APART_SEVERE else "warning",
            message=f"from the first rank's start to the last one's end, rounds lasted {100 * mean:.2g} % longer than "
            "their slowest rank took",
            remedy="stop other work on the machine: it kept ranks from starting a round together",
        )


def _imbalance(record: RunRecord) -> Iterator[Check]:
    if not record.rounds or len(record.rounds[0].rank_seconds) < 2:
        return
    seconds = by_rank(record, "rank_seconds")
    if len(seconds) < 2 or max(seconds) <= 0:
        return
    waste = 1 - min(seconds) / max(seconds)
    if waste > IMBALANCE_LIMIT:
        slow = seconds.index(max(seconds))
        yield Check(
            name="imbalance",
            severity="warning",
            message=f"rank {slow} took {seconds[slow]:.3g} s, the fastest rank {100 * waste:.0f} % less",
            remedy=f"look at the clocks, temperature and other processes of rank {slow}'s device",
        )


def unlike_devices(record: RunRecord) -> Iterator[Check]:
    kinds = {(device.name, len(device.cores)) for device in record.devices}
    if len(kinds) > 1:
        names = " and ".join(sorted({device.name for device in record.devices}))
        yield Check(
            name="unlike_devices",
            severity="warning",
            message=f"the devices are not equal ({names}): an efficiency against one of them says little",
            remedy="choose equal ones with CUDA_VISIBLE_DEVICES",
        )


DOUBTS: tuple[Callable[[RunRecord], Iterator[Check]], ...] = (
    _steady_state,
    _unlike_warm_up,
    _not_quiet,
    _load_of_others,
    _swap,
    _cpu_throttled,
    unlike_devices,
    _ranks_apart,
    _imbalance,
)
