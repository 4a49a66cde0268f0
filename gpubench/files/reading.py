"""Runs as people name them where several are taken: journals, folders of them, packed bundles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpubench.files import bundle, store
from gpubench.files.finding import JOURNAL, files_in
from gpubench.files.store import Run
from gpubench.spec.errors import UsageError
from gpubench.spec.verification import Verification

BUNDLE_SUFFIX = bundle.SUFFIX


@dataclass(frozen=True)
class Read:
    """A run, and what was verified where it was measured."""

    run: Run
    verifications: list[Verification]


def runs_of(word: str, results: Path) -> list[Read]:
    """All runs of a folder, the one of a bundle, or the one that `store.find` finds. UsageError where there is none."""
    path = Path(word)
    if path.is_dir():
        found = files_in(path, JOURNAL, BUNDLE_SUFFIX)
        if not found:
            raise UsageError(f"There is no run (*{JOURNAL}) and no bundle (*{BUNDLE_SUFFIX}) in {path}.")
        return [_read(each) for each in found]
    return [_read(path if path.suffix == ".zip" else store.find(word, results))]


def _read(path: Path) -> Read:
    if path.suffix == ".zip":
        return Read(*bundle.load(path))
    run = store.load(path)
    return Read(run, run.verifications)
