"""Which run a word means, in folders as people hand them on: copies, hidden files, links, files that are no runs."""

import os
from pathlib import Path

import pytest

from gpubench.files import reading, store
from gpubench.files.finding import files_in, find, original
from gpubench.spec.errors import UsageError
from gpubench.spec.record import to_json
from tests.builders import make_record

RESULTS = Path("results")


def save(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_json(make_record()) + "\n")
    return path


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "other",
    [
        "._0001_x.jsonl",  # macOS keeps a file's attributes there
        ".ipynb_checkpoints/0001_x-checkpoint.jsonl",
        "0001_x-checkpoint.jsonl",
        "0001_x (1).jsonl",
        "0001_x(2).jsonl",
        "0001_x copy.jsonl",
        "0001_x copy 2.jsonl",
        "0001_x - Copy.jsonl",
        "0001_x.jsonl~",
    ],
)
def test_what_lies_beside_a_run_is_not_taken_for_it(other):
    run = save(Path("vendor/0001_x.jsonl"))
    save(Path("vendor") / other)
    assert find("vendor", RESULTS) == find("last", Path("vendor")) == run
    [read] = reading.runs_of("vendor", RESULTS, store.load)
    assert read.run.path == run


def test_which_run_was_taken_is_said_where_there_are_copies():
    run = save(Path("vendor/0001_x.jsonl"))
    save(Path("vendor/0001_x (1).jsonl"))
    assert store.load(run).warnings == ["0001_x.jsonl was taken; left out as copies: 0001_x (1).jsonl"]


@pytest.mark.parametrize("name", ["0001_x (1).jsonl", "0002_my-checkpoint.jsonl"])
def test_a_copy_without_its_original_is_a_run(name):
    run = save(Path("vendor") / name)
    save(Path("vendor/0001_other.jsonl"))
    assert run in files_in(Path("vendor"), ".jsonl")
    assert original(run) is not None


def test_copies_of_bundles_are_copies_too():
    for name in ("x.gpubench.zip", "x (1).gpubench.zip"):
        Path(name).touch()
    assert files_in(Path(), ".gpubench.zip") == [Path("x.gpubench.zip")]


def test_a_machine_folder_may_be_a_link(here):
    save(here / "disk" / "box" / "0003_far.jsonl")
    save(here / "disk" / "box" / "deeper" / "0004_deep.jsonl")
    RESULTS.mkdir()
    (RESULTS / "box").symlink_to(here / "disk" / "box")
    assert find("far", RESULTS) == RESULTS / "box" / "0003_far.jsonl"
    assert find("last", RESULTS) == RESULTS / "box" / "0003_far.jsonl"  # one level, and no further
    assert [read.run.name for read in reading.runs_of("results", RESULTS, store.load)] == ["far"]


def test_links_in_a_circle_are_no_trap_and_count_nothing_twice(here):
    run = save(RESULTS / "box" / "0001_x.jsonl")
    (RESULTS / "loop").symlink_to(here / "results")
    (RESULTS / "box" / "up").symlink_to(here)
    (RESULTS / "again").symlink_to(here / "results" / "box")
    (RESULTS / "gone").symlink_to(here / "nowhere")
    assert files_in(RESULTS, ".jsonl") == [run]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "results/box/0001_x.json",
            "pytest-benchmark's file and no run; the run is results/box/0001_x.jsonl",
        ),
        ("report.html", "report.html is a file, but no run: the file of a run is called NAME.jsonl"),
        ("x.gpubench.zip", "is a bundle: write its run with `gpubench unpack x.gpubench.zip`"),
        ("nosuch.jsonl", "There is no file nosuch.jsonl, and no run of that name in results"),
        ("vendor/0001_y.jsonl", "There is no file vendor/0001_y.jsonl"),
        ("y", "There is no run 'y' in results"),
    ],
)
def test_a_word_that_means_no_run_is_named_with_what_it_is(word, message):
    save(RESULTS / "box" / "0001_x.jsonl")
    for name in ("results/box/0001_x.json", "report.html", "x.gpubench.zip"):
        Path(name).touch()
    with pytest.raises(UsageError) as caught:
        find(word, RESULTS)
    assert message in str(caught.value)


def test_where_there_is_no_run_at_all_the_word_is_named_too():
    with pytest.raises(UsageError, match=r"There is no run 'nosuch.jsonl': there is none in results"):
        find("nosuch.jsonl", RESULTS)


def test_a_file_of_the_same_name_does_not_hide_a_run():
    run = save(RESULTS / "box" / "0001_first.jsonl")
    Path("first").touch()
    assert find("first", RESULTS) == run


def test_a_folder_that_cannot_be_read_hides_itself_alone(here):
    run = save(RESULTS / "box" / "0001_x.jsonl")
    (RESULTS / "link").symlink_to(here / "closed")
    (here / "closed").mkdir()
    os.chmod(here / "closed", 0)
    assert find("last", RESULTS) == run
