"""Tables of text for a terminal, a pipe or a file, as wide as what is in them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

GAP = "  "  # between columns


@dataclass(frozen=True)
class Grid:
    """What `rich.table` draws with its box SIMPLE_HEAD, which takes milliseconds for each row.

    `heads` may have several lines; no cell does. `are_numbers` says which columns stand to the right, `dim` which rows
    are dim. Where a console is narrower, and it `may_fold`, `rich.table` draws it and folds its cells.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    are_numbers: Sequence[bool]
    dim: Collection[int] = ()
    may_fold: bool = True

    @property
    def width(self) -> int:
        """In the columns of a terminal."""
        return sum(self._widths) + len(GAP) * (len(self._widths) - 1) + 2

    @cached_property
    def _widths(self) -> list[int]:
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.heads)
        cells = [(*head.split("\n"), *column) for head, column in zip(self.heads, columns, strict=True)]
        return [max(map(_length, column)) for column in cells]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment
        from rich.style import Style

        if self.may_fold and self.width > options.max_width:
            yield self._folded()
            return
        bold, dim = Style(bold=True), Style(dim=True)
        yield Segment(" " * self.width + "\n")
        for line in self._head_lines():
            yield Segment(line, bold)
            yield Segment("\n")
        yield Segment(f" {'─' * (self.width - 2)} \n")
        for index, row in enumerate(self.rows):
            yield Segment(self._line(row), dim if index in self.dim else None)
            yield Segment("\n")
        yield Segment(" " * self.width + "\n")

    def _head_lines(self) -> Iterator[str]:
        """The last lines of all heads stand side by side."""
        upwards = zip_longest(*(head.split("\n")[::-1] for head in self.heads), fillvalue="")
        yield from (self._line(row) for row in list(upwards)[::-1])

    def _line(self, row: Sequence[str]) -> str:
        cells = [
            " " * (width - _length(cell)) + cell if is_number else cell + " " * (width - _length(cell))
            for cell, width, is_number in zip(row, self._widths, self.are_numbers, strict=True)
        ]
        return f" {GAP.join(cells)} "

    def _folded(self) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for head, is_number in zip(self.heads, self.are_numbers, strict=True):
            table.add_column(Text(head), justify="right" if is_number else "left", vertical="bottom", overflow="fold")
        for index, row in enumerate(self.rows):
            table.add_row(*map(Text, row), style="dim" if index in self.dim else "")
        return table


def _length(text: str) -> int:
    """In the columns of a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
