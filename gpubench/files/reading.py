"""Runs as people name them where several are taken: journals, folders of them, packed bundles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from gpubench.files import bundle, store
from gpubench.files.finding import JOURNAL, files_in
from gpubench.files.reducing import ReducedRun
from gpubench.files.store import Run
from gpubench.spec.errors import UsageError
from gpubench.spec.verification import Verification

BUNDLE_SUFFIX = bundle.SUFFIX


R = TypeVar("R", Run, ReducedRun)


@dataclass(frozen=True)
class Read(Generic[R]):
    """A run, and what was verified where it was measured."""

    run: R
    verifications: list[Verification]


def runs_of(word: str, results: Path, read_run: Callable[[Path], R]) -> list[Read[R]]:
    """All runs of a folder, the one of a bundle, or the one that `store.find` finds. UsageError where there is none.

    `read_run` is `store.load`, or `reducing.load` where figures are all that is wanted.
    """
    path = Path(word)
    if path.is_dir():
        found = files_in(path, JOURNAL, BUNDLE_SUFFIX)
        if not found:
            raise UsageError(f"There is no run (*{JOURNAL}) and no bundle (*{BUNDLE_SUFFIX}) in {path}.")
        return [_read(each, read_run) for each in found]
    return [_read(path if path.suffix == ".zip" else store.find(word, results), read_run)]


def _read(path: Path, read_run: Callable[[Path], R]) -> Read[R]:
    if path.suffix == ".zip":
        return Read(*bundle.load(path, read_run))
    run = read_run(path)
    return Read(run, run.verifications)
