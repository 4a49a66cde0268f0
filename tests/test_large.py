"""Runs of any length: what is reduced gives the same figures, and what it costs grows with the records alone.

Counts of calls and bytes, as times are not to be trusted; `benchmarks/self/large.py` has the times.
"""

import cProfile
import pstats
import sys
import tracemalloc
from pathlib import Path

import pytest

from gpubench.analysis.scaling import CaseSummary, summarize, summarize_runs
from gpubench.files import reducing, store
from gpubench.report import tables
from gpubench.spec.errors import GpubenchError
from gpubench.spec.record import to_json
from tests.builders import make_run

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks" / "self"))
import nights  # noqa: E402


@pytest.fixture(scope="module")
def journals(tmp_path_factory) -> dict[int, Path]:
    """By how many records each has."""
    folder = tmp_path_factory.mktemp("nights")
    made = {size: folder / f"{size:04}_nights.jsonl" for size in (100, 200)}
    for size, path in made.items():
        nights.write(path, size)
    return made


def figures(summaries: list[CaseSummary]) -> list[object]:
    return [
        (row, s.pair_ratios, s.launch_noise, s.first_step_seconds, [(c.name, c.severity, c.message) for c in s.checks])
        for row, s in zip(tables.rows(summaries), summaries, strict=True)
    ]


def same_either_way(path: Path) -> int:
    whole, reduced = store.load(path), reducing.load(path)
    assert (whole.warnings, whole.skipped_lines) == (reduced.warnings, reduced.skipped_lines)
    assert [record.whole() for record in reduced.records] == whole.records
    assert figures(summarize_runs([reduced])) == figures(summarize(whole.records, whole.verifications))
    return len(whole.records)


@pytest.mark.parametrize(
    "path", [ROOT / "tests" / "golden" / "schema-1.jsonl", *sorted((ROOT / "results" / "examples").glob("*.jsonl"))]
)
def test_records_that_were_reduced_give_the_same_figures(path):
    assert same_either_way(path) > 5


def test_nights_that_were_reduced_give_the_same_figures(journals):
    assert same_either_way(journals[100]) == 100


def test_gpus_that_were_reduced_give_the_same_figures(tmp_path):
    path = tmp_path / "0001_gpus.jsonl"
    path.write_text("".join(f"{to_json(record)}\n" for record in make_run("gpu")))
    assert same_either_way(path) > 5


def test_a_record_is_not_read_again_from_a_journal_that_was_changed(tmp_path):
    path = tmp_path / "0001_changed.jsonl"
    nights.write(path, 10)
    record = reducing.load(path).records[5]
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(GpubenchError, match="was changed while it was read"):
        record.whole()


def calls(path: Path) -> int:
    """Of Python functions, to read a journal and sum it up."""
    profile = cProfile.Profile(builtins=False)
    profile.runcall(lambda: summarize_runs([reducing.load(path)]))
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_twice_the_records_take_at_most_twice_the_work(journals):
    for path in journals.values():
        summarize_runs([reducing.load(path)])  # what is imported and kept is not counted
    few, many = (calls(path) for path in journals.values())
    assert many < 2.1 * few
    assert (many - few) / 100 < 900, "calls of Python functions for each record more"


def test_a_record_more_keeps_a_few_kilobytes_in_memory(journals):
    kept = []
    for path in journals.values():
        reducing.load(path)
        tracemalloc.start()
        try:
            run = reducing.load(path)
            kept.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert len(run.records) in journals
    assert (kept[1] - kept[0]) / 100 < 6000
