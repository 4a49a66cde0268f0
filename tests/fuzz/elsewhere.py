"""Files that would hang, swell or spoil whoever opens them. Each maker puts one at a path."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.hostile import honest_lines

Maker = Callable[[Path], None]
RECORD = json.loads(honest_lines()[20])
HUGE = 10**400


def link_to(target: str) -> Maker:
    return lambda path: path.symlink_to(target)


def holding(content: bytes | str) -> Maker:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content) and None


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)  # a socket's name may have about 100 characters
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


# In place of any file that a command takes.
ODD: dict[str, Maker] = {
    "a pipe": lambda path: os.mkfifo(path),
    "endless zeros": link_to("/dev/zero"),
    "the terminal": link_to("/dev/tty"),
    "the kernel's log": link_to("/proc/kmsg"),
    "memory of a process": link_to("/proc/self/mem"),
    "all memory": link_to("/proc/kcore"),
    "a folder": lambda path: path.mkdir(),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nowhere": link_to("nowhere"),
    "a socket": listening,
    "a sparse file of terabytes": sparse,
    "nothing in it": holding(b""),
    "zeros": holding(bytes(1 << 20)),
    "bytes of all kinds": holding(bytes(range(256)) * 64),
    "UTF-16": holding("a = 1\n".encode("utf-16")),
    "one open bracket after the other": holding(b'{"a":' + b"[" * (8 << 20)),
    "an open brace after the other": holding(b'{"a":' * (1 << 20)),
    "a text of megabytes": holding(b'{"schema": 1, "a": "' + b"x" * (40 << 20) + b'"}'),
    "a million empty lines": holding(b"\n" * 1_000_001),
    "a million lines": holding(b"{}\n" * 1_000_000),
}


def changed(change: Callable[[dict[str, Any]], object]) -> Maker:
    """A record with something changed in it."""

    def make(path: Path) -> None:
        record = json.loads(json.dumps(RECORD))
        change(record)
        path.write_text(json.dumps(record) + "\n")

    return make


def spliced(text: str) -> Maker:
    """A record with a member that JSON's writer would not write: `text` stands at its end as it is."""
    return holding(json.dumps(RECORD)[:-1] + f', "more": {text}}}\n')


def times(value: Any, count: int) -> list[Any]:
    return [value] * count


