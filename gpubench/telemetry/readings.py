"""The sampler's file, read as it grows: the headers, and a series for each device."""

from __future__ import annotations

import json
import threading
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from typing import Any

from gpubench.telemetry.source import Header


@dataclass(frozen=True)
class Window:
    """A device's series between two times. `problems` maps a metric to why its newest missing value is missing."""

    time_ns: list[int]
    series: dict[str, list[float | None]]
    problems: dict[str, str]


@dataclass
class _Track:
    """One device so far: columns of 8 bytes a value, with NaN for None, as a run of hours has millions of them."""

    time_ns: array[int] = field(default_factory=lambda: array("q"))
    columns: dict[str, array[float]] = field(default_factory=dict)
    problems: dict[str, list[tuple[int, str]]] = field(default_factory=dict)  # when each began

    def add(self, body: dict[str, Any]) -> None:
        for metric, value in body["values"].items():
            column = self.columns.setdefault(metric, array("d", [nan]) * len(self.time_ns))
            column.append(nan if value is None else value)
        self.time_ns.append(body["time_ns"])
        for column in self.columns.values():
            column.extend([nan] * (len(self.time_ns) - len(column)))  # a metric that this sample lacks
        for metric, text in body["problems"].items():
            begun = self.problems.setdefault(metric, [])
            if not begun or begun[-1][1] != text:
                begun.append((body["time_ns"], text))

    def window(self, start_ns: int, end_ns: int, margin: int) -> Window:
        first = max(0, bisect_left(self.time_ns, start_ns) - margin)
        last = bisect_right(self.time_ns, end_ns) + margin
        series = {
            metric: [None if isnan(value) else value for value in column[first:last]]
            for metric, column in self.columns.items()
        }
        problems = {
            metric: [text for began_ns, text in begun if began_ns <= end_ns][-1]
            for metric, begun in self.problems.items()
            if begun[0][0] <= end_ns
        }
        return Window(self.time_ns[first:last].tolist(), series, problems)


class Readings:
    """Everything that stands in the file by now. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._lock = threading.Lock()
        self._tracks: dict[str, _Track] = {}
        self.headers: list[Header] = []

    def update(self) -> None:
        """Read what was added. A line without its end is left for the next time."""
        with self._lock:
            try:
                with self._path.open("rb") as file:
                    file.seek(self._offset)
                    whole, newline, _ = file.read().rpartition(b"\n")
            except FileNotFoundError:
                return
            self._offset += len(whole) + len(newline)
            for line in whole.splitlines():
                self._take(json.loads(line))

    def newest_ns(self, id: str) -> int | None:
        with self._lock:
            track = self._tracks.get(id)
            return track.time_ns[-1] if track else None

    def newest(self) -> dict[str, dict[str, float | None]]:
        """The newest values by device and metric."""
        with self._lock:
            return {
                id: {metric: None if isnan(column[-1]) else column[-1] for metric, column in track.columns.items()}
                for id, track in self._tracks.items()
            }

    def window(self, id: str, start_ns: int, end_ns: int, margin: int = 0) -> Window:
        """The samples from `start_ns` to `end_ns`, with `margin` more at each end."""
        with self._lock:
            return self._tracks.get(id, _Track()).window(start_ns, end_ns, margin)

    def _take(self, body: dict[str, Any]) -> None:
        if "header" in body:
            self.headers.append(Header(**body["header"]))
        else:
            self._tracks.setdefault(body["id"], _Track()).add(body)
