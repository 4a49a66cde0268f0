"""Figures and names as text: units, dashes, titles, and nothing from a file that a terminal or a sheet would obey."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import TypeVar

from gpubench.analysis.scaling import CaseSummary
from gpubench.analysis.stats import Interval

T = TypeVar("T")

DASH = "\u2013"  # an en dash
GIB = 1024**3


def known(value: T) -> T | None:
    """The value; None where it is infinite or no number, which nothing that was measured is."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def clean(text: str) -> str:
    """One line without control characters: no escape sequence, no text that runs right to left by force."""
    if text.isprintable():
        return text
    return "".join("\ufffd" if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") else char for char in text)


def short(device_id: str) -> str:
    """A GPU's UUID by its first block, which tells the GPUs of a machine apart; the page has them in full elsewhere."""
    return clean("-".join(device_id.split("-")[:2]) if device_id.startswith(("GPU-", "MIG-")) else device_id)


def figure(value: float | None, digits: int = 3) -> str:
    """Significant digits, but whole numbers whole, with thousands set apart: 0.912, 45.1, 12,345."""
    value = known(value)
    if value is None:
        return DASH
    if value == 0 or abs(value) >= 10**digits - 0.5:
        return f"{value:,.0f}"
    return f"{value:#.{digits}g}".rstrip(".")


def fixed(value: float | None, decimals: int = 2) -> str:
    value = known(value)
    return DASH if value is None else f"{value:,.{decimals}f}"


def with_interval(value: float | None, interval: Interval | None, decimals: int = 2) -> str:
    if value is None or interval is None or None in (known(interval.low), known(interval.high)):
        return fixed(value, decimals)
    return f"{fixed(value, decimals)} [{fixed(interval.low, decimals)}, {fixed(interval.high, decimals)}]"


def gib(value: int | None) -> str:
    return DASH if value is None else f"{value / GIB:.2f}"


def device_noun(device_kind: str, n: int = 2) -> str:
    noun = "CPU share" if device_kind == "cpu" else "GPU"
    return noun if n == 1 else noun + "s"


def title(summaries: Sequence[CaseSummary], among: Sequence[CaseSummary] = ()) -> str:
    """What the figures were measured on, as it stands above every table and plot.

    Of CPU shares: 'CPU shares (1 core each): not GPU figures'. The machine is named where `among`, all that is shown
    together, has another one.
    """
    titles = []
    if any(summary.case.device_kind == "gpu" for summary in summaries):
        names = sorted({clean(d.name) for s in summaries for r in s.records for d in r.devices if d.kind == "gpu"})
        titles.append(" and ".join(names) or "GPUs")
    cores = sorted({s.case.cores_per_device for s in summaries if s.case.device_kind == "cpu"})
    if cores:
        each = " or ".join(str(count) for count in cores)
        plural = "core" if cores == [1] else "cores"
        titles.append(f"CPU shares ({each} {plural} each): not GPU figures")
    machines = list(dict.fromkeys(summary.machine_label for summary in summaries))
    several = len(machines) > 1 or any(summary.machine_label not in machines for summary in among)
    return (f"{clean(' and '.join(machines))}: " if several else "") + "; ".join(titles)


def lost_launches(summary: CaseSummary) -> str:
    """'1 of 3 launches oom', or just 'skipped' where no launch was meant to run."""
    if not summary.lost:
        return ""
    statuses = " and ".join(sorted({lost.outcome.status.replace("_", " ") for lost in summary.lost}))
    total = len(summary.records)
    if len(summary.lost) == total:
        return statuses
    return f"{len(summary.lost)} of {total} launches {statuses}"
