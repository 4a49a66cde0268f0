"""The keys of a plan as a TOML file has them: what each may be, and a plan written as such a file.

docs/plans.md has a row for each key; a test compares the two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from gpubench.harness.quiet import QUIET_SECONDS
from gpubench.spec.errors import UsageError, nearest
from gpubench.spec.until import Until, quantity

if TYPE_CHECKING:
    from gpubench.harness.plan import Plan

PRECISIONS = ("fp32", "tf32", "bf16")
SCALINGS = ("weak", "strong")
LARGEST_BATCH = 10**9
MOST_DEVICE_ROUNDS = 20_000  # of a launch: each leaves up to 1.3 KB in its record, which has 32 MiB at most
LARGEST_COUNT = 1_000_000  # of devices


@dataclass(frozen=True)
class Kind:
    """What a value may be: `words` as messages and the page say it; `read` gives the plan's value, or ValueError."""

    words: str
    read: Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError
    return value


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or abs(value) > 1e15 or math.isnan(value):
        raise ValueError
    return value


def _all(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """One value or a list of them, each named once. An empty list is a slip: it does not mean all there is."""

    def read_all(value: Any) -> tuple[Any, ...]:
        values = value if isinstance(value, list) else [value]
        if not values:
            raise ValueError
        return tuple(dict.fromkeys(map(read, values)))

    return read_all


def _until(value: Any) -> Until:
    """A number is of the efficiency, as it has always been; a text names the figure."""
    if not isinstance(value, str):
        return Until(_number(value))
    what, _, number = value.partition("=")
    return Until(_number(float(number)), quantity(what))


def _batch(value: Any) -> Any:
    return value if value in ("auto", "knee") else _all(_whole)(value)


NAME = Kind("a name", _text)
NAMES = Kind("a name or a list of names", _all(_text))
WHOLE = Kind("a whole number", _whole)
WHOLES = Kind("a whole number or a list of them", _all(_whole))
NUMBER = Kind("a number", _number)
KEYS: Mapping[str, Kind] = {
    "suite": NAME,
    "workloads": NAMES,
    "frameworks": NAMES,
    "strategies": NAMES,
    "devices": WHOLES,
    "device_kind": NAME,
    "precision": NAMES,
    "scaling": NAMES,
    "per_device_batch": Kind('a whole number, a list of them, "auto" or "knee"', _batch),
    "launches": WHOLE,
    "rounds": WHOLE,
    "round_seconds": NUMBER,
    "seed": WHOLE,
    "paired": NAME,
    "until": Kind('a number, or a text such as "throughput=0.01"', _until),
    "budget_seconds": NUMBER,
    "wait_quiet_seconds": NUMBER,
    "python": Kind("NAME=PATH or a list of them", _all(_text)),
    "machine": NAME,
}


def from_toml(content: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """A file's keys as a plan holds them. UsageError with the file, the key and what it may be, where one is wrong."""
    found = {}
    for key, value in content.items():
        if key not in KEYS:
            raise UsageError(f"{origin}: there is no setting {key!r}; {nearest(key, list(KEYS))}")
        try:
            found[key] = KEYS[key].read(value)
        except (ValueError, TypeError):
            raise UsageError(f"{origin}: {key} must be {KEYS[key].words}; got {shown(value)}.") from None
    return found


def to_toml(plan: Plan) -> str:
    """The plan as a file that `--plan` reads: every key that has a value. JSON's values are TOML's."""
    values = {field.name: getattr(plan, field.name) for field in fields(plan)}
    return "".join(f"{key} = {in_toml(value)}\n" for key, value in values.items() if _says(value))


def in_toml(value: Any) -> str:
    """A setting's value as a plan file has it."""
    return json.dumps(value, ensure_ascii=False, default=Until.in_a_plan)


def check(plan: Plan) -> None:
    """UsageError, with the setting and what it may be, where a value makes no sense."""
    for key, known in {"precision": PRECISIONS, "scaling": SCALINGS}.items():
        for word in getattr(plan, key):
            _one_of(key, word, known)
    _one_of("device kind", plan.device_kind, ("auto", "cpu", "gpu"))
    _one_of("value of paired", plan.paired, ("auto", "yes", "no"))
    batches = () if isinstance(plan.per_device_batch, str) else plan.per_device_batch
    for key, values, least, most in (
        ("devices", plan.devices, 1, LARGEST_COUNT),
        ("per_device_batch", batches, 1, LARGEST_BATCH),
        ("launches", (plan.launches,), 1, 10_000),
        ("rounds", (plan.rounds,), 1, MOST_DEVICE_ROUNDS),
        ("seed", (plan.seed,), 0, 2**31 - 1),  # what every framework takes
    ):
        for number in values:
            if not least <= number <= most:
                raise UsageError(f"{key} must be {least} to {most:,}; got {shown(number)}.")
    for key, shortest in {"budget_seconds": 0.0, "wait_quiet_seconds": QUIET_SECONDS}.items():
        seconds = getattr(plan, key)
        if seconds is not None and not shortest <= seconds < math.inf:
            why = ": it takes so long to see that devices are quiet" if shortest else ""
            raise UsageError(f"{key} must be {shortest:g} or more, and finite{why}; got {seconds:g}.")
    if not 0 < plan.round_seconds < 3600:
        raise UsageError(f"round_seconds must be over 0 and under an hour; got {plan.round_seconds:g}.")
    if plan.until is not None and not 0 < plan.until.within < 1:
        raise UsageError(f"until must be over 0 and under 1, which are 0 % and 100 %; got {plan.until.within:g}.")


def _one_of(what: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise UsageError(f"There is no {what} {word!r}; {nearest(word, list(known))}")


def _says(value: Any) -> bool:
    return value is not None and value != ()


def shown(value: Any) -> str:
    """A value as a message has it, in a few characters: a number of thousands of digits is not printed."""
    if isinstance(value, int) and value.bit_length() > 200:
        return "a number of very many digits"
    if value is None or value == ():
        return "its default"
    if isinstance(value, Until):
        return str(value)
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}\N{HORIZONTAL ELLIPSIS}"
