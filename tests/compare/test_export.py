"""Every number goes out and comes back the same, under the same names, whatever the format."""

import csv
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import median

import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from gpubench import exporting
from gpubench.analysis import stats
from gpubench.analysis.scaling import summarize
from gpubench.analysis.stats import Launch
from gpubench.exporting import Loaded
from gpubench.exporting.prometheus import LABELS, help_of
from gpubench.files.store import Run
from gpubench.report import tables
from gpubench.report.words import DASH
from gpubench.spec.errors import UsageError
from gpubench.spec.record import Check, Round, RunRecord
from tests.builders import make_case, make_launches, make_record, make_run

TABLES = ("raw-launches", "raw-rounds", "raw-rank-rounds", "raw-device-rounds", "derived-cases")
PROMTOOL, PDFLATEX = shutil.which("promtool"), shutil.which("pdflatex")
SUFFIX = {"csv": "csv", "parquet": "parquet", "markdown": "md", "latex": "tex"}


def export(folder: Path, records: list[RunRecord], form: str, name: str = "0001_first") -> list[Path]:
    return exporting.write(Loaded([Run(name=name, path=folder / f"{name}.jsonl", records=records)]), form, folder)


def number(text: str):
    """A cell as a reader takes it: nothing, a number, or text."""
    if text in ("", DASH, "--"):
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text, text)


def unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def rows_of(path: Path) -> list[dict]:
    """Reads a table back, as somebody who knows the format but not gpubench."""
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path).to_pylist()
    if path.suffix == ".csv":
        with open(path, newline="") as file:
            return [{name: number(cell) for name, cell in row.items()} for row in csv.DictReader(file)]
    lines = path.read_text().splitlines()
    if path.suffix == ".md":
        rows = [re.split(r" \| ", line.removeprefix("| ").removesuffix(" |")) for line in lines if line[:1] == "|"]
        heads = [head.strip("`") for head in rows[0]]
        return [dict(zip(heads, [number(unescaped(cell)) for cell in row], strict=True)) for row in rows[2:]]
    body = [line.removesuffix(r" \\").split(" & ") for line in lines if " & " in line]
    heads = [head.replace(r"\_", "_") for head in body[0]]
    plain = [[re.sub(r"\\num\{(.*)\}", r"\1", unescaped_latex(cell)) for cell in row] for row in body[1:]]
    return [dict(zip(heads, map(number, row), strict=True)) for row in plain]


def unescaped_latex(text: str) -> str:
    return re.sub(r"\\([&%$#_])", r"\1", text)


@pytest.fixture(scope="module")
def records() -> list[RunRecord]:
    return make_run("gpu")


@pytest.mark.parametrize("form", SUFFIX)
@pytest.mark.parametrize("name", TABLES)
def test_the_same_names_and_numbers_are_in_every_format(tmp_path, records, form, name):
    export(tmp_path, records, form)
    export(tmp_path, records, "parquet")
    expected = rows_of(tmp_path / f"{name}-gpu.parquet")
    found = rows_of(tmp_path / f"{name}-gpu.{SUFFIX[form]}")
    assert len(found) == len(expected) > 0
    for row, truth in zip(found, expected, strict=True):
        left_out = {column for column in truth if column not in row}
        assert not any(other[column] is not None for other in expected for column in left_out)
        numbers = {column: value for column, value in truth.items() if isinstance(value, (int, float, bool))}
        assert {column: row[column] for column in numbers} == numbers


positive = st.floats(20.0, 1e6)  # slower, and a round of a test record takes many seconds of telemetry


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rates=st.lists(positive, min_size=3, max_size=11),
    base=st.lists(positive, min_size=3, max_size=4),
    watts=positive,
    form=st.sampled_from(sorted(SUFFIX)),
)
def test_derived_figures_are_the_same_when_worked_out_from_the_raw_ones_read_back(tmp_path, rates, base, watts, form):
    records = make_launches(make_case(device_kind="gpu"), base, power_watts=watts)
    records += make_launches(make_case("ddp", 2, device_kind="gpu"), rates, power_watts=watts)
    export(tmp_path, records, form)
    launches, rounds, ranks, device_rounds, cases = (
        rows_of(tmp_path / f"{name}-gpu.{SUFFIX[form]}") for name in TABLES
    )
    for row in cases:
        mine = [one["record_id"] for one in launches if one["case"] == row["case"] and one["status"] == "ok"]
        rebuilt = [rebuild(rounds, ranks, record_id) for record_id in mine]
        summary = next(s for s in summarize(records) if s.case.id == row["case"])
        if row.get("samples_per_second") is None:
            assert summary.samples_per_second is None
            continue
        assert row["samples_per_second"] == stats.median_rate(rebuilt) == summary.samples_per_second
        assert row["samples_per_second_low"] == stats.rate_interval(rebuilt).low
        assert row["joules_per_sample"] == pytest.approx(joules(rounds, device_rounds, mine), rel=1e-12)


