"""Every workload x framework x strategy, on each number of devices: `pytest benchmarks/ --benchmark-save=NAME`."""

import pytest

from gpubench.analysis.checks import sets_aside
from gpubench.pytest_plugin import PLAYBACK


@pytest.mark.benchmark(timer=PLAYBACK)
def test_training(training_case, measure):
    """Fails where a launch failed, or where the work was not what was asked for; a busy machine fails nothing."""
    for record in measure(training_case):
        wrong = [check.message for check in record.checks if check.severity == "severe" and not sets_aside(check)]
        assert not wrong
