"""A record counts once, however often it is there, and two different ones of one id are refused."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpubench.analysis.scaling import summarize
from gpubench.cli.commands import main
from gpubench.files import bundle, store
from gpubench.spec.errors import UsageError
from gpubench.spec.record import to_json
from tests.builders import make_launches, make_run

RECORDS = make_run("cpu")


def written(path: Path, records) -> Path:
    path.write_text("".join(to_json(record) + "\n" for record in records))
    return path


def figures(csv_text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text)))


def run(*words: object) -> str:
    result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False, standalone_mode=True)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("times", [2, 10])
def test_a_record_that_is_in_a_file_again_changes_no_figure(tmp_path, times):
    once = written(tmp_path / "once.jsonl", RECORDS)
    often = written(tmp_path / "often.jsonl", RECORDS * times)
    loaded = store.load(often)
    assert [record.record_id for record in loaded.records] == [record.record_id for record in RECORDS]
    assert f"{(times - 1) * len(RECORDS)} of its records are there again, and count once" in loaded.warnings[-1]
    assert figures(run("show", often, "--format", "csv")) == figures(run("show", once, "--format", "csv"))


def test_the_same_run_twice_is_exported_once(tmp_path):
    one = written(tmp_path / "0001_one.jsonl", RECORDS)
    other = written(tmp_path / "0002_other.jsonl", [*RECORDS, *RECORDS[:2]])
    for name, runs in {"alone": [one], "twice": [one, one, other]}.items():
        run("export", "--format", "csv", "-o", tmp_path / name, *runs)
    for file in (tmp_path / "alone").iterdir():
        assert (tmp_path / "twice" / file.name).read_text() == file.read_text()


def test_a_run_and_its_redacted_bundle_count_once(tmp_path):
    one = written(tmp_path / "0001_one.jsonl", RECORDS)
    packed = tmp_path / "one.gpubench.zip"
    bundle.pack(store.load(one), packed)
    both = store.apart([store.load(one), bundle.load(packed, store.load)[0]])
    assert [len(each.records) for each in both] == [len(RECORDS)]


@pytest.mark.parametrize(
    "change",
    [
        lambda r: {"rounds": [replace(r.rounds[0], samples=1), *r.rounds[1:]]},
        lambda r: {"launch": 7},
        lambda r: {"software": {**r.software, "torch": "9.9"}},
        lambda r: {"machine": replace(r.machine, cpu="Other CPU")},
        lambda r: {"outcome": replace(r.outcome, status="oom")},
        lambda r: {"case": replace(r.case, precision="bf16")},
        lambda r: {"observed": replace(r.observed, peak_memory_bytes=1)},
    ],
)
def test_two_different_records_of_one_id_are_refused_by_name(tmp_path, change):
    record = make_launches(RECORDS[0].case, [100.0])[0]
    other = replace(record, **change(record))
    with pytest.raises(UsageError, match=f"Two different records have the id {record.record_id}"):
        store.load(written(tmp_path / "both.jsonl", [record, other]))
    with pytest.raises(UsageError, match="Two different records have the id"):
        summarize([record, other])
    files = [written(tmp_path / f"{name}.jsonl", [each]) for name, each in {"a": record, "b": other}.items()]
    for words in (["report", "-o", tmp_path / "x.html"], ["export", "--format", "csv"], ["compare"]):
        done = CliRunner().invoke(main, [str(word) for word in [*words, *files]])
        assert done.exit_code == 2, done.output
        assert "Two different records have the id" in done.output


def test_a_copy_under_another_id_is_found(tmp_path):
    records = make_launches(RECORDS[0].case, [100.0, 101.0, 99.0])
    for changes in ({}, {"launch": 9}):
        copy = replace(records[1], record_id="another", **changes)
        [summary] = summarize([*records, copy])
        assert summary.samples_per_second is None
        assert "one session" in str(summary.no_number) or "there twice" in str(summary.no_number)


def test_another_cpu_in_one_session_takes_the_numbers(tmp_path):
    records = make_launches(RECORDS[0].case, [100.0, 101.0, 99.0])
    records[1] = replace(records[1], machine=replace(records[1].machine, cpu="Other CPU"))
    for summary in summarize(records):
        assert summary.samples_per_second is None
        assert "cpu Test CPU and Other CPU" in str(summary.no_number)
