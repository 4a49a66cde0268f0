"""Fixtures of the telemetry tests: the fake NVML library, built once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes import amdsmi, nvml
from tests.fakes.nvml.scenario import Scenario


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake library."""
    return _build(tmp_path_factory, ())


@pytest.fixture(scope="session")
def fake_amdsmi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake of AMD's library."""
    if amdsmi.COMPILER is None:
        pytest.skip("the fake AMD SMI library needs a C compiler (gcc or cc)")
    return amdsmi.build(tmp_path_factory.mktemp("amdsmi"))


@pytest.fixture(scope="session")
def old_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fake library that lacks what drivers before R510 lacked."""
    return _build(tmp_path_factory, nvml.OLD_DRIVER_LACKS)


@pytest.fixture(scope="session")
def library_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Scenario], Path]:
    """The folder of a fake library that has the symbols of a scenario's driver; built once for each set of them."""
    built: dict[tuple[str, ...], Path] = {}

    def library(scenario: Scenario) -> Path:
        missing = tuple(sorted(scenario.missing))
        if missing not in built:
            built[missing] = _build(tmp_path_factory, missing)
        return built[missing]

    return library


def _build(tmp_path_factory: pytest.TempPathFactory, missing: tuple[str, ...]) -> Path:
    if nvml.COMPILER is None:
        pytest.skip("the fake NVML library needs a C compiler (gcc or cc)")
    return nvml.build(tmp_path_factory.mktemp("nvml"), missing)
