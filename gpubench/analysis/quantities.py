"""Numbers with units as people write them: "250000 EUR", "0.21 EUR/kWh", "4 years", "60 %", "6.5 kW".

Every number goes through `plain`. A number without its unit is refused, and so is one with another unit than is asked
for: a price in the wrong currency or for the wrong time would not be seen in the result. So is a number that means
different things in different countries: "250.000" is a quarter of a million in Berlin and 250 in Boston.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HOURS = {"h": 1, "hour": 1, "hours": 1, "day": 24, "days": 24, "month": 730, "months": 730, "year": 8760, "years": 8760}
WATTS = {"W": 1, "kW": 1000, "MW": 1_000_000}
LARGEST, SMALLEST = 1e18, 1e-9  # beyond these it is a slip, and sums of such figures may not even be finite
_PLAIN = re.compile(r"[0-9]+(_[0-9]{3})*(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_GROUPED = re.compile(r"[0-9]{1,3}[.,][0-9]{3}")
_BARE = re.compile(r"[0-9.,_'\u2019\s]*[0-9]")
_QUANTITY = re.compile(r"([+\-\u2212]?[0-9](?:[0-9.,_'\u2019\s]*[0-9])?(?:[eE][+-]?[0-9]+)?)\s*(\S*)", re.ASCII)
_SPACES = str.maketrans(dict.fromkeys("\u00a0\u2009\u202f", " "))  # that stand between thousands in print


def plain(text: str) -> float:
    """A number as Python and TOML write it: digits, at most one decimal point, `_` between thousands, `2e9`.

    ValueError says how to write it where it is written otherwise, is negative, or cannot be meant.
    """
    whole, rest = text[:-4], text[-3:]
    if _GROUPED.fullmatch(text) and int(whole):  # nobody groups thousands behind a 0, so 0.215 is what it seems
        raise ValueError(f"{text!r} could be {whole}{rest} or {whole}.{rest}: write {whole}{rest}, or {whole}.{rest}0")
    if text[:1] in ("-", "\u2212"):
        raise ValueError(f"{text!r} is less than nothing")
    if not _PLAIN.fullmatch(text) or not text.isascii():
        if _BARE.fullmatch(text) and text.isascii():
            raise ValueError(
                f"{text!r} has separators that mean different things in different countries: "
                "write digits and at most one decimal point, as in 250000 or 1234.50"
            )
        raise ValueError(f"{text!r} is not a number, as in 250000, 1234.50 or 2e9")
    value = float(text)
    if not value < LARGEST:
        raise ValueError(f"{text!r} is too large")
    if 0 < value < SMALLEST:
        raise ValueError(f"{text!r} is too small")
    return value


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


def number(value: object, least: float = 0.0) -> float:
    """A bare number of at least `least`, for what has no unit. A TOML file's are read as Decimal, as they are written.

    Raises ValueError for one that `plain` refuses: `2.000` may be two or two thousand in a file as well.
    """
    from decimal import Decimal

    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise ValueError(f"{value!r} is not a number without quotes, as in {max(2, least):g}")
    found = plain(str(value))
    if found < least:
        raise ValueError(f"{value} is not a number from {least:g}")
    return found


def _some(text: object, value: float) -> float:
    if not value:
        raise ValueError(f"{text!r} is nothing at all")
    return value


def _measured(text: object, units: Mapping[str, float], example: str) -> float:
    match = _QUANTITY.fullmatch(text.translate(_SPACES).strip()) if isinstance(text, str) else None
    if not match or not match[2]:
        raise ValueError(f"{text!r} is not a number with its unit, as in {example!r}")
    if match[2] not in units:
        raise ValueError(f"{text!r} is in {match[2]!r}; it must be in {' or '.join(units)}, as in {example!r}")
    value = plain(match[1]) * units[match[2]]
    if not value < LARGEST:
        raise ValueError(f"{text!r} is too large")
    return value
