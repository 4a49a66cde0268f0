"""Every workload x framework x strategy, on each number of devices: `pytest benchmarks/ --benchmark-save=NAME`."""

import pytest

from gpubench.pytest_plugin import PLAYBACK


@pytest.mark.benchmark(timer=PLAYBACK)
def test_training(training_case, measure):
    for record in measure(training_case):
        severe = [check.message for check in record.checks if check.severity == "severe"]
        assert not severe
