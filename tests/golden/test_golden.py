"""A file that this version has written is read for ever, and its figures never change.

One golden file for each schema. Its CPU records are of the fake framework. Its GPU records, of "Test GPU"s, are made by
hand in schema 1, and of the fake framework on the fake driver in schema 2. A golden file is never written
again: where a test here fails, the reader has changed.
"""

import json
from pathlib import Path

import pytest

from gpubench.analysis.scaling import summarize
from gpubench.files import store
from gpubench.report import tables
from gpubench.spec.errors import UsageError
from gpubench.spec.record import SCHEMA

HERE = Path(__file__).parent


def rows_of(path: Path) -> dict[str, dict]:
    return {f"{row['machine']} {row['case']}": row for row in tables.rows(summarize(store.load(path).records))}


def test_there_is_a_golden_file_for_every_schema():
    assert {path.name for path in HERE.glob("*.jsonl")} == {f"schema-{n}.jsonl" for n in range(1, SCHEMA + 1)}


@pytest.mark.parametrize("path", sorted(HERE.glob("*.jsonl")), ids=lambda path: path.stem)
def test_an_older_file_gives_the_figures_that_it_always_gave(path):
    run = store.load(path)
    assert run.skipped_lines == 0
    assert len(run.records) == len(path.read_text().splitlines())
    figures = rows_of(path)
    expected = json.loads(path.with_suffix(".figures.json").read_text())
    assert figures.keys() == expected.keys()
    for name, row in expected.items():
        for key, figure in row.items():
            assert figures[name][key] == (None if figure is None else pytest.approx(figure, rel=1e-9)), (name, key)


def test_the_golden_figures_are_right():
    rows = rows_of(HERE / "schema-1.jsonl")
    # launches of 10,900, 10,440 and 10,300 samples/s on four, of 2,880, 2,900 and 2,920 on one
    ddp = rows["test-gpu-box resnet50-torch-ddp-4x256-fp32"]
    assert ddp["samples_per_second"] == pytest.approx(10_440)
    assert ddp["speedup"] == pytest.approx(10_440 / 2_900)
    assert ddp["scaling_efficiency"] == pytest.approx(10_440 / 2_900 / 4)
    assert ddp["joules_per_sample"] == pytest.approx(4 * 640 / 10_440)
    # steps of 0.1 s times 1.00, 1.01 or 0.99: whichever of them fall into a round, it is 32 samples in about 0.1 s
    assert rows["test-box resnet20-fake-single-1x32-fp32"]["samples_per_second"] == pytest.approx(320, rel=0.01)
    assert rows["test-box resnet20-fake-ranks-2x32-fp32"]["samples_per_second"] == pytest.approx(64 / 0.12, rel=0.01)
    unsteady = rows["test-gpu-box resnet50-torch-ddp-4x256-bf16"]
    assert unsteady["samples_per_second"] is None
    assert unsteady["notes"].startswith("no steady state")


def test_a_file_of_a_future_schema_asks_for_a_newer_gpubench(tmp_path):
    record = json.loads((HERE / "schema-1.jsonl").read_text().splitlines()[0])
    record |= {"schema": SCHEMA + 1, "case": "something else by then"}
    (tmp_path / "future.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(UsageError, match=r"schema is newer than this gpubench reads .*: upgrade gpubench"):
        store.load(tmp_path / "future.jsonl")
