"""Two batches of a run are two series, wherever a run is shown."""

import csv
import io

import pytest

from gpubench.analysis.scaling import summarize
from gpubench.analysis.verdict import verdicts
from gpubench.report import sentences, tables
from tests.builders import make_case, make_launches

BATCHES = (16, 32, 64)
RECORDS = [
    record
    for batch in BATCHES
    for strategy, n in (("single", 1), ("ddp", 2))
    for record in make_launches(make_case(strategy, n, batch=batch), [batch * n * (1.0 if n == 1 else 0.9)] * 3)
]
SUMMARIES = summarize(RECORDS)


def test_each_batch_has_its_own_baseline_and_its_own_rows():
    assert [(s.case.strategy, s.case.per_device_batch) for s in SUMMARIES] == [
        (strategy, batch) for strategy in ("single", "ddp") for batch in BATCHES
    ]
    for summary in SUMMARIES:
        assert summary.baseline is None or summary.baseline.case.per_device_batch == summary.case.per_device_batch
    assert [s.scaling_efficiency for s in SUMMARIES if s.case.n_devices == 2] == pytest.approx([0.9] * 3)
    assert len({s.case.id for s in SUMMARIES}) == len({s.series for s in SUMMARIES}) == 6


def test_each_batch_has_its_own_verdict_which_names_it():
    found = sentences.findings(verdicts(SUMMARIES))
    assert sorted(one.series for one in found) == [f"torch ddp, resnet20, batch {batch}" for batch in BATCHES]
    alone = sentences.findings(verdicts([s for s in SUMMARIES if s.case.per_device_batch == 16]))
    assert [one.series for one in alone] == ["torch ddp, resnet20"]


def test_tables_and_exports_tell_batches_apart():
    rows = list(csv.DictReader(io.StringIO(tables.to_csv(SUMMARIES))))
    assert [int(row["per_device_batch"]) for row in rows] == [*BATCHES, *BATCHES]
    assert len({row["case"] for row in tables.rows(SUMMARIES)}) == 6
    assert "batch per device" in tables.to_markdown(SUMMARIES)
