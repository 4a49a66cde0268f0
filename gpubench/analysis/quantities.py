"""Numbers with units as people write them: "250000 EUR", "0.21 EUR/kWh", "4 years", "60 %", "6.5 kW".

A number without its unit is refused, and so is one with another unit than is asked for: a price in the wrong currency
or for the wrong time would not be seen in the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HOURS = {"h": 1, "hour": 1, "hours": 1, "day": 24, "days": 24, "month": 730, "months": 730, "year": 8760, "years": 8760}
WATTS = {"W": 1, "kW": 1000, "MW": 1_000_000}
_NUMBER = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)\s*(\S*)")


def money(text: object, currency: str) -> float:
    """'250000 EUR' in `currency`."""
    return _measured(text, {currency: 1}, f"250000 {currency}")


def money_per_hour(text: object, currency: str) -> float:
    """'18.40 EUR/hour'; also of a day, a month (730 hours) or a year (8760 hours)."""
    units = {f"{currency}/{unit}": 1 / hours for unit, hours in HOURS.items()}
    return _measured(text, units, f"18.40 {currency}/hour")


def money_per_kilowatt_hour(text: object, currency: str) -> float:
    """'0.21 EUR/kWh' or '210 EUR/MWh'."""
    return _measured(text, {f"{currency}/kWh": 1, f"{currency}/MWh": 1 / 1000}, f"0.21 {currency}/kWh")


def hours(text: object) -> float:
    """'4 years' in hours: a year has 8760, a month a twelfth of that. More than none."""
    return _some(text, _measured(text, HOURS, "4 years"))


def watts(text: object) -> float:
    """'6.5 kW' in watts; more than none."""
    return _some(text, _measured(text, WATTS, "6.5 kW"))


def fraction(text: object) -> float:
    """'60 %' as 0.6; more than 0 and at most 1."""
    value = _measured(text, {"%": 1 / 100}, "60 %")
    if not 0 < value <= 1:
        raise ValueError(f"{text!r} is not between 0 % and 100 %")
    return value


def number(value: object, least: float) -> float:
    """A bare number of at least `least`, for what has no unit."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < 1e18:
        raise ValueError(f"{value!r} is not a number from {least:g}")
    return float(value)


def _some(text: object, value: float) -> float:
    if not value:
        raise ValueError(f"{text!r} is nothing at all")
    return value


def _measured(text: object, units: Mapping[str, float], example: str) -> float:
    match = _NUMBER.fullmatch(text.strip()) if isinstance(text, str) else None
    if not match or not match[2]:
        raise ValueError(f"{text!r} is not a number with its unit, as in {example!r}")
    if match[2] not in units:
        raise ValueError(f"{text!r} is in {match[2]!r}; it must be in {' or '.join(units)}, as in {example!r}")
    value = float(match[1].replace("_", "")) * units[match[2]]
    if not value < 1e18:
        raise ValueError(f"{text!r} is too large")
    return value
