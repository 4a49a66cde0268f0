"""Rounds that were measured elsewhere, played into pytest-benchmark: only those of launches that count."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from gpubench.analysis.scaling import CaseSummary
    from gpubench.spec.record import RunRecord


class Playback:
    """A clock that moves only when a measured round is played: pytest-benchmark's timer.

    It reads 0 before a round and the round's duration after it, so that durations come out exact.
    """

    __name__ = "gpubench.playback"  # pytest-benchmark writes it into the file as the timer's name

    def __init__(self) -> None:
        self._pending = 0.0

    def __call__(self) -> float:
        reading, self._pending = self._pending, 0.0
        return reading

    def advance(self, seconds: float) -> None:
        self._pending = seconds


PLAYBACK = Playback()


def play(benchmark: BenchmarkFixture, summary: CaseSummary) -> None:
    """The seconds a step of every round of every launch that counts; `summary` has a number."""
    case = summary.case
    step_seconds = [one.seconds / one.steps for record in summary.counted for one in record.whole().rounds]
    durations = iter(step_seconds)
    benchmark.group = f"{case.workload} {case.precision} {case.scaling}"
    benchmark.extra_info.update(extra_info(summary))
    benchmark.pedantic(lambda: PLAYBACK.advance(next(durations, 0.0)), rounds=len(step_seconds))


def extra_info(summary: CaseSummary) -> dict[str, Any]:
    """The derived figures under their export names, and the records without their series, which the journal holds.

    All of it is what JSON has a word for: no tuple, no NaN, no infinity.
    """
    from gpubench.report import tables

    (row,) = tables.rows([summary])
    finite = {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in row.items()}
    return {**finite, "records": [_plain(record.whole()) for record in summary.counted]}


def _plain(record: RunRecord) -> Any:
    from gpubench.spec.record import to_json

    devices = [dataclasses.replace(device, time_ns=[], series={}) for device in record.telemetry.devices]
    telemetry = dataclasses.replace(record.telemetry, devices=devices)
    return json.loads(to_json(dataclasses.replace(record, telemetry=telemetry)))
