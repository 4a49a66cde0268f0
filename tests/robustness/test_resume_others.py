"""`--resume FILE` where the file is no journal of ours: it is refused, and every byte of it stays."""

import os
import stat
from dataclasses import replace

import pytest

from gpubench.cli.running import begun
from gpubench.files import store
from gpubench.spec.errors import GpubenchError, UsageError
from gpubench.spec.record import to_json
from tests.builders import make_record

RECORD = to_json(make_record()).encode()
PLAN = 'workloads = ["mlp"]\n'

OTHERS = {
    "an empty file": b"",
    "a JSON file on one line without its end": b'{"schema": 1, "mine": true}',
    "a JSON file": b'{\n "a": 1\n}\n',
    "JSON Lines of another program": b'{"a":1}\n{"a":2}\n',
    "JSON Lines of another program, cut off where a record could begin": b'{"a":1}\n{"schema":',
    "JSON Lines of another program that end with a brace": b'{"a":1}\n{',
    "text": b"notes\n",
    "a binary file": bytes(range(256)),
    "a record and another's end": RECORD + b"\nmine",
}


def state(path):
    about = os.lstat(path)
    return about.st_mode, about.st_size, about.st_mtime_ns, path.read_bytes() if path.is_file() else None


@pytest.mark.parametrize("with_plan", [False, True])
@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
def test_a_file_that_is_no_journal_of_ours_is_refused_and_stays_as_it_is(tmp_path, content, with_plan):
    path = tmp_path / "0001_mine.jsonl"
    path.write_bytes(content)
    if with_plan:
        store.plan_file(path).write_text(PLAN)
    if with_plan and not content:
        return  # a run that was ended before its first launch
    before = state(path)
    with pytest.raises(UsageError):
        store.Journal.reopen(path)
    assert state(path) == before


@pytest.mark.parametrize("torn", [b"", b"{", RECORD[:6], RECORD[:200]])
@pytest.mark.parametrize("whole", [b"", RECORD + b"\n"])
def test_a_run_of_ours_that_was_cut_off_is_mended(tmp_path, whole, torn):
    path = tmp_path / "0001_mine.jsonl"
    path.write_bytes(whole + torn)
    store.plan_file(path).write_text(PLAN)
    journal = store.Journal.reopen(path)
    assert path.read_bytes() == whole
    assert len(journal.records) == bool(whole)


def pipe(path):
    os.mkfifo(path)


def link_to_text(path):
    path.with_name("mine.txt").write_bytes(b'{"a":1}\n{')
    path.symlink_to(path.with_name("mine.txt"))


def loop(path):
    path.symlink_to(path)


def nowhere(path):
    path.symlink_to(path.with_name("none"))


def zero(path):
    path.symlink_to("/dev/zero")


def folder(path):
    path.mkdir()


KINDS = [pipe, link_to_text, loop, nowhere, zero, folder]


@pytest.mark.parametrize("make", KINDS)
def test_what_is_no_regular_file_of_ours_is_refused_in_each_of_the_three_places(tmp_path, make):
    for path in ("0001_a.jsonl", "0002_b.trials", "0003_c.plan.toml"):
        path = tmp_path / path
        make(path)
        before, names = state(path), sorted(os.listdir(tmp_path))
        with pytest.raises(GpubenchError) as refused:
            opened(path)
        assert refused.value.exit_code in (1, 2)
        assert state(path) == before
        left = {"0002_b.jsonl"} if path.suffix == ".trials" else {"0003_c.jsonl"} if path.suffix == ".toml" else set()
        assert set(os.listdir(tmp_path)) - set(names) <= left
        if make is link_to_text:
            assert (tmp_path / "mine.txt").read_bytes() == b'{"a":1}\n{'


def opened(path):
    """As `gpubench run --resume` opens it: the journal, the trials beside it, the plan beside it."""
    from gpubench.cli.running import begun

    if path.suffix == ".jsonl":
        return store.Journal.reopen(path)
    journal = path.with_name(path.name.split(".")[0] + ".jsonl")
    journal.write_bytes(RECORD + b"\n")
    return (
        store.Journal.reopen(journal).trials() if path.suffix == ".trials" else begun(str(journal), None, path.parent)
    )


@pytest.mark.parametrize("content", [content for content in OTHERS.values() if content], ids=[k for k in OTHERS][1:])
def test_another_file_in_place_of_the_trials_stays_as_it_is(tmp_path, content):
    path = tmp_path / "0001_mine.trials"
    path.write_bytes(content)
    before = state(path)
    with pytest.raises(UsageError):
        opened(path)
    assert state(path) == before


def test_a_file_that_is_read_only_is_not_written_even_by_root(tmp_path):
    path = tmp_path / "0001_mine.jsonl"
    path.write_bytes(RECORD + b'\n{"schema":1')
    path.chmod(stat.S_IRUSR)
    before = state(path)
    with pytest.raises(UsageError, match=r"Cannot continue .*0001_mine\.jsonl"):
        store.Journal.reopen(path)
    assert state(path) == before


def test_a_link_in_place_of_what_is_written_is_replaced_and_not_followed(tmp_path):
    path = tmp_path / "0001_mine.jsonl"
    path.write_bytes(RECORD + b"\n")
    (tmp_path / "mine.txt").write_text("mine")
    store.plan_file(path).symlink_to(tmp_path / "mine.txt")
    journal = store.Journal.reopen(path)
    journal.keep_plan(PLAN)
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert PLAN in store.plan_file(path).read_text()


@pytest.mark.parametrize("folder", [".logs", ".series"])
def test_a_link_in_place_of_a_runs_folder_is_not_followed(tmp_path, folder):
    path = tmp_path / "0001_mine.jsonl"
    path.write_bytes(RECORD + b"\n")
    (tmp_path / "mine").mkdir()
    path.with_suffix(folder).symlink_to(tmp_path / "mine")
    journal = store.Journal.reopen(path)
    if folder == ".logs":
        with pytest.raises(GpubenchError, match="it is a link"):
            journal.log_folder()
    else:
        [kept] = journal.append_all([make_record(launch=7)])
        assert kept.telemetry.series_file is None
        assert kept.telemetry.devices[0].time_ns
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_link_in_place_of_a_half_written_series_is_not_followed(tmp_path):
    path = tmp_path / "0001_mine.jsonl"
    path.write_bytes(RECORD + b"\n")
    (tmp_path / "mine.txt").write_text("mine")
    record = make_record(launch=7)
    name = f"0001_mine.series/{record.case.id}.launch7.{record.record_id[:8]}.parquet"
    (tmp_path / "0001_mine.series").mkdir()
    (tmp_path / f"{name}.part").symlink_to(tmp_path / "mine.txt")
    [kept] = store.Journal.reopen(path).append_all([record])
    assert kept.telemetry.series_file == name
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_journal_with_two_different_records_of_one_id_is_refused_before_anything_is_measured(tmp_path):
    path = tmp_path / "0001_mine.jsonl"
    record = make_record()
    path.write_text("".join(to_json(each) + "\n" for each in (record, record, replace(record, launch=77))))
    before = state(path)
    with pytest.raises(UsageError, match="Two different records have the id"):
        begun("mine", None, tmp_path)
    assert state(path) == before


def test_a_record_that_is_there_twice_counts_once(tmp_path):
    path = tmp_path / "0001_mine.jsonl"
    path.write_text(2 * (to_json(make_record()) + "\n"))
    assert len(begun("mine", None, tmp_path).records) == 1
