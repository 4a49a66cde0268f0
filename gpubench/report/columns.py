"""The columns of the results, defined once for the terminal, Markdown, CSV and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpubench.analysis.scaling import CaseSummary
from gpubench.analysis.stats import Interval
from gpubench.report.notes import note_names, notes
from gpubench.report.words import DASH, clean, figure, fixed, gib, with_interval

Value = str | int | float | None


@dataclass(frozen=True)
class Column:
    """A column as people read it, and the exports behind it.

    `text` gives a cell, DASH for what was not measured. `exports` maps export names to getters; the first is the one
    that the column sorts by.
    """

    name: str
    text: Callable[[CaseSummary], str]
    exports: Mapping[str, Callable[[CaseSummary], Value]]
    unit: str = ""
    is_number: bool = True
    may_fold: bool = False  # said once above the table where it is the same in every row

    @property
    def key(self) -> str:
        return next(iter(self.exports))

    def sort_value(self, summary: CaseSummary) -> Value:
        """What the column sorts by."""
        return self.exports[self.key](summary)


def _case(name: str, key: str, is_number: bool = False, may_fold: bool = False) -> Column:
    """A column of the case itself."""
    exports = {key: lambda s: getattr(s.case, key)}
    return Column(name, lambda s: clean(str(getattr(s.case, key))), exports, is_number=is_number, may_fold=may_fold)


def _low(interval: Interval | None) -> float | None:
    return None if interval is None else interval.low


def _high(interval: Interval | None) -> float | None:
    return None if interval is None else interval.high


COLUMNS: tuple[Column, ...] = (
    _case("workload", "workload", may_fold=True),
    _case("framework", "framework"),
    _case("strategy", "strategy"),
    _case("devices", "n_devices", is_number=True),
    _case("batch per device", "per_device_batch", is_number=True, may_fold=True),
    _case("global batch", "global_batch", is_number=True),
    Column(
        "scaling",
        lambda s: f"{s.case.scaling} {clean(s.case.precision)}",
        {"scaling": lambda s: s.case.scaling, "precision": lambda s: s.case.precision},
        is_number=False,
        may_fold=True,
    ),
    Column(
        "samples/s",
        lambda s: clean(s.no_number.name) if s.no_number else figure(s.samples_per_second),
        {
            "samples_per_second": lambda s: s.samples_per_second,
            "samples_per_second_low": lambda s: _low(s.samples_per_second_interval),
            "samples_per_second_high": lambda s: _high(s.samples_per_second_interval),
        },
    ),
    Column(
        "per device",
        lambda s: figure(s.samples_per_second_per_device),
        {"samples_per_second_per_device": lambda s: s.samples_per_second_per_device},
        "samples/s",
    ),
    Column(
        "speed-up",
        lambda s: fixed(s.speedup),
        {
            "speedup": lambda s: s.speedup,
            "speedup_low": lambda s: _low(s.speedup_interval),
            "speedup_high": lambda s: _high(s.speedup_interval),
        },
    ),
    Column(
        "efficiency",
        lambda s: with_interval(s.scaling_efficiency, s.scaling_efficiency_interval),
        {
            "scaling_efficiency": lambda s: s.scaling_efficiency,
            "scaling_efficiency_low": lambda s: _low(s.scaling_efficiency_interval),
            "scaling_efficiency_high": lambda s: _high(s.scaling_efficiency_interval),
        },
        "95 % interval",
    ),
    Column(
        "own efficiency",
        lambda s: fixed(s.own_scaling_efficiency),
        {
            "own_scaling_efficiency": lambda s: s.own_scaling_efficiency,
            "own_scaling_efficiency_low": lambda s: _low(s.own_scaling_efficiency_interval),
            "own_scaling_efficiency_high": lambda s: _high(s.own_scaling_efficiency_interval),
        },
    ),
    Column(
        "busy",
        lambda s: figure(s.usage.utilization_percent, 2),
        {
            "utilization_percent": lambda s: s.usage.utilization_percent,
            "utilization_percent_min": lambda s: s.usage.utilization_percent_min,
            "utilization_percent_max": lambda s: s.usage.utilization_percent_max,
        },
        "%",
    ),
    Column(
        "memory",
        lambda s: gib(s.usage.memory_used_bytes),
        {
            "memory_used_bytes": lambda s: s.usage.memory_used_bytes,
            "memory_of": lambda s: s.usage.memory_of,
        },
        "GiB",
    ),
    Column(
        "power",
        lambda s: figure(s.usage.power_watts),
        {"power_watts": lambda s: s.usage.power_watts},
        "W",
    ),
    Column(
        "energy",
        lambda s: figure(s.joules_per_sample),
        {"joules_per_sample": lambda s: s.joules_per_sample},
        "J/sample",
    ),
    Column(
        "work",
        lambda s: clean(s.verification.partition(":")[0]),
        {"verification": lambda s: s.verification},
        is_number=False,
        may_fold=True,
    ),
    Column(
        "launches",
        lambda s: f"{len(s.launches)} of {len(s.launches) + len(s.set_aside)}" if s.set_aside else str(len(s.launches)),
        {
            "launches": lambda s: len(s.launches),
            "launches_lost": lambda s: len(s.lost),
            "launches_set_aside": lambda s: len(s.set_aside),
            "launches_paired": lambda s: len(s.pair_ratios),
        },
        may_fold=True,
    ),
    Column(
        "notes",
        lambda s: ", ".join(note_names(s)) or DASH,
        {"notes": lambda s: "; ".join(notes(s))},
        is_number=False,
    ),
)


def by_machine(summaries: Sequence[CaseSummary]) -> list[list[CaseSummary]]:
    """The cases of each machine apart, and of each those on GPUs and those on CPU shares; no list is empty."""
    parts: dict[tuple[str, str], list[CaseSummary]] = {}
    for summary in summaries:
        parts.setdefault((summary.machine_label, summary.case.device_kind), []).append(summary)
    return list(parts.values())


def shown(summaries: Sequence[CaseSummary]) -> tuple[list[Column], str]:
    """The columns with something in them, and a line that says what is the same in every row."""
    columns, folded = [], []
    for column in COLUMNS:
        texts = {column.text(summary) for summary in summaries}
        if texts <= {DASH}:
            continue
        if column.may_fold and len(texts) == 1:
            folded.append(f"{column.name} {texts.pop()}")
        else:
            columns.append(column)
    return columns, ", ".join(folded)
