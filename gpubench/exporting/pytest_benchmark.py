"""pytest-benchmark's own JSON of a run, as `pytest benchmarks/ --benchmark-save` writes it: `pytest-benchmark compare`
reads it. Raw step times of every round are its `stats.data`, derived figures its `extra_info`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pytest_benchmark import __version__ as pytest_benchmark_version
from pytest_benchmark.stats import Stats

from gpubench.analysis.scaling import CaseSummary
from gpubench.exporting.tables import Exported
from gpubench.report import tables


def pytest_benchmark(part: Exported) -> dict[str, bytes]:
    """File name, without its ending, to content: one for each run, and each machine where a run has several.

    Cases without a number are left out: the format has no word for them, and gates judge times.
    """
    files: dict[str, bytes] = {}
    for run, summaries in part.summaries.items():
        machines: dict[str, list[CaseSummary]] = {}
        for summary in summaries:
            machines.setdefault(summary.machine_label, []).append(summary)
        for machine, mine in machines.items():
            stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{run}-{machine}").rstrip("_") if len(machines) > 1 else run
            name = stem if stem not in files else f"{stem}-{len(files)}"  # 'a b' and 'a/b' come to the same file name
            files[name] = json.dumps(_run(run, mine), indent=1).encode()
    return files


def _run(run: str, summaries: Sequence[CaseSummary]) -> dict[str, Any]:
    records = [record for summary in summaries for record in summary.records]
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
        "benchmarks": [_case(run, summary) for summary in summaries if summary.samples_per_second is not None],
        "datetime": min(record.started_at for record in records),
        "version": pytest_benchmark_version,
    }


def _case(run: str, summary: CaseSummary) -> dict[str, Any]:
    """The rounds of the launches that count, and no others."""
    stats = Stats()
    for record in summary.counted:
        for each in record.whole().rounds:
            stats.update(each.seconds / each.steps)
    case = summary.case
    name = f"test_training[{case.id}]"
    [row] = tables.rows([summary])
    return {
        "group": f"{case.workload} {case.precision} {case.scaling}",
        "name": name,
        "fullname": f"benchmarks/test_training.py::{name}",
        "params": None,
        "param": case.id,
        "extra_info": {"run": run, **row, "records": [record.record_id for record in summary.counted]},
        "options": {"timer": "gpubench.playback", "disable_gc": False, "warmup": False},
        "stats": {**stats.as_dict(), "data": stats.data, "iterations": 1},
    }
