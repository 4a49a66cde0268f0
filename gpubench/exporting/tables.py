"""What is exported: four raw tables, as the records hold them, and one that is derived.

| table | a row is |
| --- | --- |
| raw-launches | one launch: its case, how it ended, what the workers observed |
| raw-rounds | one round: its steps and samples, of all ranks together, so that a sum over rows is a true one |
| raw-rank-rounds | one round on one rank: its time |
| raw-device-rounds | one round on one device, as it was sampled |
| derived-cases | one case: all that `gpubench show` has, worked out from the raw ones |

`record_id` joins the raw tables; `run`, `machine` and `case` join those with the derived one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpubench.analysis.scaling import CaseSummary, machine_labels, summarize
from gpubench.report import tables as shown
from gpubench.report.words import title
from gpubench.spec.errors import UsageError, nearest
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
ROUNDS = ("record_id", "round", "start_ns", "end_ns", "steps", "samples")
RANK_ROUNDS = ("record_id", "round", "rank", "rank_seconds", "rank_cpu_seconds")
SAMPLED = tuple(
    field.name
    for field in dataclasses.fields(RoundTelemetry)
    if field.name not in ("index", "samples") and field.default_factory is dataclasses.MISSING  # no dict and no list
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
    summaries: Mapping[str, list[CaseSummary]]  # of each run
    are_chosen: bool = False  # the columns, by the user: all of them stand then, also those without a value

    @property
    def derived(self) -> Table:
        return self.tables[-1]

    def chosen(self, columns: Sequence[str]) -> Exported:
        """The tables that have all of `columns`, with these alone and in this order.

        UsageError where a column is in no table, or all of them are in none together.
        """
        names = list(dict.fromkeys(name for table in self.tables for name in table.columns))
        for name in columns:
            if name not in names:
                raise UsageError(f"No column is called {name!r}; {nearest(name, names)}")
        tables = [table for table in self.tables if set(columns) <= set(table.columns)]
        if not tables:
            places = [f"{n} is in {' and '.join(t.name for t in self.tables if n in t.columns)}" for n in columns]
            raise UsageError(f"No table has all of these columns: {'; '.join(places)}.")
        return dataclasses.replace(
            self, tables=tuple(Table(table.name, tuple(columns), table.rows) for table in tables), are_chosen=True
        )


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
    launches = [_launch(run, r, label(r.machine, known)) for run, records in runs.items() for r in records]
    cases = [row for run, found in summaries.items() for row in _cases(run, found)]
    each = [record for records in runs.values() for record in records]
    made = (
        Table("raw-launches", tuple(launches[0]), launches),
        Table("raw-rounds", ROUNDS, [row for record in each for row in _rounds(record)]),
        Table("raw-rank-rounds", RANK_ROUNDS, [row for record in each for row in _rank_rounds(record)]),
        Table(
            "raw-device-rounds",
            ("record_id", "round", "device", "readings", *SAMPLED),
            [row for record in each for row in _device_rounds(record)],
        ),
        Table("derived-cases", tuple(cases[0]), cases),
    )
    return Exported("cpu-shares" if kind == "cpu" else "gpu", title(every), made, summaries)


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
        "cores_per_device": record.case.cores_per_device or None,
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
        yield {
            "record_id": record.record_id,
            "round": each.index,
            "start_ns": each.start_ns,
            "end_ns": each.end_ns,
            "steps": each.steps,
            "samples": each.samples,
        }


def _rank_rounds(record: RunRecord) -> Iterator[Row]:
    for each in record.rounds:
        for rank, (seconds, cpu_seconds) in enumerate(zip(each.rank_seconds, each.rank_cpu_seconds, strict=True)):
            yield {
                "record_id": record.record_id,
                "round": each.index,
                "rank": rank,
                "rank_seconds": seconds,
                "rank_cpu_seconds": cpu_seconds,
            }


def _device_rounds(record: RunRecord) -> Iterator[Row]:
    for device in record.telemetry.devices:
        for each in device.rounds:
            yield {
                "record_id": record.record_id,
                "round": each.index,
                "device": device.id,
                "readings": each.samples,
                **{name: getattr(each, name) for name in SAMPLED},
            }


def _cases(run: str, summaries: Sequence[CaseSummary]) -> Iterator[Row]:
    for row in shown.rows(summaries):
        yield {"run": run, **{name: None if value == "" else value for name, value in row.items()}}
