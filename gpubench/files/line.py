"""One line of a journal to its record, and back. Lines come from anywhere: whatever one holds, reading it costs little.

A good line passes the types of `strict`, in C. One that does not is looked at value by value, so that the refusal says
in a sentence where it is wrong. What would fill the memory is counted before anything is made of it.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any, get_type_hints

import msgspec

from gpubench.files.strict import limited_type, strict
from gpubench.files.untrusted import LARGEST_LINE
from gpubench.files.validation import see_that_it_fits_together, validate
from gpubench.spec.identity import Identity, identity
from gpubench.spec.record import SCHEMA, Machine, RunRecord, to_json

# Each object becomes up to 2 KB, each other value 40 to 200 bytes. A launch of 16 GPUs has 64 objects a round; series
# that could not be written apart have a value for each metric, device and reading.
MOST_OBJECTS = 100_000
MOST_VALUES = 4_000_000

# The fields that are the same in many records of a journal. They become the record's own types, which `replace` takes;
# checks are merged with those that are found on reading.
SHARED = ("case", "machine", "software", "environment", "environment_kept_away", "devices", "outcome", "checks")
MOST_SHARED = 2_000
LARGEST_SHARED = 16 << 10  # bytes

LEFT_OUT = b"a line that could not be read when its run was packed\n"  # stands for one in a run from a bundle

TOO_LARGE = "were too large to stay in the record, and are lost"

_whole = msgspec.json.Decoder(RunRecord)
_strict: msgspec.json.Decoder[RunRecord] = msgspec.json.Decoder(strict(RunRecord))
_sharing: msgspec.json.Decoder[RunRecord] = msgspec.json.Decoder(strict(RunRecord, SHARED))
_hints = get_type_hints(RunRecord)
_of_part = {
    name: (msgspec.json.Decoder(limited_type(RunRecord, name, _hints[name])), msgspec.json.Decoder(_hints[name]))
    for name in SHARED
}


class _Header(msgspec.Struct):
    schema: int


def decode(line: bytes | str) -> RunRecord:
    """The record of a line; ValueError with one plain sentence where it is none."""
    see_that_it_is_small(line)
    if _is_good(line):
        return _whole.decode(line)
    return explained(line)


def encode(record: RunRecord) -> tuple[RunRecord, bytes]:
    """The record and its line, which `decode` takes: series are left out, and said to be, where they are too many."""
    with contextlib.suppress(MemoryError):
        line = f"{to_json(record)}\n".encode()
        with contextlib.suppress(ValueError):
            see_that_it_is_small(line)
            return record, line
    told = "; ".join(filter(None, (record.telemetry.series_inside, f"they {TOO_LARGE}")))
    devices = [replace(device, time_ns=[], series={}) for device in record.telemetry.devices]
    record = replace(record, telemetry=replace(record.telemetry, devices=devices, series_inside=told))
    return record, f"{to_json(record)}\n".encode()


class Reader:
    """Reads lines to be reduced at once: what many records have in common is made once, and shared.

    What it gives has the fields of a RunRecord, and is as quick to make as can be; see `strict` for what it lacks.
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[str, bytes], Any] = {}
        self._identities: dict[int, tuple[Machine, Identity]] = {}

    def read(self, line: bytes) -> RunRecord:
        """ValueError with one plain sentence where the line is no record."""
        see_that_it_is_small(line)
        try:
            record = _sharing.decode(line)
            for name in SHARED:
                key = name, bytes(getattr(record, name))
                made = self._parts.get(key)
                setattr(record, name, self._made(key) if made is None else made)
            see_that_it_fits_together(record)
            if 1 <= record.schema <= SCHEMA:
                return record
        except (msgspec.DecodeError, ValueError, RecursionError):
            pass
        return explained(line)

    def identity(self, machine: Machine) -> Identity:
        """Worked out once for each machine that was read."""
        known = self._identities.get(id(machine))
        if known is None or known[0] is not machine:
            known = self._identities[id(machine)] = machine, identity(machine)
        return known[1]

    def _made(self, key: tuple[str, bytes]) -> Any:
        name, content = key
        limited, real = _of_part[name]
        limited.decode(content)
        made = real.decode(content)
        if len(self._parts) >= MOST_SHARED:  # a file of unlike records has nothing to share
            self._parts.clear()
            self._identities.clear()
        if len(content) <= LARGEST_SHARED:
            self._parts[key] = made
        return made


def see_that_it_is_small(line: bytes | str) -> None:
    """ValueError where a line holds more than any launch has to tell."""
    if len(line) > LARGEST_LINE:
        raise ValueError(f"it is longer than {LARGEST_LINE >> 20} MiB")
    if len(line) <= MOST_OBJECTS:
        return
    text = line if isinstance(line, bytes) else line.encode(errors="replace")
    limits = ((b"{", MOST_OBJECTS, "objects"), (b"[", MOST_OBJECTS, "lists"), (b",", MOST_VALUES, "values"))
    for byte, most, what in limits:
        if text.count(byte) > most:
            raise ValueError(f"not a record (it holds over {most:,} {what}, more than any launch has to tell)")


def explained(line: bytes | str) -> RunRecord:
    """As `decode`, for a line that the strict types refused: says why, or finds that it may pass after all."""
    try:
        schema = msgspec.json.decode(line, type=_Header).schema
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        left_out = line.strip() == LEFT_OUT.strip() if isinstance(line, bytes) else False
        why = "it could not be read when its run was packed" if left_out else f"not a record ({error})"
        raise ValueError(why) from None
    if schema > SCHEMA:
        raise ValueError(f"its schema is newer than this gpubench reads ({SCHEMA}): upgrade gpubench")
    if schema < 1:
        raise ValueError("not a record (there was no schema before 1)")
    try:
        record = _whole.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a record of schema {schema} ({error})") from None
    validate(record)
    return record


def _is_good(line: bytes | str) -> bool:
    try:
        record = _strict.decode(line)
        see_that_it_fits_together(record)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return 1 <= record.schema <= SCHEMA
