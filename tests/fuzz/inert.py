"""What must hold of everything that is shown, whatever the file was: text, and nothing that anything would obey."""

from __future__ import annotations

import csv
import io
import unicodedata
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "input", "br", "rect", "line", "polyline"}


def assert_plain(text: str) -> None:
    """No control, bidi, zero-width or unassigned character: nothing for a terminal to act on."""
    found = sorted({char for char in text if not char.isprintable() and char != "\n"})
    assert not found, [hex(ord(char)) for char in found]


def assert_csv(text: str) -> None:
    """As many cells in every row as in its head, and none that a spreadsheet would run."""
    assert_plain(text)
    head, *rows = csv.reader(io.StringIO(text))
    for row in rows:
        assert len(row) == len(head)
        for cell in row:
            assert not unicodedata.normalize("NFKC", cell[:1]).startswith(tuple("=+-@|%")) or is_number(cell), cell


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def assert_page(page: str, honest: str) -> None:
    """Only elements and attributes that an honest page has too, nothing fetched, and no script of another's."""
    assert_plain(page)
    seen, usual = Elements(page), Elements(honest)
    assert seen.kinds <= usual.kinds | {("rect", ("class", "height", "width", "x", "y"))}, seen.kinds - usual.kinds
    assert seen.scripts == usual.scripts
    assert seen.styles == usual.styles
    assert all(address.startswith(("data:", "#")) for address in seen.addresses), seen.addresses


class Elements(HTMLParser):
    """The elements of a page as a browser would make them: `kinds` are tags with the names of their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.kinds: set[tuple[str, tuple[str, ...]]] = set()
        self.addresses: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.kinds.add((tag, tuple(sorted(name for name, _ in attributes))))
        self.addresses += [value or "" for name, value in attributes if name in ("src", "href", "action", "data")]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.kinds.add((tag, tuple(sorted(name for name, _ in attributes))))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts.append(data)
        if self._open and self._open[-1] == "style":
            self.styles.append(data)
