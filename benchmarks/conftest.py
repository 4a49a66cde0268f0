"""Saved runs go to `results/`, unless --benchmark-storage says otherwise; options have their short spellings here."""

import pytest

from gpubench.pytest_plugin import add_short_options


def pytest_addoption(parser):
    """`--devices` is `--gpubench-devices`, for those who start pytest on this folder."""
    add_short_options(parser)


@pytest.hookimpl(tryfirst=True)  # before pytest-benchmark looks at it
def pytest_configure(config):
    if config.option.benchmark_storage == "file://./.benchmarks":  # its default
        config.option.benchmark_storage = "file://results"
