"""The TOML files that a user writes: prices, a mix, a plan. One opener for all of them, so that one message serves all.

Bytes are decoded here as TOML says, in UTF-8: what the terminal's locale is does not matter. Windows editors begin a
file with a byte order mark, which is no part of it. What TOML cannot hold, or no such file needs, is refused here
once, so that whoever takes a value out need not think of it.
"""

from __future__ import annotations

import codecs
import math
import tomllib
import unicodedata
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from gpubench.files.untrusted import inert, read_bytes
from gpubench.spec.errors import UsageError

LARGEST_FILE = 64 << 10  # the prices of 200 machines; keys of so many parts that they fill the memory need more
DEEPEST = 8  # tables in tables; ours have two
LARGEST_INTEGER = 2**63 - 1  # TOML's own
_OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # UTF-32's begins with one of these


def read_toml(path: Path, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """What is in the file. UsageError, naming it and the line, where it cannot be read, is too large or is no TOML.

    Every number in it is finite and fits into 64 bits, and no text has control characters. `parse_float` gets each
    number with a point or an exponent as it is written.
    """
    name = inert(str(path))
    try:
        content = read_bytes(path, LARGEST_FILE)
    except (OSError, ValueError) as error:  # a name with a NUL byte is none of the system's errors
        raise UsageError(f"Cannot read {name}: {getattr(error, 'strerror', None) or error}.") from error
    if content.startswith(_OTHER_MARKS):
        raise UsageError(f"{name} is in UTF-16 or UTF-32, and TOML is in UTF-8: save it as UTF-8.")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        found = tomllib.loads(content.decode(), parse_float=parse_float)
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        raise UsageError(f"{name}, line {line} is not in UTF-8: save the file as UTF-8.") from error
    except RecursionError as error:
        raise UsageError(f"{name} is not TOML that can be read: it is nested too deeply.") from error
    except ArithmeticError as error:
        raise UsageError(f"{name} is not TOML that can be read: a number in it has too large an exponent.") from error
    except ValueError as error:  # a number of thousands of digits is none of tomllib's own errors
        raise UsageError(f"{name} is not TOML: {inert(str(error))}.") from error
    for where, problem in _problems(found):
        raise UsageError(f"{name}: {inert(where)[:100]} {problem}.")
    return found


def _problems(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The key, and what is wrong with its value. Without recursion, as dotted keys nest as deeply as they like."""
    waiting: list[tuple[str, Any, int]] = [("", content, 0)]
    while waiting:
        where, value, depth = waiting.pop()
        if depth > DEEPEST:
            yield where, "is nested too deeply"
        elif isinstance(value, dict):
            for key, item in value.items():
                if _has_controls(key):
                    yield repr(key), "is no name: it has control characters"
                waiting.append((f"{where}.{key}" if where else key, item, depth + 1))
        elif isinstance(value, list):
            waiting += [(where, item, depth + 1) for item in value]
        elif isinstance(value, str) and _has_controls(value):
            yield where, "has control characters in its text"
        elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
            yield where, "is a whole number beyond TOML's 64 bits"
        elif isinstance(value, (float, Decimal)) and not math.isfinite(value):
            yield where, "is not a finite number"


def _has_controls(text: str) -> bool:
    return any(unicodedata.category(char) == "Cc" for char in text)
