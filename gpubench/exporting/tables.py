"""What is exported: three raw tables, as the records hold them, and one that is derived.

| table | a row is |
| --- | --- |
| raw-launches | one launch: its case, how it ended, what the workers observed |
| raw-rounds | one round on one rank |
| raw-device-rounds | one round on one device, as it was sampled |
| derived-cases | one case: all that `gpubench show` has, worked out from the raw ones |

`record_id` joins the raw tables; `run`, `machine` and `case` join those with the derived one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpubench.analysis.scaling import CaseSummary, machine_labels, summarize
from gpubench.report import tables
from gpubench.report.words import title
from gpubench.spec.identity import Identity, label
from gpubench.spec.record import Observed, Outcome, RoundTelemetry, RunRecord, WarmUp
from gpubench.spec.verification import Verification

Value = str | int | float | bool | None
Row = dict[str, Value]

OBSERVED = (
    "world_size",
    "parameters",
    "flops_per_step",
    "loss_first",
    "loss_last",
    "replicas_equal",
    "peak_memory_bytes",
    "peak_memory_of",
)


@dataclass(frozen=True)
class Table:
    """Columns in order, and a dict a row with each of them. A name starts with `raw-` or `derived-`."""

    name: str
    columns: tuple[str, ...]
    rows: list[Row]


@dataclass(frozen=True)
class Exported:
    """What was measured on one kind of device: `noun` is for file names, `title` for people."""

    noun: str
    title: str
    tables: tuple[Table, ...]
    records: Mapping[str, list[RunRecord]]  # of each run
    machines: Mapping[Identity, str]  # the label of each, as in the column `machine`

    @property
    def derived(self) -> Table:
        return self.tables[-1]


def exported(
    runs: Mapping[str, Sequence[RunRecord]], verifications: Mapping[str, Sequence[Verification]] | None = None
) -> list[Exported]:
    """One for each kind of device in the runs, given by name, as what was verified where each was measured is."""
    known = machine_labels(record for records in runs.values() for record in records)
    kinds = dict.fromkeys(record.case.device_kind for records in runs.values() for record in records)
    return [
        _exported(
            kind,
            {run: [r for r in all_ if r.case.device_kind == kind] for run, all_ in runs.items()},
            verifications or {},
            known,
        )
        for kind in kinds
    ]


def _exported(
    kind: str,
    runs: Mapping[str, list[RunRecord]],
    verifications: Mapping[str, Sequence[Verification]],
    known: Mapping[Identity, str],
) -> Exported:
    runs = {run: records for run, records in runs.items() if records}
    summaries = {run: summarize(records, verifications.get(run, ()), known) for run, records in runs.items()}
    every = [summary for found in summaries.values() for summary in found]
    made = (
        _table(
            "raw-launches", [_launch(run, r, label(r.machine, known)) for run, records in runs.items() for r in records]
        ),
        _table("raw-rounds", [row for records in runs.values() for record in records for row in _rounds(record)]),
        _table(
            "raw-device-rounds",
            [row for records in runs.values() for record in records for row in _device_rounds(record)],
        ),
        _table("derived-cases", [row for run, found in summaries.items() for row in _cases(run, found)]),
    )
    return Exported("cpu-shares" if kind == "cpu" else "gpu", title(every), made, runs, known)


def _table(name: str, rows: list[Row]) -> Table:
    return Table(name, tuple(dict.fromkeys(column for row in rows for column in row)), rows)


def _launch(run: str, record: RunRecord, machine: str) -> Row:
    outcome: Outcome = record.outcome
    warmup: WarmUp | None = record.warmup
    observed: Observed = record.observed
    return {
        "run": run,
        "record_id": record.record_id,
        "started_at": record.started_at,
        "launch": record.launch,
        "case": record.case.id,
        "machine": machine,
        **dataclasses.asdict(record.case),
        "status": outcome.status,
        "phase": outcome.phase,
        "rank": outcome.rank,
        "message": outcome.message or None,
        "warmup_seconds": warmup.seconds if warmup else None,
        "warmup_steps": warmup.steps if warmup else None,
        "first_step_seconds": warmup.first_step_seconds if warmup else None,
        "steady": warmup.steady if warmup else None,
        **{name: getattr(observed, name) for name in OBSERVED},
    }


def _rounds(record: RunRecord) -> Iterator[Row]:
    for each in record.rounds:
        for rank, (seconds, cpu_seconds) in enumerate(zip(each.rank_seconds, each.rank_cpu_seconds, strict=True)):
            yield {
                "record_id": record.record_id,
                "round": each.index,
                "rank": rank,
                "start_ns": each.start_ns,
                "end_ns": each.end_ns,
                "steps": each.steps,
                "samples": each.samples,
                "rank_seconds": seconds,
                "rank_cpu_seconds": cpu_seconds,
            }


def _device_rounds(record: RunRecord) -> Iterator[Row]:
    names = [field.name for field in dataclasses.fields(RoundTelemetry) if field.name not in ("index", "samples")]
    for device in record.telemetry.devices:
        for each in device.rounds:
            values = {name: getattr(each, name) for name in names}
            single = {name: value for name, value in values.items() if not isinstance(value, (dict, list))}
            yield {
                "record_id": record.record_id,
                "round": each.index,
                "device": device.id,
                "readings": each.samples,
                **single,
            }


def _cases(run: str, summaries: Sequence[CaseSummary]) -> Iterator[Row]:
    for row in tables.rows(summaries):
        yield {"run": run, **{name: None if value == "" else value for name, value in row.items()}}
