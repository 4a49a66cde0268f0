"""The TOML files that a user writes: prices, a mix, a plan. One opener for all of them, so that one message serves all.

Bytes are decoded here as TOML says, in UTF-8: what the terminal's locale is does not matter. Windows editors begin a
file with a byte order mark, which is no part of it.
"""

from __future__ import annotations

import codecs
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpubench.files.untrusted import inert, open_file
from gpubench.spec.errors import UsageError

LARGEST_FILE = 1 << 20
_OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # UTF-32's begins with one of these


def read_toml(path: Path, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """What is in the file. UsageError, naming it and the line, where it cannot be read, is too large or is no TOML.

    `parse_float` gets each number with a point or an exponent as it is written.
    """
    name = inert(str(path))
    try:
        with open_file(path) as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"Cannot read {name}: {error.strerror}.") from error
    if len(content) > LARGEST_FILE:
        raise UsageError(f"{name} is larger than {LARGEST_FILE >> 20} MiB, which no such file needs.")
    if content.startswith(_OTHER_MARKS):
        raise UsageError(f"{name} is in UTF-16 or UTF-32, and TOML is in UTF-8: save it as UTF-8.")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return tomllib.loads(content.decode(), parse_float=parse_float)
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        raise UsageError(f"{name}, line {line} is not in UTF-8: save the file as UTF-8.") from error
    except RecursionError as error:
        raise UsageError(f"{name} is not TOML that can be read: it is nested too deeply.") from error
    except (ValueError, ArithmeticError) as error:  # a number of thousands of digits is none of tomllib's own errors
        raise UsageError(f"{name} is not TOML: {inert(str(error))}.") from error
