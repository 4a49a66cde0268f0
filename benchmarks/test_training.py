"""Every workload x framework x strategy, on each number of devices: `pytest benchmarks/ --benchmark-save=NAME`."""

import pytest

from gpubench.pytest_plugin import PLAYBACK


@pytest.mark.benchmark(timer=PLAYBACK)
def test_training(gpubench_case, gpubench_measure):
    """Fails where a launch failed, or where a check took the number away: other work than asked for, a busy machine."""
    gpubench_measure(gpubench_case)
