"""pytest-benchmark's own JSON of a run, as `pytest benchmarks/ --benchmark-save` writes it: `pytest-benchmark compare`
reads it. Raw step times of every round are its `stats.data`, derived figures its `extra_info`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pytest_benchmark import __version__ as pytest_benchmark_version
from pytest_benchmark.stats import Stats

from gpubench.exporting.tables import Exported, Row
from gpubench.spec.identity import label
from gpubench.spec.record import RunRecord


def pytest_benchmark(part: Exported) -> dict[str, bytes]:
    """File name, without its ending, to content: one for each run, and each machine where a run has several.

    Cases without a timed round are left out: the format has no word for them.
    """
    files: dict[str, bytes] = {}
    for run, records in part.records.items():
        machines: dict[str, list[RunRecord]] = {}
        for record in records:
            machines.setdefault(label(record.machine, part.machines), []).append(record)
        for machine, mine in machines.items():
            rows = [row for row in part.derived.rows if (row["run"], row["machine"]) == (run, machine)]
            stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{run}-{machine}").rstrip("_") if len(machines) > 1 else run
            name = stem if stem not in files else f"{stem}-{len(files)}"  # 'a b' and 'a/b' come to the same file name
            files[name] = json.dumps(_run(mine, rows), indent=1).encode()
    return files


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
