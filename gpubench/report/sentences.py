"""Verdicts in plain words, and how the numbers are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gpubench.analysis.checks import EFFICIENCY_LIMIT, IMBALANCE_LIMIT, NOISE_LIMIT
from gpubench.analysis.sampling import SamplerEffect
from gpubench.analysis.scaling import CaseSummary
from gpubench.analysis.stats import BOOTSTRAP_LAUNCHES, FEWEST_LAUNCHES, SEQUENTIAL_QUANTILE
from gpubench.analysis.verdict import MARGIN, SCALES_FROM, Verdict
from gpubench.report.marks import Kind
from gpubench.report.words import clean, device_noun, figure, fixed, with_interval

WORDS = {
    "scales": "scales",
    "speeds_up": "scales in part",
    "does_not_scale": "does not scale",
    "not_resolved": "not resolved",
    "no_number": "no number",
}


@dataclass(frozen=True)
class Finding:
    """One verdict as it is read: its kind, the word for it, which series, and the rest of the sentence."""

    kind: str
    word: str
    series: str
    text: str


def findings(judged: Sequence[Verdict]) -> list[Finding]:
    """What scales first, what could not be told last; the most efficient first within each."""
    kinds = list(WORDS)
    order = sorted(judged, key=lambda one: (kinds.index(one.kind), -(one.summary.scaling_efficiency or 0.0)))
    several = len({one.summary.series[-1] for one in judged}) > 1
    return [finding(one, several) for one in order]


def finding(judged: Verdict, several_batches: bool = False) -> Finding:
    case, summary = judged.summary.case, judged.summary
    devices = f"{case.n_devices} {device_noun(case.device_kind, case.n_devices)}"
    setting = [case.workload] + ([case.precision] if case.precision != "fp32" else [])
    setting += ["strong scaling"] if case.scaling == "strong" else []
    setting += [f"batch {judged.summary.series[-1]}"] if several_batches else []
    series = clean(f"{case.framework} {case.strategy}, {', '.join(setting)}")
    text = f"on {devices}"
    if summary.speedup is not None:
        efficiency = with_interval(summary.scaling_efficiency, summary.scaling_efficiency_interval)
        paired = " (paired)" if summary.pair_ratios else ""
        text = f"{devices} train {fixed(summary.speedup)} times as fast as one, efficiency {efficiency}{paired}"
    reason = f": {judged.reason}" if judged.reason else ""
    return Finding(judged.kind, WORDS[judged.kind], series, clean(text + reason))


def losses(summaries: Sequence[CaseSummary]) -> str:
    """'1 launch failed (1 oom); 2 cases were skipped', or nothing where all went well."""
    failed = Counter(lost.outcome.status for s in summaries for lost in s.lost if lost.outcome.status != "skipped")
    skipped = sum(any(lost.outcome.status == "skipped" for lost in s.lost) for s in summaries)
    told = []
    if failed:
        kinds = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in sorted(failed.items()))
        told.append(f"{_count(failed.total(), 'launch', 'launches')} failed ({kinds})")
    if skipped:
        told.append(f"{_count(skipped, 'case', 'cases')} skipped")
    return "; ".join(told)


def sampling(effect: SamplerEffect | None) -> str:
    """What the sampler took, and what it did to the training; nothing where nothing was sampled."""
    if effect is None:
        return ""
    told = []
    if effect.core_share is not None:
        told.append(f"Sampling took {figure(100 * effect.core_share)} % of a core")
    if effect.sweep_seconds_p50 is not None:
        most = _milliseconds(effect.sweep_seconds_p99)
        told.append(f"{'a' if told else 'A'} sweep took {_milliseconds(effect.sweep_seconds_p50)} (99 % under {most})")
    if effect.late_seconds_p99 is not None:
        told.append(f"99 % of sweeps were less than {_milliseconds(effect.late_seconds_p99)} late")
    told.append(f"{_count(effect.dropped_ticks, 'tick was', 'ticks were')} dropped")
    if effect.slowed_calls:
        told.append(f"too slow for every sweep: {', '.join(effect.slowed_calls)}")
    return clean(f"{'; '.join(told)}. {_perturbation(effect)}")


def _perturbation(effect: SamplerEffect) -> str:
    if effect.slowdown is None:
        return "There was no control round without sampling, so what it did to the training is not known."
    percent = 100 * effect.slowdown
    word = f"{abs(percent):.2f} % {'shorter' if percent < 0 else 'longer'}"
    rounds = _count(effect.control_rounds, "control round", "control rounds")
    if effect.interval is None:
        return f"Steps were {word} with sampling than without, by {rounds}; it takes three for an interval."
    low, high = 100 * effect.interval.low, 100 * effect.interval.high
    return f"Steps were {word} with sampling than without (95 % interval {low:+.2f} to {high:+.2f} %), by {rounds}."


def _milliseconds(seconds: float | None) -> str:
    return f"{figure(None if seconds is None else 1e3 * seconds, 2)} ms"


MARKS: dict[Kind, str] = {
    "round": "timed round",
    "loaded": "timed round that others disturbed",
    "control": "control round, with the sampler paused",
    "held": "clock held down by heat or hardware",
    "capped": "at the power limit, as is usual under load",
}

DEFINITIONS = (
    (
        "Throughput",
        "samples counted by the workers over the seconds of the slowest rank, over all timed rounds of a launch; the "
        "median across launches. A launch is a fresh start of all processes. Warm-up is not timed.",
    ),
    (
        "Baseline",
        "the strategy “single” on one device: same workload, framework, precision, machine and kind of scaling, with "
        "the same batch per device (weak) or the same global batch (strong).",
    ),
    ("Speed-up", "throughput over the baseline's."),
    ("Efficiency", "speed-up over devices; 1 is ideal. Own efficiency compares with the same strategy on one device."),
    (
        "Interval",
        f"95 %, from launches, never from steps within one. Welch's t on logarithms under {BOOTSTRAP_LAUNCHES} "
        f"launches, from there a bootstrap of launches; none under {FEWEST_LAUNCHES}. Where gang and baseline took "
        "turns (paired), the ratios of neighbouring rounds are used, one figure a launch. Where launches were added "
        f"until an interval was narrow, it is Student's or Welch's t of {100 * SEQUENTIAL_QUANTILE:g} %, which then "
        "holds the truth about 95 % of the time.",
    ),
    (
        "Verdict",
        f"“Scales”: the whole interval of the efficiency is at {SCALES_FROM:.2f} or above. “Scales in part”: the whole "
        f"interval is below that, and faster than one device by more than {100 * MARGIN:g} %. “Does not scale”: the "
        "whole interval is not even that. “Not resolved”: the interval holds more than one of these; it stands beside.",
    ),
    (
        "Busy",
        "GPU: the share of time in which any kernel ran, which does not say how full the GPU was. CPU share: the "
        "share of time its cores were busy. A mean over the timed rounds.",
    ),
    ("Memory", "GPU: the most in use on one device during the rounds. CPU share: the peak of one worker process."),
    ("Power and energy", "all devices of the case together, over the timed rounds; host and network are not in."),
    (
        "Doubts",
        "every launch is checked: devices, samples, replicas, parameters, loss, steady state, busy cores, ranks more "
        f"than {100 * IMBALANCE_LIMIT:g} % apart, launches more than {100 * NOISE_LIMIT:g} % apart, efficiency above "
        f"{EFFICIENCY_LIMIT}, other load, swap, throttling. A severe doubt about the conditions sets its launch aside; "
        "one about the work itself takes the number away.",
    ),
    ("Dash", "not measured, or not measurable here. It is never zero."),
)


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"
