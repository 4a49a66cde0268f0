"""Where tables are printed: a terminal of so many columns, or a pipe, a file or a CI log, which gets all of it.

Nothing is left out, wrapped or coloured where the output is no terminal: whoever reads it later has a wider window,
a search or a program.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

WHOLE = 1_000_000  # columns: more than any table or note takes


def show(made: Callable[[int], RenderableType], stream: TextIO | None = None) -> None:
    """Print to `stream` (standard output) what `made` gives for a width in columns."""
    paper = console(stream or sys.stdout)
    if not paper.is_terminal:
        paper.width = WHOLE
    paper.print(made(paper.width), crop=False)  # a terminal wraps a line that is too long; a cut number is another one


def text(made: Callable[[int], RenderableType], width: int | None) -> str:
    """What `made` gives for a terminal of `width` columns, or for none, without colours."""
    paper = console(io.StringIO(), width=width or WHOLE)
    with paper.capture() as capture:
        paper.print(made(paper.width), crop=False)
    return capture.get()


def console(stream: TextIO, **options: Any) -> Console:
    """A Console for `stream`, a terminal only where it is one. It believes COLUMNS and LINES only where they are sizes.

    Some schedulers set COLUMNS=0.
    """
    from rich.console import Console

    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    sizes = {name: os.environ.get(name, "") for name in ("COLUMNS", "LINES")}
    environment |= {name: value for name, value in sizes.items() if re.fullmatch(r"[1-9][0-9]{0,4}", value)}
    is_terminal = stream.isatty()
    return Console(file=stream, highlight=False, _environ=environment, **{"force_terminal": is_terminal, **options})
