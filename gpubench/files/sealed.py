"""A zip with a manifest and a seal: how a bundle's members are kept, and how damage to any byte of it is found.

The comment at the end is the seal, the SHA-256 of every byte before it; the manifest has each member's own, so that a
changed one is named. Members are written the same way every time, so the same members give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpubench.files.store import NAME
from gpubench.files.untrusted import MOST_LINES, inert, read_bytes
from gpubench.spec.errors import UsageError

LARGEST_FILE = 128 << 20
LARGEST_CONTENT = 160 << 20  # of all members together, unpacked: 10,000 launches take 143 MiB
MOST_MEMBERS = 20_000  # a launch may have a file of its own for its series
LARGEST_MANIFEST = 8 << 20
VERIFIED = re.compile(r"verified-([0-9a-f]{16}\.json)")  # a verification, and the name of its file
_MANIFEST = "manifest.json"
_SEAL = b"gpubench bundle, sha256 of all before: "
_COMMENT_LENGTH = len(_SEAL) + 64
_END_LENGTH = 22  # of a zip's end record, without its comment
# All that zipfile raises on a broken file; the last two are an unknown method, and a password that is asked for.
_DAMAGE: tuple[type[Exception], ...] = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, KeyError, TypeError)
_DAMAGE += (EOFError, OSError, NotImplementedError, RuntimeError)


def sealed(manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> bytes:
    """The whole file; `members` is added to the manifest."""
    listed = {name: _fingerprint(content) for name, content in sorted(members.items())}
    whole = json.dumps({**manifest, "members": listed}, indent=1).encode()
    return zipped({_MANIFEST: whole, **members})


def read(path: Path) -> tuple[dict[str, Any], dict[str, bytes], bytes]:
    """Manifest, members, and the file's content. UsageError, naming what is wrong, where anything is."""
    content, name = _content(path), inert(str(path))
    if len(content) < _COMMENT_LENGTH + _END_LENGTH or not content[-_COMMENT_LENGTH:].startswith(_SEAL):
        is_zip = content.startswith(b"PK")
        raise UsageError(f"{name} is {'cut off, or ' if is_zip else ''}not a bundle: it has no seal at its end.")
    try:
        manifest, members = _opened(content)
    except _DAMAGE as error:
        raise UsageError(f"{name} is damaged: {inert(str(error)) or type(error).__name__}.") from None
    if content[-64:] != hashlib.sha256(content[:-64]).hexdigest().encode():
        raise UsageError(f"{name} was changed outside its members: the seal does not fit.")
    return manifest, members, content


def _fingerprint(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def zipped(members: Mapping[str, bytes]) -> bytes:
    """The zip with its seal, whatever is in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)  # of 1980, so that packing twice gives the same bytes
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, content, compresslevel=9)
        archive.comment = _SEAL + b"0" * 64
    whole = out.getvalue()[:-64]
    return whole + hashlib.sha256(whole).hexdigest().encode()


def _opened(content: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Manifest and members, each checked. ValueError, or another of `_DAMAGE`, where something is wrong."""
    end = len(content) - _COMMENT_LENGTH - _END_LENGTH
    signature, disk, _, _, count, directory_size, _, comment = struct.unpack("<4s4H2LH", content[end : end + 22])
    if signature != b"PK\5\6" or disk or comment != _COMMENT_LENGTH or content[max(0, end - 20) :][:4] == b"PK\6\7":
        raise ValueError("its end record is not one of a bundle")
    if count > MOST_MEMBERS or directory_size > MOST_MEMBERS * 1024:
        raise ValueError(f"it has over {MOST_MEMBERS} members")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        if len(set(names)) != len(names) or _MANIFEST not in names:
            raise ValueError("its members are not those of a bundle")
        manifest = _checked(json.loads(_member(archive, _MANIFEST, LARGEST_MANIFEST)))
        if set(names) != {_MANIFEST, *manifest["members"]}:
            odd = set(names) ^ {_MANIFEST, *manifest["members"]}
            raise ValueError(f"manifest and members disagree about {', '.join(sorted(map(ascii, odd))[:5])}")
        left = LARGEST_CONTENT
        members = {}
        for name, expected in manifest["members"].items():
            members[name] = _member(archive, name, left)
            left -= len(members[name])
            if _fingerprint(members[name]) != expected:
                raise ValueError(f"{name} is not what was packed: its checksum differs")
    return manifest, members


def _checked(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest, of the shape that is relied on."""
    kinds = {"format": int, "made_by": str, "run": str, "redacted": bool, "members": dict}
    kinds |= {"records": int, "skipped_lines": int}
    for key, kind in kinds.items():
        if not isinstance(manifest, dict) or type(manifest.get(key)) is not kind:  # True is no number
            raise ValueError(f"its manifest does not tell {key}")
    if not all(0 <= manifest[key] <= MOST_LINES for key in ("records", "skipped_lines")):
        raise ValueError("its manifest counts lines that no journal has")
    journals, run = 0, manifest["run"]
    for name in manifest["members"]:
        parts = name.split("/", 1) if name.endswith(".parquet") else [name]  # series lie in a folder of their own
        if not all(NAME.fullmatch(part) for part in parts):  # no leading dot, no other separator: it stays in its place
            raise ValueError(f"{name[:100]!a} cannot be the name of a member")
        is_series = parts[0] == f"{run}.series" and len(parts) == 2
        if not (name.endswith(".jsonl") or is_series or VERIFIED.fullmatch(name)):
            raise ValueError(f"{name[:100]!a} is no file of a run")
        journals += name.endswith(".jsonl")
    if journals != 1:
        raise ValueError(f"it has {journals} runs in it, not one")
    if f"{run}.jsonl" not in manifest["members"]:
        raise ValueError("its run is another than its manifest names")
    return manifest


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """At most `most` bytes are unpacked, whatever the headers promise."""
    about = archive.getinfo(name)
    if about.file_size > most:  # beyond which zipfile reads nothing
        raise ValueError(f"{name} is larger than it may be")
    if about.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # zipfile unpacks the others at once
        raise ValueError(f"{name} is packed in a way that bundles are not")
    try:
        with archive.open(name) as file:
            return file.read(most)
    except _DAMAGE as error:
        raise ValueError(f"{name} cannot be unpacked ({error})") from None


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path, LARGEST_FILE)
    except OSError as error:
        raise UsageError(f"Cannot read {inert(str(path))}: {error.strerror}.") from error
