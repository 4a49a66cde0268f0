"""Fixtures of the telemetry tests: the fake NVML library, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import nvml


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake library."""
    return _build(tmp_path_factory)


@pytest.fixture(scope="session")
def old_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fake library that lacks what drivers before R510 lacked."""
    return _build(tmp_path_factory, "-DOLD_DRIVER")


def _build(tmp_path_factory: pytest.TempPathFactory, *options: str) -> Path:
    if nvml.COMPILER is None:
        pytest.skip("the fake NVML library needs a C compiler (gcc or cc)")
    return nvml.build(tmp_path_factory.mktemp("nvml"), *options)
