"""What the sampler cost, and what its work did to the training: rounds with it against control rounds without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Protocol

from gpubench.analysis.stats import Interval, median_interval
from gpubench.spec.record import Round, RunRecord, SamplerCost


@dataclass(frozen=True, kw_only=True)
class SamplerEffect:
    """Over the launches of a run. Shares are fractions: 0.01 is 1 %.

    `core_share` is CPU time over time; `slowdown` says by how much a step takes longer while devices are sampled, the
    median over `control_rounds`, None where there was none; `interval` is its 95 % interval, None under three.
    """

    core_share: float | None
    sweep_seconds_p50: float | None
    sweep_seconds_p99: float | None
    late_seconds_p99: float | None
    dropped_ticks: int
    slowed_calls: list[str]
    control_rounds: int
    slowdown: float | None
    interval: Interval | None


class Sampled(Protocol):
    """A launch, as far as it is asked for here."""

    @property
    def cost(self) -> SamplerCost | None: ...
    @property
    def slowdown(self) -> float | None: ...


def sampler_effect(launches: Sequence[Sampled]) -> SamplerEffect | None:
    """None where nothing was sampled."""
    costs = [launch.cost for launch in launches if launch.cost is not None]
    if not costs:
        return None
    timed = [cost for cost in costs if cost.seconds]
    ratios = [launch.slowdown for launch in launches if launch.slowdown is not None]
    interval = median_interval(ratios)
    return SamplerEffect(
        core_share=sum(c.cpu_seconds for c in timed) / sum(c.seconds or 0.0 for c in timed) if timed else None,
        sweep_seconds_p50=_middle([cost.sweep_seconds_p50 for cost in costs]),
        sweep_seconds_p99=_worst([cost.sweep_seconds_p99 for cost in costs]),
        late_seconds_p99=_worst([cost.late_seconds_p99 for cost in costs]),
        dropped_ticks=sum(cost.dropped_ticks for cost in costs),
        slowed_calls=sorted({name for cost in costs for name in cost.slowed_calls}),
        control_rounds=len(ratios),
        slowdown=median(ratios) - 1 if ratios else None,
        interval=Interval(interval.low - 1, interval.high - 1) if interval else None,
    )


def with_over_without(record: RunRecord) -> float | None:
    """A step's time in the rounds next to the control round, over its time in the control round.

    One from each side where there are both, so that steady drift falls out. None where one of them was not sampled:
    the sampler may have ended, or hung.
    """
    control = record.telemetry.control
    if control is None:
        return None
    before = [each for each in record.rounds if each.end_ns <= control.start_ns]
    after = [each for each in record.rounds if each.start_ns >= control.end_ns]
    neighbours = [*before[-1:], *after[:1]]
    sampled = {each.index for device in record.telemetry.devices for each in device.rounds if each.samples}
    if not neighbours or not sampled.issuperset(each.index for each in neighbours):
        return None
    return geometric_mean(map(_step_seconds, neighbours)) / _step_seconds(control)


def _step_seconds(each: Round) -> float:
    return each.seconds / each.steps


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _worst(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
