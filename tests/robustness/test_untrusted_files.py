"""A file from elsewhere, given to the real command: a clear message or inert text, at once and in little memory."""

import json
import os
import resource

import pytest

from tests.fuzz.hostile import MARKUP, TEXTS, honest_lines
from tests.fuzz.inert import assert_csv, assert_plain
from tests.fuzz.test_readers import everywhere

MEMORY_BYTES = 4 << 30


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


@pytest.fixture
def hostile_file(tmp_path):
    path = tmp_path / "0001_hostile.jsonl"
    lines = honest_lines()
    written = [json.dumps(everywhere(json.loads(lines[5 + i % 20]), text)) for i, text in enumerate(TEXTS)]
    path.write_text("\n".join([*written, "\x1b[2J{broken", '{"schema": "\x1b]0;title\x07"}', ""]))
    return path


@pytest.mark.parametrize("form", [(), ("--format", "markdown"), ("--format", "csv"), ("--json",)])
def test_show_is_inert(harness, hostile_file, form):
    done = harness.run("show", str(hostile_file), *form)
    assert done.returncode == 0, done.stderr
    assert_plain(done.stdout + done.stderr)
    assert "lines of 0001_hostile.jsonl skipped" in done.stderr
    if "csv" in form:
        assert_csv(done.stdout)


def hostile_with_a_number(record, text):
    """The text everywhere that leaves a record consistent, so that it has a number and is drawn."""
    hostile = everywhere(record, text)
    hostile["software"][text] = "1"  # the framework of the case
    hostile["outcome"] = record["outcome"]
    return hostile


def test_report_is_inert_and_stays_in_its_folder(harness, tmp_path):
    lines = honest_lines()
    texts = (MARKUP, "../../up", "x" * 64)
    hostile = [
        json.dumps(hostile_with_a_number(json.loads(line), text)) for text, line in zip(texts, lines[18:], strict=False)
    ]
    (tmp_path / "0001_hostile.jsonl").write_text("\n".join([*hostile, ""]))
    done = harness.run("report", str(tmp_path / "0001_hostile.jsonl"), "-o", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert MARKUP not in (tmp_path / "page.html").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"0001_hostile.jsonl", "page.html", "page.plots", "scratch"}
    assert len(list((tmp_path / "page.plots").iterdir())) == 2 * len(texts)


def pipe(path):
    os.mkfifo(path)


def zeros(path):
    path.symlink_to("/dev/zero")


def enormous_series(path):
    record = json.loads(honest_lines()[20])
    record["telemetry"]["devices"][0]["time_ns"] = "HERE"
    path.write_text(json.dumps(record).replace('"HERE"', "[" + "0," * 5_000_000 + "0]") + "\n")


def deep(path):
    path.write_text('{"schema": 1, "case": ' + "[" * (16 << 20))


def long_name(path):
    record = json.loads(honest_lines()[20])
    record["case"]["strategy"] = "x" * (10 << 20)
    path.write_text(json.dumps(record) + "\n")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (pipe, "no regular file"),
        (zeros, "no regular file"),
        (enormous_series, "over 4,000,000 values"),
        (deep, "not a record"),
        (long_name, "characters long"),
    ],
)
def test_what_would_fill_the_memory_or_never_end_is_refused(harness, tmp_path, make, words):
    path = tmp_path / "0001_odd.jsonl"
    make(path)
    done = harness.run("show", str(path), preexec_fn=limit_memory)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