def rebuild(rounds: list[dict], ranks: list[dict], record_id: str) -> Launch:
    mine = [row for row in ranks if row["record_id"] == record_id]
    each = [list(rows) for _, rows in groupby(mine, key=lambda row: row["round"])]
    return Launch(
        tuple(row["samples"] for row in rounds if row["record_id"] == record_id),
        tuple(max(rank["rank_seconds"] for rank in ranks) for ranks in each),
    )


def joules(rounds: list[dict], device_rounds: list[dict], record_ids: list[str]) -> float:
    energies = []
    for record_id in record_ids:
        energy = sum(row["energy_joules"] for row in device_rounds if row["record_id"] == record_id)
        energies.append(energy / sum(row["samples"] for row in rounds if row["record_id"] == record_id))
    return median(energies)


def test_pytest_benchmark_reads_what_is_written_for_it(tmp_path, records):
    [path] = export(tmp_path, records, "pytest-benchmark")
    assert path.name == "0001_first-gpu.json"
    words = ["compare", str(path), f"--csv={tmp_path / 'out.csv'}", "--columns=median"]
    subprocess.run([sys.executable, "-m", "pytest_benchmark", *words], check=True, capture_output=True)
    with open(tmp_path / "out.csv", newline="") as file:
        rows = {re.search(r"\[(.*)\]", row["name"])[1]: float(row["median"]) for row in csv.DictReader(file)}
    for summary in summarize(records):
        if summary.launches:
            seconds = [each.seconds / each.steps for record in summary.counted for each in record.whole().rounds]
            assert rows[summary.case.id] == pytest.approx(median(seconds))


def test_pytest_benchmark_has_raw_rounds_and_derived_figures_apart(tmp_path, records):
    [path] = export(tmp_path, records, "pytest-benchmark")
    derived = {row["case"]: row for row in tables.rows(summarize(records))}
    for benchmark in json.loads(path.read_text())["benchmarks"]:
        row = derived[benchmark["param"]]
        assert benchmark["extra_info"]["samples_per_second"] == row["samples_per_second"]
        assert len(benchmark["stats"]["data"]) == benchmark["stats"]["rounds"]


@pytest.mark.parametrize("form", SUFFIX)
def test_sums_over_rows_are_true_sums_however_many_ranks_there_were(tmp_path, form):
    records = [r for ranks in (1, 2, 8) for r in make_launches(make_case("ddp", 8, device_kind="gpu"), [800.0] * 2)]
    records = [
        replace(record, record_id=f"{index}", rounds=[spread(each, 1 + index % 8) for each in record.rounds])
        for index, record in enumerate(records)
    ]
    export(tmp_path, records, form)
    rounds, ranks = (rows_of(tmp_path / f"{name}-gpu.{SUFFIX[form]}") for name in ("raw-rounds", "raw-rank-rounds"))
    every = [each for record in records for each in record.rounds]
    assert sum(row["samples"] for row in rounds) == sum(each.samples for each in every)
    assert sum(row["steps"] for row in rounds) == sum(each.steps for each in every)
    cpu_seconds = sum(sum(each.rank_cpu_seconds) for each in every)
    assert sum(row["rank_cpu_seconds"] for row in ranks) == pytest.approx(cpu_seconds)


def spread(each: Round, ranks: int) -> Round:
    return replace(each, rank_seconds=[each.seconds] * ranks, rank_cpu_seconds=[1.5] * ranks)


def families(path: Path) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(path.read_text())}


