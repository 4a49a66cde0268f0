"""Files that replace others whole: whoever reads one sees the old or the new, never half of it."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path


def own_folder(folder: Path) -> None:
    """Make `folder`, if it is not there. OSError where it is a link: what is written is for where the user said."""
    if folder.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "it is a link", str(folder))
    folder.mkdir(exist_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Give `path` that content, on the disk. OSError, and what was there before, where that fails.

    A link of that name is replaced, not followed, and so is whatever an interrupted writer left beside it.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.unlink(missing_ok=True)
        with open(part, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
