"""Derived figures in Prometheus' text format, for the node exporter's textfile collector.

A gauge for each numeric column, `gpubench_` before its name; what tells cases apart are labels. Raw rounds are left
out: Prometheus keeps one value of a name at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpubench.exporting.tables import Row, Table

LABELS = (
    "run",
    "machine",
    "case",
    "workload",
    "framework",
    "strategy",
    "precision",
    "scaling",
    "device_kind",
    "n_devices",
    "n_nodes",
    "cores_per_device",
    "per_device_batch",
    "global_batch",
    "seed",
)
HELP = {
    "samples_per_second": "Throughput over all devices: the median across launches.",
    "samples_per_second_per_device": "Throughput over the number of devices.",
    "speedup": "Throughput over that of the baseline, the strategy single on one device.",
    "scaling_efficiency": "Speed-up over the number of devices; 1 is ideal.",
    "own_scaling_efficiency": "Scaling efficiency against the same strategy on one device.",
    "utilization_percent": "GPU: share of time in which any kernel ran. CPU share: busy share of its cores. A mean.",
    "utilization_percent_min": "The least busy device in its least busy round.",
    "utilization_percent_max": "The busiest device in its busiest round.",
    "memory_used_bytes": "GPU: the most in use on one device. CPU shares: the peak of the workers.",
    "power_watts": "Power of all devices of the case together: a mean over the timed rounds.",
    "joules_per_sample": "Energy of all devices over samples, of the timed rounds: the median across launches.",
    "launches": "Launches that count.",
    "launches_lost": "Launches that failed or could not run.",
    "launches_set_aside": "Launches that ended well under conditions unfit for measuring, and do not count.",
    "launches_paired": "Pairs of launches whose rounds took turns.",
}
TIMESTAMP, TIMESTAMP_HELP = "last_started_timestamp_seconds", "When the last launch of the case started."


def prometheus(table: Table) -> bytes:
    """What is not measured has no line: Prometheus would take any number for one that was."""
    registry = CollectorRegistry()
    registry.register(_Table(table))
    return generate_latest(registry)


class _Table(Collector):
    def __init__(self, table: Table) -> None:
        self._table = table

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name in self._table.columns:
            if name not in LABELS:
                yield from _gauge(name, help_of(name), [(row, row[name]) for row in self._table.rows])
        yield from _gauge(TIMESTAMP, TIMESTAMP_HELP, [(row, _seconds(row)) for row in self._table.rows])


def help_of(name: str) -> str:
    """What a column means, in one sentence; nothing for one that holds text."""
    for ending, which in (("_low", "Lower"), ("_high", "Upper")):
        if name.endswith(ending):
            return f"{which} end of the 95 % interval of {name.removesuffix(ending)}."
    return HELP.get(name, "")


def _gauge(name: str, told: str, values: list[tuple[Row, object]]) -> Iterator[GaugeMetricFamily]:
    known = [(row, value) for row, value in values if isinstance(value, (int, float))]
    if known:
        gauge = GaugeMetricFamily(f"gpubench_{name}", told, labels=LABELS)
        for row, value in known:
            gauge.add_metric(["" if row[label] is None else str(row[label]) for label in LABELS], value)
        yield gauge


def _seconds(row: Row) -> float | None:
    """Since 1970; None where a record from elsewhere has no such time."""
    try:
        return datetime.fromisoformat(str(row["last_started_at"])).timestamp()
    except ValueError:
        return None
