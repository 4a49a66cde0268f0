"""Money, energy and samples in units that people read: never 0.0000031, and never a row of zeros to count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpubench.analysis.cost import MILLION
from gpubench.analysis.draws import Estimate
from gpubench.report.words import DASH, figure

CENT = 0.01
PREFIXES = ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ"))


@dataclass(frozen=True)
class Scale:
    """A number of samples that a cost is given for."""

    samples: float
    name: str

    @property
    def per_million(self) -> float:
        """By what a cost of a million samples becomes one of so many."""
        return self.samples / MILLION


SCALES = tuple(
    Scale(samples, name)
    for samples, name in ((1e6, "million"), (1e9, "billion"), (1e12, "trillion"), (1e15, "quadrillion"))
)


def scale_of(costs_per_million: Iterable[Estimate]) -> Scale:
    """The smallest number of samples that costs 1 or more everywhere: the same for all that is compared."""
    known = [each.value for each in costs_per_million if each.value]
    least = min(known, default=1.0)
    return next((scale for scale in SCALES if least * scale.per_million >= 1), SCALES[-1])


def money(value: float | None) -> str:
    """An amount without its currency: '250,000', '1.20 M', '2.53', 'under 0.01'."""
    if value is not None and 0 < value < CENT:
        return f"under {CENT}"
    if value is not None and value >= MILLION:
        return f"{figure(value / MILLION)} M"
    return figure(value)


def money_estimate(each: Estimate) -> str:
    """An amount with its interval."""
    return ranged(each, money)


def per_samples(cost_per_million: Estimate, scale: Scale) -> str:
    """A cost with its interval: '28.6 per billion [26.1, 32.7]'."""
    return ranged(cost_per_million, lambda value: money(value and value * scale.per_million), f" per {scale.name}")


def joules(each: Estimate) -> str:
    """Energy with its interval, in the SI prefix that suits it: '92.4 µJ [91.0, 93.0]'."""
    size, unit = next(((size, unit) for size, unit in PREFIXES if each.value and each.value >= size), PREFIXES[-1])
    return ranged(each, lambda value: figure(value and value / size), f" {unit}")


def span(months: float) -> str:
    """'4 years' or '18 months', of whole years the years."""
    return f"{months / 12:,g} years" if months > 12 and not months % 12 else f"{months:,.4g} months"


def percent(fraction: float | None) -> str:
    return DASH if fraction is None else f"{figure(100 * fraction, 2)} %"


def ranged(each: Estimate, text: Callable[[float | None], str], unit: str = "") -> str:
    """'1.23 [1.20, 1.26]' with each figure as `text` writes it; the figure alone where the interval says no more."""
    if each.value is None:
        return DASH
    value, interval = text(each.value), each.interval
    if interval is None or text(interval.low) == value == text(interval.high):
        return value + unit
    return f"{value}{unit} [{text(interval.low)}, {text(interval.high)}]"
