"""Saved runs go to `results/`, unless --benchmark-storage says otherwise."""

import pytest


@pytest.hookimpl(tryfirst=True)  # before pytest-benchmark looks at it
def pytest_configure(config):
    if config.option.benchmark_storage == "file://./.benchmarks":  # its default
        config.option.benchmark_storage = "file://results"
