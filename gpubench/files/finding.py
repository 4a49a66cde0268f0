"""Which files are runs, and which run a word means.

A folder that people hand on holds more than runs: macOS puts `._NAME` beside every file, notebooks keep checkpoints,
browsers and editors make copies. None of these is taken for a run while the run itself is there.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from gpubench.files.untrusted import inert
from gpubench.spec.errors import UsageError, nearest

NUMBERED = re.compile(r"([0-9]{4,9})_(.+)\.jsonl?")
JOURNAL, BUNDLE = ".jsonl", ".gpubench.zip"
_COPY = re.compile(r"(.+?)(-checkpoint| ?\([0-9]+\)|[ _-]copy( ?\(?[0-9]+\)?)?| - Copy( \([0-9]+\))?)", re.IGNORECASE)


def files_in(folder: Path, *endings: str) -> list[Path]:
    """The files with one of `endings` in `folder` and below it, without hidden ones and copies, in order of path.

    A folder that is a symbolic link is looked into, but not below, so that a link in a circle is no trap.
    """
    found = {path for path in _visible(folder) if path.name.endswith(endings)}
    return sorted(path for path in found if original(path) not in found)


def original(path: Path) -> Path | None:
    """The file that this one is a copy of, by its name: `0001_x (1).jsonl` of `0001_x.jsonl`; None for any other."""
    ending = next((each for each in (BUNDLE, JOURNAL) if path.name.endswith(each)), path.suffix)
    match = _COPY.fullmatch(path.name.removesuffix(ending))
    return path.with_name(match[1] + ending) if match else None


def copies(path: Path) -> list[Path]:
    """The copies beside a file, by their names."""
    with contextlib.suppress(OSError):
        return sorted(each for each in path.parent.iterdir() if each.suffix == path.suffix and original(each) == path)
    return []


def find(word: str, results: Path) -> Path:
    """The journal that a user means: a path, a number (`3`, `0003`), a name, or `last`; the newest where several fit.

    UsageError, naming what was asked for and the nearest that there is, where there is none.
    """
    if not word.strip():  # a variable that is not set; as a path it would be this folder
        raise UsageError("The name of the run is empty.")
    path = Path(word)
    with contextlib.suppress(OSError):  # a word that is too long for a path is no path
        if path.suffix == JOURNAL and path.exists():
            return path
        if path.is_dir():
            inside = sorted(files_in(path, JOURNAL), key=_newest_last)
            if inside:
                return inside[-1]
            raise UsageError(f"There is no run (*{JOURNAL}) in {inert(word)}.")
    runs = sorted(files_in(results, JOURNAL), key=_newest_last)
    fitting = [run for run in runs if word == "last" or word in names(run)]
    if fitting:
        return fitting[-1]
    _see_whether_it_is_another_file(path)
    if not runs:
        asked = "" if word == "last" else f" {inert(word)!r}: there is none"
        raise UsageError(f"There is no run{asked} in {results}. Make one with `gpubench run --save NAME`.")
    known = sorted({inert(names(run)[1]) for run in runs})
    if path.suffix == JOURNAL or len(path.parts) > 1:
        raise UsageError(
            f"There is no file {inert(word)}, and no run of that name in {results}; {nearest(word, known)}"
        )
    raise UsageError(f"There is no run {inert(word)!r} in {results}; {nearest(word, known)}")


def names(path: Path) -> list[str]:
    """What a run answers to: its file name without ending, its name, its number with and without zeros."""
    match = NUMBERED.fullmatch(path.name)
    if not match:
        return [path.stem, path.stem]
    return [path.stem, match[2], match[1], str(int(match[1]))]


def _see_whether_it_is_another_file(path: Path) -> None:
    """UsageError that says what the file is, where there is one; it may be too long a word for a path."""
    try:
        if not path.exists():
            return
    except OSError:
        return
    name, journal = inert(str(path)), path.with_suffix(JOURNAL)
    if path.name.endswith(BUNDLE):
        raise UsageError(f"{name} is a bundle: write its run with `gpubench unpack {name}`, or compare it as it is.")
    if path.suffix == ".json" and journal.exists():
        raise UsageError(f"{name} is pytest-benchmark's file and no run; the run is {inert(str(journal))}.")
    raise UsageError(f"{name} is a file, but no run: the file of a run is called NAME{JOURNAL}.")


def _visible(folder: Path) -> Iterator[Path]:
    """Files below a folder, none of them hidden; of linked folders, the files that lie directly in them."""
    root = folder.resolve()
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place, name) for name in files if not name.startswith("."))
        for link in (Path(place, name) for name in folders if os.path.islink(os.path.join(place, name))):
            if not link.resolve().is_relative_to(root):  # what lies inside is found without the link
                with contextlib.suppress(OSError):
                    yield from (each for each in link.iterdir() if each.is_file() and not each.name.startswith("."))


def _newest_last(path: Path) -> tuple[int, str]:
    match = NUMBERED.fullmatch(path.name)
    return int(match[1]) if match else 0, path.name
