"""One file of a run, for the mail: its records with telemetry, environment, checks and verifications, and checksums.

What was cut off or changed is found out and named (see `sealed`). That guards against damage, not against forgery:
whoever makes a bundle can seal what they like. Bundles come from anywhere: names, sizes and numbers of members have
limits, and nothing is written outside the folder.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpubench import __version__
from gpubench.files import sealed, series, store, verified
from gpubench.files.line import LEFT_OUT, Reader
from gpubench.files.redaction import Redactor, other_device
from gpubench.files.reducing import ReducedRun
from gpubench.files.untrusted import inert, lines, open_file, read_bytes
from gpubench.files.writing import own_folder, write_whole
from gpubench.spec.case import Case
from gpubench.spec.errors import GpubenchError, UsageError
from gpubench.spec.verification import Verification
from gpubench.spec.verification import to_json as verification_to_json

R = TypeVar("R", store.Run, ReducedRun)

FORMAT = 1
SUFFIX = ".gpubench.zip"
MOST_VERIFICATIONS, LARGEST_VERIFICATIONS = 400, 4 << 20  # of one run, each held against its launches; all together


@dataclass(frozen=True)
class Bundle:
    """A bundle as it was read, every checksum right. `members` are the files of the run, by name.

    `warnings` say what could not be packed.
    """

    run: str
    redacted: bool
    made_by: str
    skipped_lines: int
    members: Mapping[str, bytes]
    sha256: str
    warnings: list[str] = field(default_factory=list)


def pack(run: store.Run, output: Path, redact: bool = True) -> Bundle:
    """Write the bundle of a run that was loaded from `run.path`. Lines that are no records are left out and counted."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", run.path.stem)[:90].lstrip("._-") or "run"
    redactor = Redactor(record for record, _ in _records(run.path)) if redact else None
    members: dict[str, bytes] = {}
    journal, records, gone, with_series, left = bytearray(), 0, [], 0, sealed.LARGEST_CONTENT
    too_much = False
    for index, (record, series_file) in enumerate(_records(run.path)):
        records += 1
        written = redactor.record(record) if redactor else record
        if series_file is not None:
            with_series += 1
            written["telemetry"]["series_file"] = None
            member = f"{name}.series/{index:05}.parquet"
            try:
                if too_much:
                    raise GpubenchError("an earlier one took too much")
                members[member] = series.renamed(run.path.parent / series_file, other_device if redact else str)
            except GpubenchError as error:  # its record still reads
                too_much = too_much or isinstance(error, series.TooMuchError)
                gone.append(str(error))
            else:
                left -= len(members[member])
                written["telemetry"]["series_file"] = member
        journal += msgspec.json.encode(written) + b"\n"
        if len(journal) > left:
            raise UsageError(f"{run.path} is too large to be packed: over {sealed.LARGEST_CONTENT >> 20} MiB.")
    members[f"{name}.jsonl"] = bytes(journal)
    members |= (verifications := _verifications(run, redactor))
    _see_that_they_are_few(run.path, verifications)
    if len(members) >= sealed.MOST_MEMBERS:  # with the manifest
        raise UsageError(f"{run.path} is too large to be packed: over {sealed.MOST_MEMBERS} files.")
    manifest = {
        "format": FORMAT,
        "made_by": f"gpubench {__version__}",
        "run": name,
        "redacted": redact,
        "records": records,
        "skipped_lines": run.skipped_lines,
    }
    content = sealed.sealed(manifest, members)
    if len(content) > sealed.LARGEST_FILE:
        raise UsageError(f"{run.path} is too large to be packed: over {sealed.LARGEST_FILE >> 20} MiB when packed.")
    _write(output, content)
    told = [f"packed without the series of {len(gone)} of {with_series} launches: {gone[0]}"] if gone else []
    return replace(read(output), warnings=told)


def read(path: Path) -> Bundle:
    """UsageError, naming what is wrong, where the file is not a whole and unchanged bundle."""
    manifest, members, content = sealed.read(path)
    if manifest["format"] > FORMAT:
        raise UsageError(f"{path} is of a newer format than this gpubench reads ({FORMAT}): upgrade gpubench.")
    lines = members[f"{manifest['run']}.jsonl"].count(b"\n")
    if lines != manifest["records"]:
        raise UsageError(f"{inert(str(path))} contradicts itself: {manifest['records']} records told, {lines} in it.")
    return Bundle(
        run=manifest["run"],
        redacted=manifest["redacted"],
        made_by=manifest["made_by"],
        skipped_lines=manifest["skipped_lines"],
        members=members,
        sha256=hashlib.sha256(content).hexdigest(),
    )


