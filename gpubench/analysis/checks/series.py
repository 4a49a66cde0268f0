"""The doubts that only show when launches and cases are seen together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gpubench.analysis import stats
from gpubench.analysis.checks.limits import DRIFT_LIMIT, EFFICIENCY_LIMIT, NOISE_LIMIT
from gpubench.spec.identity import Identity, identity
from gpubench.spec.record import Check

if TYPE_CHECKING:
    from gpubench.analysis.scaling import CaseSummary

Found = tuple["CaseSummary", Check]
Points = list[tuple[float, float]]  # when a launch started, in seconds, and its samples per second


def series_doubts(summaries: Sequence[CaseSummary]) -> list[Found]:
    """Each with the case that it is about."""
    found = [(summary, check) for summary in summaries for check in _case_doubts(summary)]
    series: dict[object, list[CaseSummary]] = defaultdict(list)
    for summary in summaries:
        series[summary.series].append(summary)
    for members in series.values():
        members.sort(key=lambda member: member.case.n_devices)
        found.extend(_falling(members))
        found.extend(_mixed_software(members))
    found.extend(_drift_over_runs(summaries))
    return found


def _case_doubts(summary: CaseSummary) -> Iterator[Check]:
    efficiency, interval = summary.scaling_efficiency, summary.scaling_efficiency_interval
    if efficiency is not None and efficiency > EFFICIENCY_LIMIT:
        sure = interval is not None and interval.low > EFFICIENCY_LIMIT
        words = "more than the devices can give" if sure else "the interval does not say that it is more than 1"
        yield Check(
            name="efficiency_above_one",
            severity="severe" if sure else "warning",
            message=f"scaling efficiency {efficiency:.2f}: {words if interval else 'and no interval to judge it by'}",
            remedy="the baseline is too slow (other load, clocks, cold start) or the work differs: measure both again",
        )
    if summary.launch_noise is not None and summary.launch_noise > NOISE_LIMIT:
        yield Check(
            name="noisy_launches",
            severity="warning",
            message=f"launches differ by {100 * summary.launch_noise:.0f} % (standard deviation)",
            remedy="stop other work on the machine, or run more launches",
        )
    yield from _drift_within_launches(summary)


def _drift_within_launches(summary: CaseSummary) -> Iterator[Check]:
    """A trend over the rounds that all launches share: the whole interval of their mean change is off 0."""
    by_rounds: dict[int, list[stats.Launch]] = defaultdict(list)
    for one in summary.launches:
        by_rounds[len(one.seconds)].append(one)
    alike = [launches for n_rounds, launches in by_rounds.items() if n_rounds >= 3]
    if sum(map(len, alike)) < stats.FEWEST_LAUNCHES:
        return
    changes = np.concatenate([stats.trends([one.rates for one in launches]) for launches in alike])
    low, high = stats.t_log_interval(np.exp(changes))
    mean = float(np.exp(np.mean(changes))) - 1
    if abs(mean) > DRIFT_LIMIT and (low > 1 or high < 1):
        yield Check(
            name="drift_within_launches",
            severity="warning",
            message=f"throughput changes by {100 * mean:+.1f} % from first round to last, in all launches alike",
            remedy="warm up for longer, until caches and clocks settle; look at temperature and clocks over the rounds",
        )


def _drift_over_runs(summaries: Sequence[CaseSummary]) -> Iterator[Found]:
    """A trend of all cases of a run together, each against its own mean, over the time of their launches."""
    runs: dict[tuple[Identity, str], list[tuple[CaseSummary, Points]]] = defaultdict(list)
    for summary in summaries:
        machine = identity(summary.machine)
        by_run: dict[str, Points] = defaultdict(list)
        for record, launch in zip(summary.counted, summary.launches, strict=True):
            with suppress(ValueError, OverflowError):  # in a file from elsewhere it need not be a time
                seconds = datetime.fromisoformat(record.started_at).timestamp()
                by_run[record.run_id].append((seconds, launch.samples_per_second))
        for run_id, points in by_run.items():
            runs[machine, run_id].append((summary, points))
    for members in runs.values():
        change = _change_over_run([points for _, points in members])
        if change is not None and abs(change) > DRIFT_LIMIT:
            check = Check(
                name="drift_over_run",
                severity="warning",
                message=f"throughput changed by {100 * change:+.1f} % from the first launches of the run to the last",
                remedy="the machine got warmer or busier in the meantime; interleaved launches keep ratios fair, "
                "absolute figures are of that hour",
            )
            yield from ((summary, check) for summary, _ in members)


def _change_over_run(cases: Sequence[Points]) -> float | None:
    """By what share throughput changed over the launches of a run; None where no trend stands out from the noise."""
    seconds, logs = [], []
    for points in cases:
        times, rates = np.array(points, dtype=float).T
        seconds.append(times - times.mean())
        logs.append(np.log(rates) - np.log(rates).mean())
    x = np.concatenate(seconds)
    slope = stats.clear_slope(x, np.concatenate(logs), n_means=len(cases))
    return None if slope is None else math.expm1(slope * float(np.ptp(x)))  # over the time that launches of a case span


def _mixed_software(series: Sequence[CaseSummary]) -> Iterator[Found]:
    """Against the case that each is compared with: the baseline, or the smallest of its series."""
    for summary in series:
        for package, versions in _versions(summary, summary.baseline or series[0]).items():
            if len(versions) > 1:
                yield (
                    summary,
                    Check(
                        name="mixed_software",
                        severity="severe",
                        message=f"{package} {' and '.join(sorted(versions))} are compared in one series",
                        remedy="measure the whole series again in one environment",
                    ),
                )


def _versions(summary: CaseSummary, other: CaseSummary) -> dict[str, set[str]]:
    versions: dict[str, set[str]] = defaultdict(set)
    ended_well = [record.software for record in summary.records + other.records if record.outcome.status == "ok"]
    for software in {id(each): each for each in ended_well}.values():  # records that were reduced share them
        for package, version in software.items():
            versions[package].add(version)
    return dict(sorted(versions.items()))


def _falling(series: Sequence[CaseSummary]) -> Iterator[Found]:
    """Real systems do this, so the number stays; what is doubted is that more devices were of any use."""
    measured = [summary for summary in series if summary.samples_per_second is not None]
    for fewer, more in pairwise(measured):
        was, now = fewer.samples_per_second, more.samples_per_second
        interval = stats.ratio_interval(more.launches, fewer.launches)
        if was is not None and now is not None and now < was and (interval is None or interval.high < 1):
            check = Check(
                name="throughput_falls",
                severity="warning",
                message=f"{now:.4g} samples/s on {more.case.n_devices} devices, {was:.4g} on {fewer.case.n_devices}",
                remedy="the exchange between devices costs more than they add; try a larger per-device batch",
            )
            yield more, check