def test_prometheus_has_every_derived_number_with_its_meaning_and_labels_that_tell_cases_apart(tmp_path, records):
    [path] = export(tmp_path, records, "prometheus")
    found = {}
    for family in families(path).values():
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            assert sample.timestamp is None  # the collector refuses a file that has one
            key = (family.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = (sample.labels["case"], sample.value)
    by_case = {(name, case): value for (name, _), (case, value) in found.items()}
    for row in tables.rows(summarize(records)):
        for name, value in row.items():
            if name not in LABELS and not isinstance(value, str):
                assert by_case.get((f"gpubench_{name}", row["case"])) == value


def test_prometheus_says_when_a_case_was_measured(tmp_path):
    [path] = export(tmp_path, make_launches(make_case(), [100.0] * 3), "prometheus")
    [sample] = families(path)["gpubench_last_started_timestamp_seconds"].samples
    assert sample.value == datetime(2026, 1, 1, 0, 2, tzinfo=UTC).timestamp()


def test_every_number_that_prometheus_may_get_has_a_meaning():
    text = {"verification", "notes", "memory_of", "first_started_at", "last_started_at"}
    [names] = {tuple(row) for row in tables.rows(summarize(make_run("gpu")))}
    assert {name for name in names if not help_of(name)} <= {*LABELS, *text}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool, of Debian's package prometheus, is not here")
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_promtool_has_nothing_to_say(tmp_path, kind):
    [path] = export(tmp_path, make_run(kind), "prometheus")
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=path.read_text(), capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_label_ends_where_it_should(tmp_path):
    name = 'a"b\\c\nd{}\u96ea'
    [path] = export(tmp_path, make_launches(make_case(framework=name), [100.0] * 3), "prometheus")
    [sample] = families(path)["gpubench_launches"].samples
    assert sample.labels["framework"] == name


@pytest.mark.parametrize("form", ["pytest-benchmark", "prometheus", *SUFFIX])
def test_a_case_whose_number_was_taken_away_has_none_in_any_format(tmp_path, form):
    severe = Check(name="no_steady_state", severity="severe", message="it drifts")
    records = make_launches(make_case(device_kind="gpu"), [100.0] * 3, power_watts=300.0, checks=[severe])
    written = {path.name: path for path in export(tmp_path, records, form)}
    if form == "pytest-benchmark":
        assert json.loads(written["0001_first-gpu.json"].read_text())["benchmarks"] == []
    elif form == "prometheus":
        assert not {"gpubench_samples_per_second", "gpubench_speedup"} & families(*written.values()).keys()
    else:
        [row] = rows_of(written[f"derived-cases-gpu.{SUFFIX[form]}"])
        assert row.get("samples_per_second") is row.get("samples_per_second_low") is row.get("speedup") is None


def test_pytest_benchmark_has_no_round_of_a_launch_that_was_set_aside(tmp_path):
    severe = Check(name="no_steady_state", severity="severe", message="it drifts")
    records = make_launches(make_case(), [100.0] * 4)
    records[0] = replace(make_record(make_case(), samples_per_second=10.0), checks=[severe])
    [summary] = summarize(records)
    [path] = export(tmp_path, records, "pytest-benchmark")
    [benchmark] = json.loads(path.read_text())["benchmarks"]
    assert benchmark["extra_info"]["records"] == [record.record_id for record in summary.counted]
    assert benchmark["stats"]["rounds"] == sum(len(record.whole().rounds) for record in summary.counted)


@pytest.mark.parametrize("form", SUFFIX)
def test_chosen_columns_stand_in_their_order_and_alone(tmp_path, records, form):
    columns = ["strategy", "samples_per_second", "n_devices", "own_scaling_efficiency"]
    loaded = Loaded([Run(name="x", path=Path("x.jsonl"), records=records)])
    [path] = exporting.write(loaded, form, tmp_path, columns)
    assert path.name == f"derived-cases-gpu.{SUFFIX[form]}"
    rows = rows_of(path)
    expected = tables.rows(summarize(records), columns)
    assert [list(row) for row in rows] == [columns] * len(expected)
    assert [{**row, "strategy": None} for row in rows] == [{**row, "strategy": None} for row in expected]


def test_a_chosen_column_without_a_value_stands_there_too(tmp_path):
    loaded = Loaded([Run(name="x", path=Path("x.jsonl"), records=make_launches(make_case(), [100.0]))])
    for form in SUFFIX:
        [path] = exporting.write(loaded, form, tmp_path, ["strategy", "joules_per_sample"])
        assert rows_of(path) == [{"strategy": "single", "joules_per_sample": None}]


@pytest.mark.parametrize(
    ("columns", "form", "told"),
    [
        (["strategy", "sample_per_second"], "csv", "No column is called 'sample_per_second'; did you mean samples_per"),
        (["status", "speedup"], "latex", "No table has all of these columns: status is in raw-launches; speedup is in"),
        (
            ["strategy"],
            "prometheus",
            "--columns is for csv, parquet, markdown, latex; prometheus has a form of its own",
        ),
    ],
)
def test_columns_that_cannot_be_had_are_refused_by_name(tmp_path, columns, form, told):
    loaded = Loaded([Run(name="x", path=Path("x.jsonl"), records=make_launches(make_case(), [100.0]))])
    with pytest.raises(UsageError, match=re.escape(told)):
        exporting.write(loaded, form, tmp_path / "out", columns)
    assert not (tmp_path / "out").exists()


ODD = ["[x]", "*", "a_b $x^2$ 50% {y} #1 ~ & \\", '<b>"q"|', "-- --- ``x''"]


@pytest.mark.skipif(PDFLATEX is None, reason="pdflatex is not here")
def test_latex_compiles_whatever_the_names(tmp_path):
    records = [r for name in ODD for r in make_launches(make_case(name, framework=name), [100.0, 101.0, 99.0])]
    names = [path.name for path in export(tmp_path, records, "latex")]
    tables = "\n\n".join(f"\\input{{{name}}}" for name in names)
    document = f"\\documentclass{{article}}\\usepackage{{booktabs,siunitx}}\\begin{{document}}{tables}\\end{{document}}"
    (tmp_path / "all.tex").write_text(document)
    done = subprocess.run(
        [PDFLATEX, "-interaction=nonstopmode", "-halt-on-error", "all.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_gpus_and_cpu_shares_never_share_a_file_and_names_say_which_it_is(tmp_path):
    written = export(tmp_path, make_run("cpu") + make_run("gpu"), "csv")
    assert {path.name for path in written} == {f"{t}-{kind}.csv" for t in TABLES for kind in ("cpu-shares", "gpu")}
    assert {row["device_kind"] for row in rows_of(tmp_path / "derived-cases-cpu-shares.csv")} == {"cpu"}


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_a_table_that_people_read_says_that_it_is_of_cpu_shares(tmp_path, form):
    for path in export(tmp_path, make_launches(make_case(), [100.0] * 3), form):
        assert "CPU shares (1 core each): not GPU figures" in path.read_text()


def test_no_cell_is_run_by_a_spreadsheet_or_ends_a_table(tmp_path):
    records = make_launches(make_case(framework="=cmd|' /C calc'!A0", strategy="a | b & c_\\"), [100.0] * 3)
    for form in SUFFIX:
        export(tmp_path, records, form)
    [row] = rows_of(tmp_path / "derived-cases-cpu-shares.csv")
    assert row["framework"].startswith("'=")
    [row] = rows_of(tmp_path / "derived-cases-cpu-shares.md")
    assert row["strategy"] == "a | b & c_\\"
    assert r"a \textbar{} b \& c\_\textbackslash{}" in (tmp_path / "derived-cases-cpu-shares.tex").read_text()


def test_what_is_not_measured_is_empty_and_never_zero(tmp_path):
    records = make_launches(make_case(), [100.0] * 3)
    for form in ("csv", "parquet"):
        export(tmp_path, records, form)
        [row] = rows_of(tmp_path / f"derived-cases-cpu-shares.{SUFFIX[form]}")
        assert row["joules_per_sample"] is None
        assert row["launches_lost"] == 0


def test_runs_are_kept_apart(tmp_path):
    slow, fast = (make_launches(make_case(), [rate] * 3) for rate in (100.0, 200.0))
    fast = [replace(record, record_id=f"{record.record_id}-fast") for record in fast]
    loaded = Loaded([Run(name=n, path=Path(f"{n}.jsonl"), records=r) for n, r in (("slow", slow), ("fast", fast))])
    exporting.write(loaded, "csv", tmp_path)
    rows = rows_of(tmp_path / "derived-cases-cpu-shares.csv")
    assert {row["run"]: row["samples_per_second"] for row in rows} == {"slow": 100.0, "fast": 200.0}
