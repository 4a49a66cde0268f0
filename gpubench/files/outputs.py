"""Where a command is to write: looked at before the long work begins, not after it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gpubench.files.untrusted import inert
from gpubench.spec.errors import UsageError


def may_write(path: Path, endings: tuple[str, ...]) -> None:
    """UsageError where the file could not be written, or where something else than such a file would be replaced."""
    if path.exists() and (not path.is_file() or path.suffix.lower() not in endings):
        raise UsageError(
            f"{inert(str(path))} is there and is no {' or '.join(endings)} file, so it is not replaced; "
            "choose another name."
        )
    _may_make(path.parent, str(path))


def may_fill(folder: Path) -> None:
    """UsageError where no file can be made in the folder, or the folder itself, which need not be there yet."""
    _may_make(folder, f"to {folder}")


def _may_make(folder: Path, named: str) -> None:
    nearest = folder.absolute()
    try:
        while not nearest.exists() and not nearest.is_symlink():
            nearest = nearest.parent
        with tempfile.TemporaryFile(dir=nearest) as file:  # of no name where the kernel can, and gone in any case
            file.write(b"gpubench")
    except OSError as error:
        raise UsageError(
            f"Cannot write {inert(named)}: {error.strerror} ({inert(str(nearest))}). Choose another place, or "
            "see that this one can be written."
        ) from error
