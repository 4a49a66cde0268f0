"""Reading a line: the fast types refuse no less than the walk over each value, and no line costs much."""

import json
import random
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from typing import get_type_hints

import msgspec
import pytest

from gpubench.analysis.scaling import summarize
from gpubench.files import line as reader
from gpubench.files.strict import strict
from gpubench.files.validation import MOST_VARIABLES, validate
from gpubench.spec.record import Check, RunRecord, to_json
from tests.builders import make_record
from tests.fuzz.hostile import honest_lines, mutate

LINES = honest_lines()


def test_a_strict_type_has_the_fields_and_properties_of_its_dataclass():
    kinds, todo = set(), [RunRecord]
    while todo:
        kind = todo.pop()
        if kind not in kinds:
            kinds.add(kind)
            made = strict(kind)
            assert [each.name for each in fields(kind)] == list(made.__struct_fields__)
            hints = str(get_type_hints(kind))
            todo += [other for other in _dataclasses() if f"{other.__module__}.{other.__name__}" in hints]
    assert len(kinds) > 15
    record = reader._strict.decode(to_json(make_record()))
    assert record.rounds[0].seconds == make_record().rounds[0].seconds


def _dataclasses():
    from gpubench.spec import case, record

    return [kind for module in (case, record) for kind in vars(module).values() if is_dataclass(kind)]


def test_what_the_strict_types_let_pass_the_walk_lets_pass_too():
    passed = refused = 0
    for seed in range(1000):
        picked = random.Random(seed)
        body = json.loads(picked.choice(LINES))
        mutate(picked, body)
        line = json.dumps(body)
        if not reader._is_good(line):
            refused += 1
            continue
        passed += 1
        validate(msgspec.json.decode(line, type=RunRecord))
    assert passed > 100
    assert refused > 100


def test_honest_lines_need_no_second_look(monkeypatch):
    monkeypatch.setattr(reader, "explained", None)
    for line in LINES:
        reader.decode(line)


@pytest.mark.parametrize("line", LINES[2:32:6])
def test_a_record_comes_out_the_same_either_way(line):
    assert reader.decode(line) == reader.explained(line)


MANY = {
    "rounds of telemetry": ('{"index":1,"samples":1}', ("telemetry", "devices", 0, "rounds")),
    "processes": ('{"pid":1}', ("telemetry", "system", "gpus", 0, "processes")),
    "numbers": ("1.5", ("warmup", "step_seconds")),
    "words": ('"ab"', ("outcome", "log_tail")),
}
# In a process of its own, as a peak never goes down again.
READS_ONE = """
import pathlib, resource, sys
from gpubench.files import store
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    store.load(pathlib.Path(sys.argv[1]))
except Exception as error:
    print(type(error).__name__, file=sys.stderr)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""


@pytest.mark.parametrize(("item", "where"), MANY.values(), ids=MANY)
def test_a_long_line_costs_a_few_times_its_length(tmp_path, item, where):
    size = 8 << 20
    record = json.loads(to_json(make_record(launch=1)))
    record["telemetry"]["system"] = {"gpus": [{"id": "a", "name": "b", "index": 0, "processes": []}]}
    record["warmup"] = {"seconds": 1, "steps": 1, "first_step_seconds": 1, "steady": True, "verdict": ""}
    holder = record
    *path, last = where
    for key in path:
        holder = holder[key]
    holder[last] = "HERE"
    line = json.dumps(record).replace('"HERE"', f"[{','.join([item] * (size // (len(item) + 1)))}]")
    journal = tmp_path / "0001_long.jsonl"
    journal.write_text(line + "\n")
    done = subprocess.run([sys.executable, "-c", READS_ONE, str(journal)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 24 * size


def test_a_line_of_more_objects_than_any_launch_has_is_refused_by_their_number():
    record = replace(make_record(), software={})
    line = to_json(record).replace('"software":{}', '"software":{"a":"' + "{" * 100_001 + '"}')
    with pytest.raises(ValueError, match="over 100,000 objects"):
        reader.decode(line)


def test_doubts_that_were_written_with_launches_are_merged_when_these_are_read_for_a_table():
    doubt = Check(name="device_shared", severity="warning", message="others used it")
    read = [reader.Reader().read(to_json(make_record(launch=each, checks=[doubt])).encode()) for each in range(3)]
    assert {type(check) for record in read for check in record.checks} == {Check}
    assert doubt in summarize(read)[0].checks


@pytest.mark.parametrize("name", ["environment", "software"])
def test_a_record_has_no_more_variables_than_a_comparison_can_show(name):
    made = {f"v{n}": "x" for n in range(MOST_VARIABLES + 1)}
    with pytest.raises(ValueError, match=f"{name} has 10,001 entries; it may have 10,000"):
        reader.decode(to_json(replace(make_record(), **{name: made})))
