"""Journals as years of nightly runs leave them, made by varying real records: for `large.py` and its quick test.

The records are those of results/examples, measured on CPU shares, and the golden ones: of the fake framework, and of
hand-made "Test GPU"s. Each night has them all anew on each machine, with times of its own, so that no two are alike.
"""

from __future__ import annotations

import json
import random
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
SOURCES = (ROOT / "results" / "examples" / "first.jsonl", ROOT / "tests" / "golden" / "schema-1.jsonl")
FIRST_NIGHT = datetime.fromisoformat("2026-01-01T01:00:00+00:00")
# Journals of one launch of each, or of many launches of one: how many, and what differs.
ODD: dict[str, tuple[int, Callable[[dict[str, Any], int], None]]] = {
    "20,000 launches of one case": (20_000, lambda record, number: None),
    "5,000 workloads": (5_000, lambda record, number: record["case"].update(workload=f"model-{number}")),
    "3,000 machines": (3_000, lambda record, number: record["machine"].update(name=f"box-{number}")),
}
LEAST_BYTES = 3000  # of a golden record: the smaller ones are launches that were skipped


def write(path: Path, n_records: int, n_machines: int = 3, seed: int = 0, slower: float = 1.0) -> None:
    """A journal of `n_records`. Steps take `slower` times as long as in the records that are varied."""
    with open(path, "w", encoding="utf-8") as file:
        for record in records(n_records, n_machines, seed, slower):
            file.write(json.dumps(record, separators=(",", ":")) + "\n")


def write_odd(path: Path, odd: tuple[int, Callable[[dict[str, Any], int], None]]) -> int:
    """A journal as one of `ODD` says, of small records; gives how many."""
    n_records, change = odd
    picked = random.Random(0)
    line = next(line for line in SOURCES[0].read_bytes().splitlines() if len(line) > LEAST_BYTES)
    with open(path, "w", encoding="utf-8") as file:
        for number in range(n_records):
            record = json.loads(line)
            record["record_id"], record["run_id"], record["launch"] = _hex(picked), f"run-{number}", number
            record["started_at"] = (FIRST_NIGHT + timedelta(minutes=number)).isoformat()
            _slow_down(record, picked.gauss(1.0, 0.02), picked)
            change(record, number)
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
    return n_records


def records(n_records: int, n_machines: int, seed: int, slower: float = 1.0) -> Iterator[dict[str, Any]]:
    """Records as JSON has them, night after night."""
    picked = random.Random(seed)
    lines = [line for path in SOURCES for line in path.read_bytes().splitlines() if len(line) > LEAST_BYTES]
    if n_machines == 1:  # a side of a comparison has CPU shares or GPUs, and no launch of another machine
        lines = [line for line in SOURCES[0].read_bytes().splitlines() if len(line) > LEAST_BYTES]
    made = night = 0
    while True:
        for machine in range(n_machines):
            sessions: dict[str, str] = defaultdict(lambda: _hex(picked))  # by the session whose records are varied
            for position, line in enumerate(lines):
                if made == n_records:
                    return
                record = json.loads(line)
                record["record_id"], record["run_id"] = _hex(picked), sessions[record["run_id"]]
                record["started_at"] = (FIRST_NIGHT + timedelta(days=night, minutes=position)).isoformat()
                record["machine"]["name"] = f"{record['machine']['name']}-{machine}"
                _slow_down(record, slower * picked.gauss(1.0, 0.02), picked)
                yield record
                made += 1
        night += 1


def _slow_down(record: dict[str, Any], factor: float, picked: random.Random) -> None:
    """Every time of the rounds, and what goes with it, as if steps took `factor` times as long."""
    later_ns = 0
    for one in record["rounds"]:
        each = factor * picked.gauss(1.0, 0.003)
        lasted_ns = one["end_ns"] - one["start_ns"]
        one["start_ns"] += later_ns
        one["end_ns"] = one["start_ns"] + round(lasted_ns * each)
        later_ns += round(lasted_ns * each) - lasted_ns
        for name in ("rank_seconds", "rank_cpu_seconds"):
            one[name] = [seconds * each for seconds in one[name]]
        for device in record["telemetry"]["devices"]:
            for of_round in device["rounds"]:
                if of_round["index"] == one["index"]:
                    for name in ("energy_joules", "energy_integrated_joules"):
                        if of_round.get(name) is not None:
                            of_round[name] *= each


def _hex(picked: random.Random) -> str:
    return uuid.UUID(int=picked.getrandbits(128)).hex
