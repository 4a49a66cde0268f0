"""The sampler's file, read as it grows: the headers, and a series for each device."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path

import msgspec

from gpubench.telemetry.source import Gpm, Header, Sample

# What grows. Between two readings of a counter there is no value to hold.
COUNTERS = {
    "energy_joules", "pcie_tx_bytes", "pcie_rx_bytes", "pcie_replays", "nvlink_tx_bytes", "nvlink_rx_bytes",
    "ecc_corrected", "ecc_uncorrected", "remapped_rows", "throttle_power_ns", "throttle_thermal_ns",
    "throttle_sync_boost_ns", "throttle_board_limit_ns", "throttle_reliability_ns",
}  # fmt: skip


# What no device at work can read. A driver that gives 0 for one of these has no figure, or an old one.
NEVER_ZERO = {
    "power_watts", "power_average_watts", "sm_clock_mhz", "memory_clock_mhz", "temperature_celsius",
    "memory_temperature_celsius", "pcie_link_generation", "pcie_link_width",
}  # fmt: skip
ZERO = "it read 0, which cannot be"
ALL_BITS = {2**16 - 1, 2**32 - 1, 2**64 - 1}  # of a driver that has no figure, at each width that it uses
LARGEST = 2**63  # and what a file of ours can hold
BELOW_ZERO = {"steal_percent"}  # the kernel's counters may step back a little; no device at work is that cold
MOST_WATTS = 1e5
NARROW = {"power_watts", "power_average_watts", "temperature_celsius", "memory_temperature_celsius", "sm_clock_mhz"}
HOTTEST_CELSIUS = 250.0
NO_NUMBER = "it gave what is no number"


def impossible(metric: str, value: float) -> str | None:
    """Why the value cannot be one of that metric; None where it can."""
    if value == 0 and metric in NEVER_ZERO:
        return ZERO
    if not -LARGEST < value < LARGEST or value in (2**32 - 1, 2**64 - 1) or (metric in NARROW and value in ALL_BITS):
        return f"it read {value:.0f}, which is no figure"
    if value < 0 and metric not in BELOW_ZERO:
        return f"it read {value:g}, below 0"
    if metric.endswith("_percent") and value > 100:
        return f"it read {value:g} %"
    if metric.endswith("temperature_celsius") and value > HOTTEST_CELSIUS:
        return f"it read {value:g} °C"
    if metric.endswith("_watts") and value > MOST_WATTS:
        return f"it read {value:g} W"
    return None


@dataclass(frozen=True)
class Window:
    """A device's series between two times, with what came apart from them.

    `failed` counts the readings that failed, by metric, and `problems` has why the newest one did.
    """

    time_ns: list[int]
    series: dict[str, list[float | None]]
    failed: dict[str, int]
    problems: dict[str, str]
    history: list[tuple[int, float]]
    gpm: list[Gpm]
    xids: list[tuple[int, int]]


@dataclass(frozen=True)
class Sweep:
    """One sweep over all devices: when it began, how long it took, how late it was.

    `cpu_ns` is the process's CPU time so far, None where it was not looked at.
    """

    time_ns: int
    took_ns: int
    late_ns: int
    cpu_ns: int | None = None


@dataclass(frozen=True)
class _Line:
    """One line of the file: a sweep and what it brought, or else a header, or the period."""

    samples: list[Sample] = field(default_factory=list)
    sweep: Sweep | None = None
    header: Header | None = None
    period_ns: int | None = None
    edge_ns: int | None = None


@dataclass
class _Track:
    """One device so far: columns of 8 bytes a value, with NaN for None, as a run of hours has millions of them."""

    time_ns: array[int] = field(default_factory=lambda: array("q"))
    columns: dict[str, array[float]] = field(default_factory=dict)
    failures: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    history: list[tuple[int, float]] = field(default_factory=list)
    gpm: list[Gpm] = field(default_factory=list)
    xids: list[tuple[int, int]] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        """A gauge that was not due keeps its value; a counter has none then."""
        for metric, value in sample.values.items():
            column = self.columns.get(metric)
            if column is None:
                column = self.columns[metric] = array("d", [nan]) * len(self.time_ns)
            if value is None:
                if metric not in sample.problems:  # JSON has no word for it
                    self.failures.setdefault(metric, []).append((sample.time_ns, NO_NUMBER))
            elif why := impossible(metric, value):
                value = None
                self.failures.setdefault(metric, []).append((sample.time_ns, why))
            column.append(nan if value is None else value)
        self.time_ns.append(sample.time_ns)
        for metric, column in self.columns.items():
            if metric not in sample.values:
                column.append(nan if metric in COUNTERS or not column else column[-1])
        for metric, text in sample.problems.items():
            self.failures.setdefault(metric, []).append((sample.time_ns, text))
        self.history += sample.history
        self.xids += sample.xids
        if sample.gpm:
            self.gpm.append(sample.gpm)

    def window(self, start_ns: int, end_ns: int, margin: int) -> Window:
        first = max(0, bisect_left(self.time_ns, start_ns) - margin)
        last = bisect_right(self.time_ns, end_ns) + margin
        series = {
            metric: [None if isnan(value) else value for value in column[first:last]]
            for metric, column in self.columns.items()
        }
        failed = {
            metric: [text for time_ns, text in texts if start_ns <= time_ns <= end_ns]
            for metric, texts in self.failures.items()
        }
        from_ns = bisect_left(self.history, (start_ns, -1.0))
        to_ns = bisect_right(self.history, (end_ns, 101.0))
        return Window(
            time_ns=self.time_ns[first:last].tolist(),
            series=series,
            failed={metric: len(texts) for metric, texts in failed.items() if texts},
            problems={metric: texts[-1] for metric, texts in failed.items() if texts},
            history=self.history[max(0, from_ns - 1) : to_ns + 1],
            gpm=[one for one in self.gpm if one.end_ns >= start_ns and one.start_ns <= end_ns],
            xids=[(time_ns, code) for time_ns, code in self.xids if start_ns <= time_ns <= end_ns],
        )


class Readings:
    """Everything that stands in the file by now. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._decode = msgspec.json.Decoder(_Line).decode
        self._lock = threading.Lock()
        self._tracks: dict[str, _Track] = {}
        self.headers: list[Header] = []
        self.sweeps: list[Sweep] = []
        self.period_ns: int | None = None
        self.edge_ns = 0  # what reading everything took when the sampler started

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
                self._take(self._decode(line))

    def newest_ns(self, id: str) -> int | None:
        with self._lock:
            track = self._tracks.get(id)
            return track.time_ns[-1] if track else None

    def newest_history_ns(self, id: str) -> int | None:
        """None where the device has no history."""
        with self._lock:
            track = self._tracks.get(id)
            return track.history[-1][0] if track and track.history else None

    def newest(self) -> dict[str, dict[str, float | None]]:
        """The newest values by device and metric."""
        with self._lock:
            return {
                id: {metric: None if isnan(column[-1]) else column[-1] for metric, column in track.columns.items()}
                for id, track in self._tracks.items()
                if track.columns  # a GPU that nobody samples may still have told an Xid
            }

    def window(self, id: str, start_ns: int, end_ns: int, margin: int = 0) -> Window:
        """The samples from `start_ns` to `end_ns`, with `margin` more at each end."""
        with self._lock:
            return self._tracks.get(id, _Track()).window(start_ns, end_ns, margin)

    def xids_but_of(self, ids: Collection[str], start_ns: int, end_ns: int) -> list[tuple[str, int, int]]:
        """(device, time in ns, Xid) between two times, of all devices but these, in order of time."""
        with self._lock:
            others = [(id, t, code) for id, track in self._tracks.items() if id not in ids for t, code in track.xids]
        return sorted((one for one in others if start_ns <= one[1] <= end_ns), key=lambda one: one[1])

    def _take(self, line: _Line) -> None:
        for sample in line.samples:
            self._tracks.setdefault(sample.id, _Track()).add(sample)
        if line.sweep:
            self.sweeps.append(line.sweep)
        if line.header:
            self.headers.append(line.header)
        self.period_ns = line.period_ns or self.period_ns
        self.edge_ns = line.edge_ns or self.edge_ns
