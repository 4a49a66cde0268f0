"""Thousands of files that mean harm go through every reader: a clear message or inert text, never a traceback."""

import io
import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from gpubench.analysis.scaling import summarize
from gpubench.files import store
from gpubench.report import html, tables
from gpubench.spec.errors import UsageError
from tests.builders import make_run
from tests.fuzz.hostile import GOLDEN, TEXTS, honest_lines, mutate, mutated
from tests.fuzz.inert import assert_csv, assert_page, assert_plain

LINES = honest_lines()
FILES_A_BATCH = 500
BATCHES = [0, *(pytest.param(batch, marks=pytest.mark.nightly) for batch in (1, 2, 3))]


def read(path: Path) -> store.Run | None:
    """The run, or None where it was refused with a plain message."""
    run = None
    try:
        run = store.load(path)
    except UsageError as refused:
        told = [str(refused)]
    else:
        told = run.warnings
    for sentence in told:
        assert_plain(sentence)
        assert len(sentence) < 2000
    return run


def show(run: store.Run) -> None:
    summaries = summarize(run.records)
    assert_csv(tables.to_csv(summaries))
    assert_plain(tables.to_markdown(summaries))
    terminal = io.StringIO()
    Console(file=terminal, width=160).print(tables.to_rich(summaries, 160))
    assert_plain(terminal.getvalue())
    json.dumps(tables.rows(summaries), allow_nan=False)


@pytest.mark.parametrize("batch", BATCHES)
def test_mutated_files_are_refused_or_shown_as_inert_text(tmp_path, batch):
    path = tmp_path / "0001_hostile.jsonl"
    shown = 0
    for seed in range(batch * FILES_A_BATCH, (batch + 1) * FILES_A_BATCH):
        path.write_bytes(mutated(random.Random(seed), LINES))
        run = read(path)
        if run is not None:
            show(run)
            shown += 1
    assert shown > FILES_A_BATCH // 4  # enough of them got past the reader to try the rest


@pytest.fixture(scope="module")
def honest_page() -> str:
    records = [*store.load(GOLDEN).records, *make_run("cpu"), *make_run("gpu")]
    return html.render([store.Run("honest", GOLDEN, records, ["a warning"])])


@pytest.mark.parametrize("batch", BATCHES)
def test_a_page_about_mutated_files_holds_no_markup_of_theirs(tmp_path, honest_page, batch):
    path = tmp_path / "0001_hostile.jsonl"
    pages = 0
    for seed in range(batch * 1000, batch * 1000 + 16):
        path.write_bytes(mutated(random.Random(seed), LINES))
        run = read(path)
        if run is not None:
            assert_page(html.render([run]), honest_page)
            pages += 1
    assert pages > 5


@pytest.mark.parametrize("text", TEXTS)
def test_a_hostile_text_is_inert_wherever_a_record_holds_text(tmp_path, text):
    run = written(tmp_path, [filled(line, text, str(number)) for number, line in enumerate(LINES)])
    if run is not None:
        show(run)


def test_a_page_full_of_hostile_texts_is_inert(tmp_path, honest_page):
    picked = [(text, line) for text in TEXTS[:6] for line in LINES[20:30:8]]
    run = written(tmp_path, [filled(line, text, str(number)) for number, (text, line) in enumerate(picked)])
    assert run is not None
    assert run.skipped_lines == 0
    assert_page(html.render([run]), honest_page)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(["case", "rounds", "telemetry", "checks"]), value=json_values)
def test_whatever_json_stands_in_a_record_it_is_refused_or_shown(tmp_path, seed, name, value):
    picked = random.Random(seed)
    record = json.loads(picked.choice(LINES))
    mutate(picked, record)
    holder = record.get(name)
    if isinstance(holder, dict) and holder:
        holder[picked.choice(list(holder))] = value
    else:
        record[name] = value
    run = written(tmp_path, [json.dumps(record)])
    if run is not None:
        show(run)


@settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=300))
def test_whatever_bytes_a_file_holds_it_is_refused_in_plain_words(tmp_path, content):
    (tmp_path / "bytes.jsonl").write_bytes(content)
    assert read(tmp_path / "bytes.jsonl") is None


MOST = 10**15  # of samples that a round may count


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.integers(1, MOST),
    seconds=st.floats(1e-9, 1e9),
    batch=st.integers(1, MOST // 2),
    launches=st.integers(1, 12),
)
def test_figures_at_the_edge_of_what_is_accepted_do_not_overflow(tmp_path, steps, seconds, batch, launches):
    lines = []
    for launch in range(launches):
        for line in (LINES[18], LINES[24]):  # one device and two
            record = json.loads(line)
            record["record_id"] = f"{record['case']['n_devices']}-{launch}"
            record["launch"] = launch
            edge(record, batch, steps if launch % 2 else 1, seconds if launch % 3 else 1e9)
            lines.append(json.dumps(record))
    run = written(tmp_path, lines)
    assert run is not None
    assert len(run.records) == 2 * launches
    numbers = [summary.samples_per_second for summary in summarize(run.records)]
    assert launches > 2 or None not in numbers  # of more launches, so unlike one another, the number is doubted
    show(run)


def edge(record, batch: int, steps: int, seconds: float) -> None:
    """Such rounds throughout, in a record that contradicts itself nowhere: else it had no figures to overflow."""
    case = record["case"]
    case["per_device_batch"], case["global_batch"] = batch, batch * case["n_devices"]
    steps = max(1, min(steps, MOST // case["global_batch"]))
    start_ns = 0
    for index, each in enumerate(record["rounds"]):
        each["steps"], each["samples"] = steps, steps * case["global_batch"]
        each["rank_seconds"] = [seconds] * len(each["rank_seconds"])
        each["start_ns"], each["end_ns"] = start_ns, start_ns + max(1, round(seconds * 1e9))
        start_ns = each["end_ns"]
        for device in record["telemetry"]["devices"]:
            sampled = device["rounds"][index]
            sampled["energy_joules"] = sampled["power_watts"] * seconds


def written(folder: Path, lines: list[str]) -> store.Run | None:
    path = folder / "0001_hostile.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return read(path)


def filled(line: str, text: str, number: str) -> str:
    """The record with the text everywhere, and an id of its own, in which it stands too."""
    record = json.loads(line)
    return json.dumps({**everywhere(record, text), "record_id": text + number})


def everywhere(value, text, key=""):
    """The record with the text in place of every free text; words that the schema fixes, and times, stay."""
    if isinstance(value, dict):
        return {key: everywhere(item, text, key) for key, item in value.items()}
    if isinstance(value, list):
        return [everywhere(item, text, key) for item in value]
    fixed = {"kind", "device_kind", "scaling", "status", "phase", "severity", "started_at"}
    return text if isinstance(value, str) and key not in fixed else value
