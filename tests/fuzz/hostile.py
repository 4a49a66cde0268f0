"""Files that mean harm, made from honest ones: seeded, so that a failure comes back."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent.parent / "golden" / "schema-1.jsonl"
MARKUP = "<img src=x onerror=alert(1)><script>x()</script></style>&lt;"
TEXTS = [
    "名" * 20,
    MARKUP,
    '\'" autofocus onfocus=alert(1) x="',
    "{{ 7 * 7 }}{% include 'script.js' %}",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J",
    "\x9b31m",
    "left\u202eright\u2066\u200b\u200f\ufeff",
    "two\nlines\r\nand\tmore\x00",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\uff1d1+1",
    "\uff0b1+1",
    "\uff0d2+3",
    "\uff20SUM(A1)",
    "%0A=1+1",
    "|calc",
    "\t=1+1",
    "\r=1+1",
    "a;=1+1",
    'a","=1+1',
    "|a|b|\\|`c`",
    "[link](javascript:alert(1)) ![x](http://x)",
    "[bold red]x[/] [link=http://x]y[/link]",
    "$\\frac{1}{0}$ $$",
    "",
    " ",
    "x" * 64,
    "x" * 199,
    "\U0001f600" * 60,
    "a\u0301" * 30,
    "../../../etc/passwd",
    "nan",
]
NUMBERS: list[Any] = [
    0,
    1,
    -1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    10**30,
    10**400,
    0.0,
    -0.0,
    1e-9,
    5e-324,
    1e18,
    1e308,
    -1e308,
    0.1,
]
OTHERS: list[Any] = [None, True, False, [], {}, [[]], {"": ""}, [None], [0] * 50, "7"]
TOKENS = [
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"[" * 5000,
    b'{"a":' * 5000,
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
]


def honest_lines() -> list[str]:
    return GOLDEN.read_text().splitlines()


def mutated(random: random.Random, lines: list[str]) -> bytes:
    """A file of a few records with one to four things changed in each, and now and then its bytes."""
    out = []
    for line in random.sample(lines, random.randint(1, 4)):
        record = json.loads(line)
        for _ in range(random.randint(1, 4)):
            mutate(random, record)
        out.append(json.dumps(record, ensure_ascii=random.random() < 0.5).encode(errors="replace"))
    ending = random.choice([b"\n", b"\n", b"\n", b"\r\n", b"\n\n"])
    content = ending.join([*out, b""])
    return broken(random, content) if random.random() < 0.2 else content


def mutate(random: random.Random, record: dict[str, Any]) -> None:
    """Change one thing, anywhere in the record."""
    holder, key = random.choice(_places(record))
    value = holder[key]
    how = random.random()
    if how < 0.55:  # something of the same type, so that it gets past the reader's types
        holder[key] = _alike(random, value)
    elif how < 0.70:
        holder[key] = random.choice([*TEXTS, *NUMBERS, *OTHERS])
    elif how < 0.80:
        del holder[key]
    elif isinstance(value, list) and value:
        holder[key] = value * random.choice([2, 30]) if how < 0.9 else value[:-1]
    elif isinstance(holder, dict):
        holder[random.choice(TEXTS)] = value
    else:
        holder[key] = _alike(random, value)


def broken(random: random.Random, content: bytes) -> bytes:
    """The same file after a bad disk, a bad editor or a bad download."""
    at = random.randrange(len(content) + 1)
    return random.choice(
        [
            content[:at],
            content[:at] + random.choice(TOKENS) + content[at:],
            content[:at] + random.randbytes(8) + content[at + 8 :],
            content[:at] + bytes(16) + content[at + 16 :],
            content.replace(b":", b": " + random.choice(TOKENS), 3),
            random.choice(TOKENS) + content,
            content.replace(b"\n", b"", 1),
        ]
    )


def _alike(random: random.Random, value: Any) -> Any:
    if isinstance(value, str):
        return random.choice(TEXTS)
    if isinstance(value, bool) or value is None:
        return random.choice([*NUMBERS, *TEXTS, *OTHERS])
    if isinstance(value, int):
        return random.choice([number for number in NUMBERS if isinstance(number, int)])
    if isinstance(value, float):
        return random.choice([value * random.choice([1e-9, 1e-3, 1e3, 1e9]), *NUMBERS])
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (holder, key) in a record, but of a long list only its first and last items."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        keys: list[Any] = list(value)
    elif isinstance(value, list):
        keys = [0, len(value) - 1][: len(value)]
    else:
        return found
    for key in keys:
        found += [(value, key), *_places(value[key])]
    return found
