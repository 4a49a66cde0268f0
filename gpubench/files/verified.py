"""Verifications to and from `verified/` in the results folder, so that they go where the records go."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpubench.files.untrusted import read_bytes
from gpubench.files.writing import write_whole
from gpubench.spec.errors import UsageError
from gpubench.spec.verification import SCHEMA, Verification, to_json

LARGEST_BYTES = 1 << 20


def save(verification: Verification, results: Path) -> Path:
    """One file a subject and environment; a later verification of the same replaces it, whole or not at all."""
    folder = results / "verified"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{verification.fingerprint}.json"
    write_whole(path, to_json(verification).encode())
    return path


def load(results: Path) -> list[Verification]:
    """All that can be read. A file that is damaged, or of a later version, proves nothing and is left out."""
    found = []
    for path in sorted((results / "verified").glob("*.json")):
        try:
            verification = msgspec.json.decode(read_bytes(path, LARGEST_BYTES), type=Verification)
        except (OSError, UsageError, msgspec.MsgspecError, ValueError, RecursionError):
            continue
        if verification.schema == SCHEMA:
            found.append(verification)
    return found


def beside(journal: Path) -> list[Verification]:
    """Those in `verified/` of the results folder, which holds the journal or the machine's folder that holds it."""
    return [each for folder in (journal.parent, journal.parent.parent) for each in load(folder)]