def unpack(path: Path, folder: Path) -> list[Path]:
    """Write the members into `folder`, and only into folders of that run in it.

    UsageError where another file of that name is there, where the run has no record, or where what was verified is of
    another run; nothing is written then. The journal has a line in place of each that could not be read when it was
    packed, so that no reader of it takes the run for a whole one.
    """
    bundle = read(path)
    _see_that_it_is_one_run(path, bundle)
    journal = folder / f"{bundle.run}.jsonl"
    targets = {_place(name, journal): content for name, content in bundle.members.items()}
    targets[journal] += LEFT_OUT * bundle.skipped_lines
    for target, content in targets.items():
        if (target.exists() or target.is_symlink()) and not _is(target, content):
            raise UsageError(f"{target} is there already and is another file; choose another folder with -o.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for within in {target.parent for target in targets} - {folder}:
            own_folder(within)
        for target, content in targets.items():
            write_whole(target, content)
    except OSError as error:
        raise UsageError(f"Cannot write to {error.filename or folder}: {error.strerror}.") from error
    return list(targets)


def load(path: Path, read_run: Callable[[Path], R]) -> tuple[R, list[Verification]]:
    """The run in a bundle, as `read_run` reads its journal, and what was verified of it."""
    folder = tempfile.TemporaryDirectory(prefix="gpubench-")
    atexit.register(folder.cleanup)  # until then, records that were reduced may be read again
    journal = next(each for each in unpack(path, Path(folder.name)) if each.suffix == ".jsonl")
    try:
        run = read_run(journal)
    except UsageError as error:  # nobody knows the temporary file
        raise UsageError(str(error).replace(str(journal), inert(str(path)))) from error
    verifications = verified.of_bundle(journal)
    return replace(run, path=path, verifications=verifications), verifications


def _records(path: Path) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Each record as JSON has it, with its series file. What this gpubench does not know in one is left out.

    One at a time, as thousands of them would fill the memory; what is unknown may be nested, or a number, beyond all
    that can be written again.
    """
    with open_file(path) as file:
        for _, line in lines(file):
            with contextlib.suppress(ValueError):
                record = store.decode(line)
                yield msgspec.json.decode(msgspec.json.encode(record)), record.telemetry.series_file


def _verifications(run: store.Run, redactor: Redactor | None) -> dict[str, bytes]:
    """What was verified of these records."""
    found = {}
    for each in run.verifications:
        if any(each.is_of(record.case, record.software) for record in run.records):
            body = json.loads(verification_to_json(each))
            if redactor:  # its subject stays, as a record's case does
                body |= redactor.value({"software": body["software"]})
                for finding in body["findings"]:
                    finding["message"] = redactor.text(finding["message"])
            found[f"verified-{each.fingerprint}.json"] = json.dumps(body, indent=2).encode()
    return found


def _see_that_it_is_one_run(path: Path, bundle: Bundle) -> None:
    """UsageError unless it has a record, and verifications of its own records alone."""
    name, others = inert(str(path)), {}
    members = {member: content for member, content in bundle.members.items() if sealed.VERIFIED.fullmatch(member)}
    _see_that_they_are_few(path, members)
    for member, content in members.items():
        try:
            others[member] = verified.decode(content)
        except ValueError as error:
            raise UsageError(f"{name} is no bundle of gpubench: {member} is no verification: {error}.") from None
    reader = Reader()
    records, told, seen = 0, "", set[tuple[Case, tuple[tuple[str, str], ...]]]()
    for number, line in enumerate(io.BytesIO(bundle.members[f"{bundle.run}.jsonl"]), 1):
        try:
            record = reader.read(line)
        except ValueError as error:
            told = told or f"{bundle.run}.jsonl, line {number}: {error}"
            continue
        records += 1
        if (subject := (record.case, tuple(record.software.items()))) in seen:
            continue
        seen.add(subject)
        others = {member: each for member, each in others.items() if not each.is_of(record.case, record.software)}
        if not others:
            break
    store.see_that_there_is_one(path, range(records), [inert(told)] if told else [])
    if others:
        raise UsageError(f"{name} holds verifications of another run: {', '.join(sorted(others)[:3])}.")


def _see_that_they_are_few(path: Path, verifications: Mapping[str, bytes]) -> None:
    if len(verifications) > MOST_VERIFICATIONS or sum(map(len, verifications.values())) > LARGEST_VERIFICATIONS:
        raise UsageError(f"{inert(str(path))} has more verifications than a run may have ({MOST_VERIFICATIONS}).")


def _place(name: str, journal: Path) -> Path:
    """Where a member goes: verifications to where they are looked for, for that run and no other."""
    verification = sealed.VERIFIED.fullmatch(name)
    return verified.folder_of(journal) / verification[1] if verification else journal.parent / name


def _is(path: Path, content: bytes) -> bool:
    """Whether it is a file of its own that holds just that."""
    try:
        return not path.is_symlink() and read_bytes(path, len(content)) == content
    except (OSError, UsageError):
        return False


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror}.") from error