def device(record: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = record["telemetry"]["devices"][0]
    return found


ROUND = '{"index":%d,"start_ns":1,"end_ns":2,"steps":1,"samples":1,"rank_seconds":[1],"rank_cpu_seconds":[1]}'


def many_rounds(path: Path) -> None:
    record = {**json.loads(json.dumps(RECORD)), "rounds": "HERE"}
    rounds = ",".join(ROUND % index for index in range(45_000))
    path.write_text(json.dumps(record).replace('"HERE"', f"[{rounds}]") + "\n")


def many_records_with_many_rounds(path: Path) -> None:
    many_rounds(path)
    path.write_bytes(path.read_bytes() * 12)


def many_small_records(path: Path) -> None:
    path.write_bytes(
        b"".join(json.dumps({**RECORD, "record_id": f"r{i}", "launch": i}).encode() + b"\n" for i in range(5_000))
    )


def many_broken_records(path: Path) -> None:
    path.write_bytes(json.dumps({**RECORD, "launch": -1}).encode().join([b"", b"\n"]) * 20_000)


# In place of a journal: each begins with what a record has.
JOURNALS: dict[str, Maker] = {
    "a huge integer that nobody knows": spliced("9" * 5000),
    "an infinite number that nobody knows": spliced("1e999"),
    "deep nesting that nobody knows": spliced("[" * 5_000 + "]" * 5_000),
    "bad UTF-8 that nobody knows": holding(json.dumps(RECORD)[:-1].encode() + b', "\xff": "\xfe"}\n'),
    "half a surrogate": spliced('"\\ud800"'),
    "a key twice": spliced('1, "launch": 2, "launch": 3'),
    "telemetry of 700,000 rounds": changed(
        lambda r: device(r).update(rounds=times({"index": 1, "samples": 1}, 700_000))
    ),
    "series of millions": changed(lambda r: device(r).update(time_ns=times(0, 3_500_000))),
    "many series": changed(lambda r: device(r).update(time_ns=[0], series={f"m{i}": [1.0] for i in range(400_000)})),
    "many texts": changed(lambda r: r["outcome"].update(log_tail=times("x" * 30, 900_000))),
    "a log of one huge line": changed(lambda r: r["outcome"].update(log_tail=["x" * (20 << 20)])),
    "many variables": changed(lambda r: r.update(environment={f"v{i}": "x" for i in range(900_000)})),
    "many devices": changed(lambda r: r.update(devices=times(r["devices"][0], 90_000))),
    "many checks": changed(lambda r: r.update(checks=times({"name": "x", "severity": "note", "message": "y"}, 90_000))),
    "many rounds": many_rounds,
    "many records with many rounds": many_records_with_many_rounds,
    "many records": many_small_records,
    "many broken records": many_broken_records,
    "a host list that expands": changed(
        lambda r: r.update(environment={"SLURM_NODELIST": ",".join(f"n[{'9' * 3000}-1]" for _ in range(3))})
    ),
    "host lists that multiply": changed(
        lambda r: r.update(environment={f"A{i}_HOSTS": "n[" + ",".join(["1-4096"] * 1000) + "]" for i in range(50)})
    ),
    "a series file that is a pipe": changed(lambda r: r["telemetry"].update(series_file="pipe.parquet")),
    "a series file of an endless name": changed(lambda r: r["telemetry"].update(series_file="x" * 9_000)),
}

# In place of prices, a mix or a plan: TOML that begins well.
TOMLS: dict[str, Maker] = {
    "huge integers": holding(f"launches = {'9' * 4000}\n[machines.a]\ndevices = {'9' * 4000}\n"),
    "integers of too many digits": holding(f"launches = {'9' * 5000}\n"),
    "hexadecimal integers": holding(f"launches = 0x{'f' * 200_000}\n"),
    "a number beyond floats": holding("until = 1e999\n[[work]]\nworkload = 'mlp'\nsamples_per_month = 1e999\n"),
    "an exponent beyond decimals": holding(f"until = 1e{'9' * 30}\n"),
    "infinity": holding("until = inf\nround_seconds = -inf\n[[work]]\nworkload = 'mlp'\nsamples_per_month = inf\n"),
    "not a number": holding("until = nan\n[[work]]\nworkload = 'mlp'\nsamples_per_month = nan\n"),
    "deep lists": holding("devices = " + "[" * 100_000 + "]" * 100_000),
    "deep lists that parse": holding("devices = " + "[" * 90 + "]" * 90),
    "deep tables": holding("a." * 60_000 + "b = 1\n"),
    "deep headers": holding("[" + "a." * 60_000 + "b]\n"),
    "a wide table of deep keys": holding("".join("a." * 200 + f"b{i} = 1\n" for i in range(600))),
    "many tables": holding("".join(f"[t{i}]\n" for i in range(25_000))),
    "many works": holding("".join("[[work]]\n" for i in range(25_000))),
    "bad UTF-8 in an unknown key": holding(b'"\xff" = 1\n'),
    "a key twice": holding("launches = 1\nlaunches = 2\n"),
    "half a surrogate": holding('machine = "\\ud800"\n'),
    "a NUL in a path": holding('python = "torch=/bin/\\u0000sh"\nmachine = "\\u0000"\n[machines."\\u0000"]\n'),
    "control characters": holding('machine = "\\u001b[31m"\n["\\u001b]0;x\\u0007"]\n'),
    "negative sizes": holding("launches = -1\ndevices = [-1]\n[machines.a]\ndevices = -1\n"),
    "dates for numbers": holding("launches = 2026-01-01\n[machines.a]\ndevices = 2026-01-01T00:00:00Z\n"),
    "truth for numbers": holding("launches = true\nuntil = false\n[machines.a]\ndevices = true\n"),
    "lists for words": holding("suite = ['quick']\nmachine = {a = 1}\ncurrency = ['EUR']\nwork = [1]\n"),
    "comments": holding("#" * 250_000),
    "a long text": holding('machine = "' + "x" * 200_000 + '"\n'),
}
