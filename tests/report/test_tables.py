"""The tables: one definition of columns, honest dashes, and no text that a terminal or a spreadsheet would obey."""

import csv
import io
import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from gpubench.analysis.scaling import summarize
from gpubench.analysis.stats import Interval
from gpubench.report.tables import rows, to_csv, to_markdown, to_rich
from gpubench.report.words import figure, fixed, with_interval
from gpubench.spec.errors import UsageError
from gpubench.spec.record import Check
from tests.builders import make_case, make_launches, make_lost, make_record, make_run

CPU = summarize(make_run("cpu"))
GPU = summarize(make_run("gpu"))


def terminal(summaries, width=200) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True).print(to_rich(summaries, width))
    return out.getvalue()


def parsed(summaries) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(summaries))))


@pytest.mark.parametrize("render", [to_markdown, terminal])
def test_cpu_figures_are_never_shown_without_saying_so(render):
    text = render(CPU)
    assert text.index("CPU shares (1 core each): not GPU figures") < text.index("samples/s")
    assert "CPU shares" not in render(GPU)


@pytest.mark.parametrize("render", [to_markdown, terminal])
def test_gpus_and_cpu_shares_never_share_a_table(render):
    text = render([*GPU, *CPU])
    assert text.count("speed-up") == text.count("Test GPU") + text.count("CPU shares (") == 2


def test_every_export_name_is_in_every_row_with_none_for_what_was_not_measured():
    [row] = rows(summarize([make_lost(make_case("ddp", 2), "oom", "out of memory")]))
    expected = {"samples_per_second", "samples_per_second_per_device", "scaling_efficiency", "joules_per_sample"}
    assert expected <= row.keys()
    assert all(row[name] is None for name in expected)


def test_csv_has_all_columns_and_markdown_only_those_with_something_in_them():
    assert "power_watts" in parsed(CPU)[0]
    assert {row["power_watts"] for row in parsed(CPU)} == {""}
    assert "power" not in to_markdown(CPU)
    assert "power (W)" in to_markdown(GPU)


def test_csv_numbers_are_unrounded():
    [row] = parsed(summarize([make_record(samples_per_second=123.456789)]))
    assert float(row["samples_per_second"]) == pytest.approx(123.456789, rel=1e-9)


def test_what_is_the_same_in_every_row_is_said_once():
    text = to_markdown(GPU)
    assert "workload resnet50, batch per device 256, scaling weak fp32" in text
    assert text.count("resnet50 ") < 3


def test_the_reason_stands_where_the_number_would():
    record = make_record(checks=[Check(name="no_steady_state", severity="severe", message="it drifts")])
    text = to_markdown(summarize([record]))
    assert "| no steady state |" in text
    assert f"- no steady state\n  - {record.case.id}: it drifts" in text


def test_a_failed_case_is_listed_with_what_to_do():
    case = make_case("ddp", 2)
    text = to_markdown(summarize([make_lost(case, "oom", "12 GiB asked, 10 GiB free", remedy="use a smaller batch")]))
    assert f"- oom. To do: use a smaller batch\n  - {case.id}: 12 GiB asked, 10 GiB free" in text


def test_markdown_has_as_many_cells_in_every_row_whatever_the_names():
    record = make_record(make_case("a|b", framework="x|y\n| z", workload="`w`"))
    lines = [line for line in to_markdown(summarize([record])).splitlines() if line.startswith("|")]
    cells = [line.replace("\\|", "").count("|") for line in lines]
    assert len(lines) == 3
    assert len(set(cells)) == 1


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_no_csv_cell_is_a_formula(start):
    hostile = f'{start}HYPERLINK("http://x")'
    [row] = parsed(summarize([make_record(make_case(hostile, framework=f"\t{hostile}"))]))
    assert row["strategy"] == "'" + hostile
    assert not any(cell.startswith(("=", "+", "@", "\t", "\r")) for cell in row.values())


def test_names_can_neither_colour_the_terminal_nor_use_markup():
    record = make_record(make_case("\x1b[31mred\x1b]0;title\x07", framework="[bold]b[/bold]", workload="\u202egnp"))
    text = terminal(summarize([record]))
    assert "\x1b[31m" not in text
    assert "\x1b]0" not in text
    assert "\u202e" not in text
    assert "[bold]b[/bold]" in text


def test_a_narrow_terminal_leaves_columns_out_and_says_which():
    text = terminal(GPU, width=80)
    assert "Too narrow here for: own efficiency" in text
    assert "…" not in text
    assert "Too narrow" not in terminal(GPU, width=250)


def test_an_efficiency_has_its_interval_where_there_is_one():
    records = make_launches(make_case("single", 1), [100.0] * 3) + make_launches(make_case("ddp", 2), [180.0] * 3)
    assert "0.90 [0.90, 0.90]" in to_markdown(summarize(records))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\u2013"),
        (0, "0"),
        (0.0912, "0.0912"),
        (45.06, "45.1"),
        (45.0, "45.0"),
        (999.7, "1,000"),
        (12345.6, "12,346"),
    ],
)
def test_figures_have_three_significant_digits(value, text):
    assert figure(value) == text


def test_importing_the_tables_draws_in_neither_pandas_nor_matplotlib_nor_rich():
    code = "import gpubench.report.tables, sys; print({'pandas', 'matplotlib', 'rich', 'jinja2'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


CHOSEN = ["machine", "n_devices", "scaling_efficiency_low", "power_watts", "scaling_efficiency"]


def test_chosen_columns_stand_in_their_order_and_alone_also_where_they_hold_nothing():
    assert list(rows(CPU, CHOSEN)[0]) == CHOSEN
    assert to_csv(CPU, CHOSEN).splitlines()[0] == ",".join(f'"{name}"' for name in CHOSEN)
    [heads] = [line for line in to_markdown(CPU, CHOSEN).splitlines() if line.startswith("| machine")]
    assert heads == "| machine | devices | efficiency (95 % interval) | power (W) |"
    out = io.StringIO()
    Console(file=out, width=200).print(to_rich(CPU, 200, CHOSEN))
    assert re.search(r" test-machine +2 +0\.\d\d \[.*\] +\u2013", out.getvalue())


@pytest.mark.parametrize("render", [rows, to_csv, to_markdown, lambda summaries, names: to_rich(summaries, 80, names)])
def test_a_column_that_there_is_not_is_refused_with_the_nearest_name(render):
    with pytest.raises(UsageError, match="'speed_up'; did you mean speedup"):
        render(CPU, ["speed_up"])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_a_dash_and_never_printed(value):
    assert figure(value) == fixed(value) == "\u2013"
    assert with_interval(1.0, Interval(value, 2.0)) == "1.00"
    [row] = rows([replace(summarize([make_record()])[0], samples_per_second=value)])
    assert row["samples_per_second"] is None
