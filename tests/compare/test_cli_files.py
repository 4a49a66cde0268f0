"""The commands as people type them, on files alone."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpubench.cli import commands_on_files
from gpubench.cli.commands import Commands
from gpubench.spec.record import to_json
from tests.builders import make_case, make_launches, make_lost, make_machine

STEADY = (100.0, 100.2, 99.8, 100.1)


def save(path: Path, rates, **changes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    records = make_launches(make_case(**changes.pop("case", {})), rates, **changes)
    path.write_text("".join(to_json(record) + "\n" for record in records))
    return path


@pytest.fixture
def gpubench(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    group = Commands(
        commands=[commands_on_files.compare, commands_on_files.pack, commands_on_files.unpack, commands_on_files.export]
    )

    def run(*words: str) -> Result:
        return CliRunner(env={"COLUMNS": "200"}).invoke(group, list(words))

    return run


def test_runs_folders_and_bundles_are_compared_alike(gpubench, tmp_path):
    save(tmp_path / "a" / "0001_offer.jsonl", STEADY, machine=make_machine(name="a"))
    save(
        tmp_path / "results" / "box" / "0007_mine.jsonl", [2 * rate for rate in STEADY], machine=make_machine(name="b")
    )
    assert gpubench("pack", "mine", "-o", "mine.gpubench.zip").exit_code == 0
    for other in ("mine", "7", "mine.gpubench.zip", "results/box/0007_mine.jsonl"):
        result = gpubench("compare", "a", other, "--json")
        assert result.exit_code == 0, result.output
        made = json.loads(result.stdout)
        assert made["sides"] == ["a", "mine"]
        assert made["cases"][1]["ratio"] == pytest.approx(2)


def test_two_sides_of_one_name_are_told_apart(gpubench, tmp_path):
    for vendor in ("vendor_a", "vendor_b"):
        save(tmp_path / vendor / "0001_run.jsonl", STEADY, machine=make_machine(name=vendor))
    made = json.loads(gpubench("compare", "vendor_a/0001_run.jsonl", "vendor_b/0001_run.jsonl", "--json").stdout)
    assert made["sides"] == ["vendor_a/run", "vendor_b/run"]
    same = json.loads(gpubench("compare", "vendor_a", "vendor_a", "--json").stdout)
    assert len(set(same["sides"])) == 2
    assert same["cases"][1]["reason"] == "these are the same launches"


@pytest.mark.parametrize(("factor", "code"), [(0.95, 1), (0.98, 0), (1.2, 0), (0.97, 4)])
def test_ci_fails_where_a_run_is_surely_slower_and_passes_where_it_surely_is_not(gpubench, tmp_path, factor, code):
    save(tmp_path / "old.jsonl", STEADY, machine=make_machine(name="a"))
    save_other(tmp_path / "new.jsonl", [factor * rate for rate in STEADY])
    result = gpubench("compare", "old.jsonl", "new.jsonl", "--fail-if-slower", "3%")
    assert result.exit_code == code, result.stderr
    assert ("more than 3% allows" in result.stderr) == (code == 1)
    assert ("not resolved: the ratio is" in result.stderr) == (code == 4)


def save_other(path: Path, rates, **changes) -> Path:
    """A run of its own: its launches are not those of another file."""
    save(path, rates, **changes)
    path.write_text(path.read_text().replace('"record_id":"', '"record_id":"other-'))
    return path


def test_the_gate_is_in_the_json(gpubench, tmp_path):
    save(tmp_path / "old.jsonl", STEADY)
    save_other(tmp_path / "new.jsonl", [0.9 * rate for rate in STEADY])
    made = json.loads(gpubench("compare", "old.jsonl", "new.jsonl", "--fail-if-slower", "3%", "--json").stdout)
    assert (made["gate"]["limit"], made["gate"]["verdict"]) == (0.03, "slower")
    [case] = made["gate"]["cases"]
    assert case["interval"]["high"] < 0.97


def test_help_says_what_the_gates_exit_codes_mean(gpubench):
    told = gpubench("compare", "--help").stdout
    assert all(f"exit {code} " in told for code in (0, 1, 4))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", "a.jsonl"), "takes two runs"),
        (("compare", "a.jsonl", "nowhere"), "There is no run"),
        (("compare", "a.jsonl", "empty"), "There is no run (*.jsonl) and no bundle"),
        (("compare", "a.jsonl", "a.jsonl", "--fail-if-slower", "3"), "write --fail-if-slower 3%"),
        (("compare", "a.jsonl", "gpu.jsonl"), "never compared with GPUs"),
        (("compare", "a.jsonl", "a.jsonl", "--prices", "none.toml"), "Cannot read none.toml"),
        (("compare", "a.jsonl", "a.jsonl", "-o", "a.jsonl/x.html"), "Cannot write"),
        (("unpack", "a.jsonl"), "not a bundle"),
        (("pack", "nowhere"), "There is no run"),
        (("export", "nowhere", "--format", "csv"), "There is no run"),
        (("export", "a.jsonl", "--format", "csv", "-o", "a.jsonl/x"), "Cannot write"),
    ],
)
def test_wrong_usage_is_one_message_and_exit_code_2(gpubench, tmp_path, words, message):
    save(tmp_path / "a.jsonl", STEADY)
    save(tmp_path / "gpu.jsonl", STEADY, case={"device_kind": "gpu"})
    (tmp_path / "empty").mkdir()
    result = gpubench(*words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_run_of_skipped_cases_alone_is_said_to_have_none_that_was_run(gpubench, tmp_path):
    save(tmp_path / "0001_a.jsonl", STEADY)
    skipped = replace(make_lost(make_case("data_parallel", 2), "skipped", "needs GPUs"), schedule=None)
    (tmp_path / "0002_b.jsonl").write_text(to_json(skipped) + "\n")
    told = gpubench("compare", "0001_a.jsonl", "0002_b.jsonl").stderr
    assert f"No case is on two sides: a has {make_case().id}; b has no case that was run." in told
    both = gpubench("compare", "0002_b.jsonl", "0002_b.jsonl").stderr
    assert both.count("has no case that was run") == 2


def test_an_error_repeats_nothing_that_a_terminal_would_obey(gpubench, tmp_path):
    save(tmp_path / "a.jsonl", STEADY, case={"framework": "\x1b[31mred\u202e"})
    save(tmp_path / "b.jsonl", STEADY)
    result = gpubench("compare", "a.jsonl", "b.jsonl")
    assert result.exit_code == 2
    assert "No case is on two sides" in result.stderr
    assert not {"\x1b", "\u202e"} & set(result.stderr)


def test_what_is_packed_unpacks(gpubench, tmp_path):
    save(tmp_path / "results" / "box" / "0001_first.jsonl", STEADY)
    packed = gpubench("pack", "first")
    assert packed.stdout.splitlines()[0] == "0001_first.gpubench.zip"
    unpacked = gpubench("unpack", "0001_first.gpubench.zip", "-o", "out")
    assert unpacked.stdout.splitlines() == ["out/0001_first.jsonl"]
    assert gpubench("compare", "out", "first", "--json").exit_code == 0


def test_export_says_which_files_it_wrote(gpubench, tmp_path):
    save(tmp_path / "a.jsonl", STEADY)
    result = gpubench("export", "a.jsonl", "--format", "csv", "-o", "out")
    assert [Path(line).name for line in result.stdout.splitlines()] == [
        "raw-launches-cpu-shares.csv",
        "raw-rounds-cpu-shares.csv",
        "raw-rank-rounds-cpu-shares.csv",
        "raw-device-rounds-cpu-shares.csv",
        "derived-cases-cpu-shares.csv",
    ]


def test_comparing_needs_no_driver_and_no_framework(tmp_path):
    for name in ("a", "b"):
        save(tmp_path / f"{name}.jsonl", STEADY)
    program = (
        "import sys; from pathlib import Path; from gpubench.cli import comparing\n"
        "comparing.as_json(comparing.run(['a.jsonl', 'b.jsonl'], Path('results')))\n"
        "print(sorted({'pynvml', 'psutil', 'torch', 'tensorflow', 'mxnet', 'jax'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_has_an_example(gpubench):
    for name in ("compare", "pack", "unpack", "export"):
        assert "Example:" in gpubench(name, "--help").stdout
