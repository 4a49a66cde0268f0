"""What a table looks like where it is printed: all of it in a pipe, and as much as fits, never cut, on a terminal."""

import io
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpubench.analysis.scaling import summarize
from gpubench.cli.commands import main
from gpubench.files.store import Journal
from gpubench.report import tables, terminal
from tests.builders import make_run

RULE = "\u2500"
NO_SIZES = ["0", "-5", "abc", "", "\u00b2", "9" * 5000]  # the last but one is a digit to str.isdigit, no number to int
GPU = summarize(make_run("gpu"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    journal = Journal.create(tmp_path_factory.mktemp("results"), "box", "first")
    for record in make_run("gpu"):
        journal.append(record)
    return journal.path


def piped(*words: str, **environment: str) -> str:
    done = CliRunner().invoke(main, [*words], env=environment)
    assert done.exit_code == 0, done.output
    return done.stdout


def on_a_terminal(columns: str | None, monkeypatch) -> str:
    """What a terminal is sent that does not tell its own size; it then counts as 80 columns wide."""

    def no_size(*_):
        raise OSError("the test has no terminal")

    monkeypatch.setattr(os, "get_terminal_size", no_size)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    screen = Terminal()
    terminal.show(lambda width: tables.to_rich(GPU, width), screen)
    return re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())


def test_a_pipe_gets_every_column_whole_and_nothing_for_a_terminal(run):
    text = piped("show", str(run), FORCE_COLOR="1", COLUMNS="80")
    assert "Too narrow" not in text
    assert "\x1b" not in text
    assert "\u2026" not in text  # no cell was cut
    heads, body = re.split(f" *{RULE}+ *\n", text)
    for column in ("own", "memory", "power", "global", "notes", "launches", "energy", "speed-up", "busy"):
        assert column in heads
    rows = [line for line in body.splitlines() if re.match(r" (torch|tensorflow|mxnet) ", line)]
    cells = [re.split(r" {2,}", row.strip()) for row in rows]
    assert len(cells) == len(GPU)
    assert {len(row) for row in cells} == {15}


def test_in_a_pipe_a_note_is_one_line(run):
    [note] = [line for line in piped("show", str(run)).splitlines() if "ended with exit code -9" in line]
    assert note.endswith("in round 2")


@pytest.mark.parametrize("columns", NO_SIZES)
def test_what_is_no_number_of_columns_is_not_believed(columns, monkeypatch):
    assert on_a_terminal(columns, monkeypatch) == on_a_terminal("80", monkeypatch)


@pytest.mark.parametrize("columns", ["10", "40", "80"])
def test_on_a_narrow_terminal_columns_are_left_out_by_name_and_no_cell_is_cut(columns, monkeypatch):
    text = on_a_terminal(columns, monkeypatch)
    assert "\u2026" not in text
    assert "Toonarrowherefor:ownefficiency" in re.sub(r"\s+", "", text)
    assert re.search(r"tensorflow +mirrored_fit +8( +[\d,.]+)+ \[[\d.]+, [\d.]+\]", text)


def test_a_wide_terminal_has_every_column_and_colours(monkeypatch):
    assert "Too narrow" not in on_a_terminal("250", monkeypatch)
    screen = Terminal()
    terminal.show(lambda width: tables.to_rich(GPU, width), screen)
    assert "\x1b[1m" in screen.getvalue()


@pytest.mark.parametrize("columns", ["0", "-5", "abc", "10"])
@pytest.mark.parametrize("words", [["list"], ["--help"], ["run", "--help"], ["show", "RUN"], ["compare", "RUN", "RUN"]])
def test_no_command_loses_a_word_in_a_pipe_whatever_columns_is(run, words, columns):
    words = [str(run) if word == "RUN" else word for word in words]
    squeezed = [re.sub(r"\s+", "", piped(*words, COLUMNS=each)) for each in (columns, "200")]
    assert squeezed[0] == squeezed[1]
