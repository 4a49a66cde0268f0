"""A run that lacks lines or launches says so, wherever it is read, and no gate is green on it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpubench.cli.commands import main
from gpubench.files import bundle, reducing, store
from gpubench.spec.record import SCHEMA, Outcome, RunRecord, Schedule, to_json
from tests.builders import make_case, make_lost, make_record

RATES = [100.0, 100.2, 99.8, 100.1, 99.9]
SINGLE, GANG = make_case(), make_case("ddp", 2)


def planned(record: RunRecord, position: int, launches: int = len(RATES), **changes) -> RunRecord:
    schedule = Schedule(order="interleaved", seed=0, launches=launches, position=position, **changes)
    return replace(record, schedule=schedule)


def whole(name: str) -> list[RunRecord]:
    """Two cases of five launches each, in turns."""
    made = [
        make_record(case, samples_per_second=rate * case.n_devices, launch=number, run_id=name)
        for number, rate in enumerate(RATES, 1)
        for case in (SINGLE, GANG)
    ]
    return [planned(record, position) for position, record in enumerate(made)]


def saved(folder: Path, name: str, records: list[RunRecord]) -> Path:
    path = folder / f"0001_{name}.jsonl"
    path.write_text("".join(f"{to_json(record)}\n" for record in records))
    return path


def gated(reference: Path, other: Path):
    return CliRunner().invoke(main, ["compare", str(reference), str(other), "--fail-if-slower", "5%"])


def spoilt(place: int, change):
    def made(lines: list[str]) -> list[str]:
        body = json.loads(lines[place])
        change(body)
        return [*lines[:place], json.dumps(body), *lines[place + 1 :]]

    return made


LOSSES = {
    "a line that is no record": lambda lines: [*lines[:3], "scribble", *lines[4:]],
    "the last line is cut off": lambda lines: [*lines[:-1], lines[-1][:300]],
    "a number out of range": spoilt(4, lambda body: body.update(launch=-1)),
    "a control round that is none": spoilt(4, lambda body: body["telemetry"].update(control={"index": -1})),
    "a newer schema": spoilt(4, lambda body: body.update(schema=SCHEMA + 1)),
    "a line was deleted": lambda lines: [*lines[:3], *lines[4:]],
    "the last launch of a case was deleted": lambda lines: lines[:-1],
    "one case was deleted": lambda lines: lines[::2],
}


@pytest.mark.parametrize("kind", LOSSES)
def test_no_gate_is_green_where_a_launch_may_be_lost_and_everything_says_so(kind, tmp_path):
    reference, other = saved(tmp_path, "a", whole("a")), saved(tmp_path, "b", whole("b"))
    assert gated(reference, other).exit_code == 0
    other.write_text("\n".join(LOSSES[kind](other.read_text().splitlines())))
    bundle.pack(store.load(other), packed := tmp_path / "b.gpubench.zip")
    [unpacked, *_] = [each for each in bundle.unpack(packed, tmp_path / "out") if each.suffix == ".jsonl"]
    for lossy in (other, packed, unpacked):
        for sides in ((reference, lossy), (lossy, reference)):
            done = gated(*sides)
            assert done.exit_code == 4, done.output
            assert "could not be read" in done.output or "missing" in done.output
    for lossy in (other, unpacked):
        shown = CliRunner().invoke(main, ["show", str(lossy)]).output
        assert "records lost" in shown or "launches missing" in shown
        page = tmp_path / "page.html"
        CliRunner().invoke(main, ["report", str(lossy), "-o", str(page)])
        assert "records lost" in page.read_text() or "launches missing" in page.read_text()
    for load in (store.load, reducing.load):
        found = {check.name for record in load(other).records for check in record.checks}
        assert found & {"records_lost", "launches_missing"}


def test_what_is_slower_without_the_lost_launch_is_still_slower(tmp_path):
    slow = [replace(r, rounds=make_record(r.case, samples_per_second=50.0).rounds) for r in whole("b")]
    slow = [make_record(r.case, samples_per_second=50.0 + r.launch / 10, launch=r.launch, run_id="b") for r in slow]
    other = saved(tmp_path, "b", slow)
    other.write_text(other.read_text() + "scribble\n")
    assert gated(saved(tmp_path, "a", whole("a")), other).exit_code == 1


def test_unpacking_says_how_many_lines_were_lost(tmp_path):
    path = saved(tmp_path, "a", whole("a"))
    path.write_text(path.read_text() + "scribble\n")
    bundle.pack(store.load(path), tmp_path / "a.gpubench.zip")
    done = CliRunner().invoke(main, ["unpack", str(tmp_path / "a.gpubench.zip"), "-o", str(tmp_path / "out")])
    assert "1 line of its run could not be read" in done.output
    [again] = (tmp_path / "out").glob("*.jsonl")
    assert bundle.pack(store.load(again), tmp_path / "again.gpubench.zip").skipped_lines == 1


@pytest.mark.parametrize("status", ["skipped", "failed", "interrupted"])
def test_a_launch_that_is_said_not_to_have_ended_well_is_lost(status, tmp_path):
    reference, records = saved(tmp_path, "a", whole("a")), whole("b")
    records[5] = replace(records[5], outcome=Outcome(status=status))
    done = gated(reference, saved(tmp_path, "b", records))
    assert done.exit_code == 4, done.output
    assert "lost launch 3" in done.output


def test_a_case_whose_launches_are_all_said_to_have_been_skipped_is_not_new(tmp_path):
    records = [replace(r, outcome=Outcome(status="skipped")) if r.case == GANG else r for r in whole("a")]
    for sides in ((records, whole("b")), (whole("b"), records)):
        paths = [saved(tmp_path, name, side) for name, side in zip("xy", sides, strict=True)]
        done = gated(*paths)
        assert done.exit_code == 4, done.output
        assert "skipped" in done.output


def test_a_case_that_could_not_run_at_first_and_was_measured_later_lacks_nothing(tmp_path):
    skip = replace(make_lost(GANG, "skipped", "no framework"), record_id="skip")
    records = [skip, *(planned(r, i + 1) for i, r in enumerate(whole("b")))]
    assert gated(saved(tmp_path, "a", whole("a")), saved(tmp_path, "b", records)).exit_code == 0


def checks(path: Path) -> set[str]:
    return {check.name for record in reducing.load(path).records for check in record.checks}


def pairs(numbers, launches: int) -> list[RunRecord]:
    made = []
    for number in numbers:
        for case, half in ((SINGLE, "baseline"), (GANG, "gang")):
            record = make_record(case, launch=number, run_id=f"pair {number} {half}")
            made.append(planned(record, len(made) // 2 * 2, launches, pair_id=str(number), paired_as=half))
    return made


def test_a_run_of_pairs_lacks_what_was_taken_from_it_and_nothing_else(tmp_path):
    made = pairs(range(1, 6), launches=3)  # more than were planned at least, as a run until an interval is narrow has
    assert checks(saved(tmp_path, "pairs", made)) == set()
    for gone in range(10):
        assert checks(saved(tmp_path, "pairs", made[:gone] + made[gone + 1 :])), gone


def test_a_launch_that_was_repeated_when_the_run_was_continued_is_not_missing(tmp_path):
    records = whole("a")
    failed = planned(make_lost(SINGLE, "oom", "out of memory", launch=2), 2)
    records = [*records[:2], failed, *(planned(r, i) for i, r in enumerate([records[3], records[2], *records[4:]], 3))]
    assert checks(saved(tmp_path, "a", records)) == set()
    assert gated(saved(tmp_path, "a", records), saved(tmp_path, "b", whole("b"))).exit_code == 0
