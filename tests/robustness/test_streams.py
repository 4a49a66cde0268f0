"""Any of the three standard streams closed: the records are written, and no file takes a stream's number."""

import os
from itertools import product
from pathlib import Path

import pytest

from tests.robustness.conftest import wait_until

FEW = ("--strategies", "ranks", "--devices", "1,2", "--launches", "1")
ALL = (0, 1, 2)
CLOSED = [closed for which in product((False, True), repeat=3) if (closed := tuple(n for n in ALL if which[n]))]


def close(descriptors):
    for descriptor in descriptors:
        os.close(descriptor)


def assert_a_run_with_closed(harness, closed, words):
    process = harness.start(*words, preexec_fn=lambda: close(closed))
    wait_until(lambda: harness.workers() or process.poll() is not None)
    if process.poll() is None:
        for descriptor in closed:
            assert Path(f"/proc/{process.pid}/fd/{descriptor}").readlink() == Path(os.devnull)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert {record.outcome.status for record in harness.records()} <= {"ok", "skipped"}
    harness.assert_nothing_left()


def test_with_all_streams_closed_a_run_in_pairs_writes_its_records(harness):
    assert_a_run_with_closed(harness, ALL, harness.bench(*FEW, "--paired"))


@pytest.mark.nightly
@pytest.mark.parametrize("paired", ["--paired", "--no-paired"])
@pytest.mark.parametrize("closed", CLOSED)
def test_with_any_streams_closed_a_run_writes_its_records(harness, closed, paired):
    assert_a_run_with_closed(harness, closed, harness.bench(*FEW, paired))


def test_with_standard_input_closed_a_session_under_pytest_writes_its_records(harness):
    test = harness.folder / "test_training.py"
    test.write_text("def test_training(gpubench_case, gpubench_measure):\n    gpubench_measure(gpubench_case)\n")
    words = ("--gpubench-frameworks", "fake", "--gpubench-strategies", "single", "--gpubench-devices", "1")
    words = (str(test), *words, "--gpubench-launches", "1", "--benchmark-save=run", "-p", "no:xdist")
    process = harness.start(*words, module="pytest", cwd=harness.folder, preexec_fn=lambda: close([0]))
    process.communicate(timeout=60)
    assert process.returncode == 0
    (journal,) = harness.folder.rglob("0001_run.jsonl")
    assert journal.read_bytes().count(b"\n") == 1
