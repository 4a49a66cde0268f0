"""How an option's value is written: a percentage, a time, a count, a list. For all commands and the pytest plugin.

A quantity carries its unit: `1%`, `90s`, `5m`. A bare number is refused, because nobody can tell whether `0.5` meant
half a percent or a half, or whether `5` meant seconds or minutes. In a plan file the name of a setting says the unit.

Each reader takes the option's name and the text, and raises UsageError naming both where the text is not of its kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar

from gpubench.spec.errors import UsageError
from gpubench.spec.until import QUANTITIES, Until, quantity

if TYPE_CHECKING:
    import click

T = TypeVar("T")
NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
SECONDS = {"s": 1, "m": 60, "h": 3600}
INCHES = {"in": 1, "cm": 1 / 2.54, "mm": 1 / 25.4}
NARROWEST, WIDEST = 2.5, 40  # inches, of a plot
LONGEST_NUMBER = 15  # characters; a longer one is a slip, and may not even be finite


def read_percent(option: str, text: str) -> float:
    """'3%' or '3 %' as 0.03: a fraction from 0 to under 1."""
    return _percent(option, text, text)


def read_until(option: str, text: str) -> Until:
    """'2%' and 'efficiency=2%', or 'throughput=2%'."""
    what, named, percent = text.rpartition("=")
    try:
        of = quantity(what.strip()) if named else "efficiency"
    except ValueError:
        ways = " or ".join(f"{option} {each}=1%" for each in QUANTITIES)
        raise UsageError(f"{option} narrows efficiency or throughput: write {ways}; got {text!r}.") from None
    return Until(_percent(option, text, percent), of)


def read_seconds(option: str, text: str) -> float:
    """'90s', '20m' or '2h' in seconds."""
    number, unit = _quantity(text, "smh")
    if number is None:
        raise UsageError(f"{option} takes a time such as 90s, 20m or 2h; got {text!r}.")
    if not unit:
        bare = text.strip()
        raise UsageError(f"{option} {bare} lacks its unit: write {option} {bare}s, {bare}m or {bare}h.")
    return number * SECONDS[unit]


def read_inches(option: str, text: str) -> float:
    """The width of a plot, '3.3in', '8.4cm' or '84mm', in inches."""
    match = re.fullmatch(f"{NUMBER} ?(in|cm|mm)", text.strip())
    inches = float(match[1]) * INCHES[match[2]] if match and len(match[1]) <= LONGEST_NUMBER else 0.0
    if not NARROWEST <= inches <= WIDEST:
        raise UsageError(
            f"{option} takes a width from {NARROWEST}in to {WIDEST}in, such as 3.3in, 8.4cm or 84mm; got {text!r}."
        )
    return inches


def read_words(option: str, text: str) -> tuple[str, ...]:
    """'a,b,c' as a tuple. An empty text is a mistake, a variable that is not set: it does not mean all there is."""
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not found:
        raise UsageError(f"{option} is empty.")
    return found


def read_counts(option: str, text: str) -> tuple[int, ...]:
    """'1,2,4' as whole numbers from 1 on."""
    found = read_words(option, text)
    if not all(re.fullmatch("[0-9]{1,9}", word) and int(word) for word in found):
        raise UsageError(f"{option} takes counts such as 1,2,4; got {text!r}.")
    return tuple(dict.fromkeys(map(int, found)))


def read_batch(option: str, text: str) -> tuple[int, ...] | Literal["auto", "knee"]:
    """Numbers of samples, '16,32,64', or how to find one."""
    words = read_words(option, text)
    if words == ("auto",):
        return "auto"
    if words == ("knee",):
        return "knee"
    if {"auto", "knee"} & set(words):
        raise UsageError(f"{option} {text.strip()}: auto and knee find one batch, so each stands alone.")
    if not all(re.fullmatch("[0-9]{1,20}", word) for word in words):  # the plan says how large it may be
        raise UsageError(f"{option} takes a number, numbers such as 16,32,64, auto or knee; got {text!r}.")
    return tuple(dict.fromkeys(map(int, words)))


def _percent(option: str, text: str, percent: str) -> float:
    """`percent`, the end of `text` or all of it, as a fraction."""
    number, unit = _quantity(percent, "%")
    if number is not None and not unit:
        raise UsageError(f"{option} {text.strip()} lacks its unit: write {option} {text.strip()}%.")
    if number is None or number >= 100:
        raise UsageError(f"{option} takes a percentage from 0% to under 100%, such as 1%; got {text!r}.")
    return number / 100


def _quantity(text: str, units: str) -> tuple[float | None, str]:
    """The number and the unit of a text, '' where it has none; None where it is no quantity."""
    match = re.fullmatch(f"{NUMBER} ?([{units}]?)", text.strip())
    if match is None or len(match[1]) > LONGEST_NUMBER:
        return None, ""
    return float(match[1]), match[2]


def _callback(
    read: Callable[[str, str], T], without: T | None = None
) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    """What click calls with an option's text; `without` stands for an option that was not given."""

    def parsed(ctx: click.Context, parameter: click.Parameter, text: str | None) -> T | None:
        return without if text is None else read(parameter.opts[0], text)

    return parsed


NO_WORDS: tuple[str, ...] = ()
NO_COUNTS: tuple[int, ...] = ()
percent = _callback(read_percent)
until = _callback(read_until)
duration = _callback(read_seconds)
inches = _callback(read_inches)
words = _callback(read_words, NO_WORDS)
counts = _callback(read_counts, NO_COUNTS)
batch = _callback(read_batch)
