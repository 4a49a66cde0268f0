"""Derived figures in Prometheus' text format, for the node exporter's textfile collector.

A gauge for each numeric column, `gpubench_` before its name; what tells cases apart are labels. Raw rounds are left
out: Prometheus keeps one value of a name at a time.
"""

from __future__ import annotations

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
)


def prometheus(table: Table) -> str:
    lines = []
    for name in table.columns:
        values = [(row, row[name]) for row in table.rows if isinstance(row[name], (int, float))]
        if name in LABELS or not values:
            continue
        lines.append(f"# TYPE gpubench_{name} gauge")
        lines += [f"gpubench_{name}{{{_labels(row)}}} {value!r}" for row, value in values]
    return "\n".join(lines) + "\n"


def _labels(row: Row) -> str:
    return ",".join(f'{name}="{_escaped(str(row[name]))}"' for name in LABELS if row[name] is not None)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
