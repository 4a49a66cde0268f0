"""Verifications to and from `verified/` in the results folder, so that they go where the records go.

Those that came with a run in a bundle lie in a folder of that run alone, so that no vendor vouches for another.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    return _in(results / "verified")


def of_bundle(journal: Path) -> list[Verification]:
    """Those that came in the run's bundle, as `load` reads them."""
    return _in(folder_of(journal))


def folder_of(journal: Path) -> Path:
    """Where a bundle's verifications lie beside its journal, whether it is there or not."""
    return journal.with_suffix(".verified")


def beside(journal: Path) -> list[Verification]:
    """Those of the run's bundle, and those in `verified/` of the results folder.

    That holds the journal, or the machine's folder that holds it.
    """
    near = [each for folder in (journal.parent, journal.parent.parent) for each in load(folder)]
    return of_bundle(journal) + near


def _in(folder: Path) -> list[Verification]:
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(decode(read_bytes(path, LARGEST_BYTES)))
        except (OSError, UsageError, ValueError):
            continue
    return found


def decode(content: bytes) -> Verification:
    """ValueError where it is no verification of this version, or says one thing twice."""
    try:
        json.loads(content, object_pairs_hook=_each_once)
        verification = msgspec.json.decode(content, type=Verification)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if verification.schema != SCHEMA:
        raise ValueError(f"it is of version {verification.schema}")
    return verification


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(made := dict(pairs)) != len(pairs):
        raise ValueError("it says something twice")
    return made
