"""pytest-benchmark's own JSON of a run, as `pytest benchmarks/ --benchmark-save` writes it: `pytest-benchmark compare`
reads it. Raw step times of every round are its `stats.data`, derived figures its `extra_info`.
"""

from __future__ import annotations

import json
from typing import Any

from pytest_benchmark import __version__ as pytest_benchmark_version
from pytest_benchmark.stats import Stats

from gpubench.exporting.tables import Exported, Row
from gpubench.spec.record import RunRecord


def pytest_benchmark(part: Exported) -> dict[str, bytes]:
    """Run to content. Cases without a timed round are left out: the format has no word for them."""
    return {
        run: json.dumps(_run(records, [row for row in part.derived.rows if row["run"] == run]), indent=1).encode()
        for run, records in part.records.items()
    }


def _run(records: list[RunRecord], rows: list[Row]) -> dict[str, Any]:
    machine = records[0].machine
    return {
        "machine_info": {
            "node": machine.name,
            "system": machine.os.split(" ")[0],
            "release": machine.os.partition(" ")[2],
            "machine": "",
            "python_implementation": "CPython",
            "python_version": records[0].software.get("python", ""),
            "cpu": {"brand_raw": machine.cpu, "count": machine.cores},
        },
        "commit_info": {},
        "benchmarks": [found for row in rows if (found := _case(records, row))],
        "datetime": min(record.started_at for record in records),
        "version": pytest_benchmark_version,
    }


def _case(records: list[RunRecord], row: Row) -> dict[str, Any] | None:
    mine = [
        record
        for record in records
        if record.case.id == row["case"]
        and record.machine.name == row["machine"]
        and record.case.cores_per_device == (row["cores_per_device"] or 0)
        and record.outcome.status == "ok"
    ]
    stats = Stats()
    for record in mine:
        for each in record.rounds:
            stats.update(each.seconds / each.steps)
    if not stats:
        return None
    name = f"test_training[{row['case']}]"
    return {
        "group": f"{row['workload']} {row['precision']} {row['scaling']}",
        "name": name,
        "fullname": f"benchmarks/test_training.py::{name}",
        "params": None,
        "param": row["case"],
        "extra_info": {**row, "records": [record.record_id for record in mine]},
        "options": {"timer": "gpubench.playback", "disable_gc": False, "warmup": False},
        "stats": {**stats.as_dict(), "data": stats.data, "iterations": 1},
    }
