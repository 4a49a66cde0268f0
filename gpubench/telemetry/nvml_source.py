"""What NVIDIA GPUs are doing, through NVML. GPUs are known by UUID; NVML's index is not CUDA's.

Field numbers are written out, because some were renumbered between releases of the driver; 186 never was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpubench.spec.case import Device
from gpubench.spec.record import METRICS
from gpubench.telemetry.nvml import binding, explain, is_mig, or_none
from gpubench.telemetry.source import Header, Sample

FIELD_POWER_INSTANT = 186  # milliwatts
CLOCK_SM, TEMPERATURE_CORE = 1, 0
# Errors of a call that will not go better next time: invalid argument, not supported, no permission, no such
# function in this driver, no such version of its argument.
LASTING_ERRORS = {2, 3, 4, 13, 25}


class NvmlSource:
    """Reads GPUs by UUID. What a GPU can answer is found out once; whatever fails later is None for that sample."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._readings: dict[str, tuple[Any, list[_Reading]]] = {}
        unavailable: dict[str, dict[str, str]] = {}
        average: dict[str, float] = {}
        try:
            binding().nvmlInit()
        except Exception as error:
            self._header = Header(source="nvml", reason=explain(error))
            return
        for device in devices:
            try:
                handle = binding().nvmlDeviceGetHandleByUUID(device.id)
            except Exception as error:
                unavailable[device.id] = dict.fromkeys(METRICS, f"the GPU could not be opened: {explain(error)}")
                continue
            readings, unavailable[device.id] = _choose(handle)
            self._readings[device.id] = (handle, readings)
            average.update((device.id, r.average_seconds) for r in readings if r.average_seconds)
        methods = {id: {r.metric: r.method for r in readings} for id, (_, readings) in self._readings.items()}
        self._header = Header(source="nvml", unavailable=unavailable, methods=methods, power_average_seconds=average)

    def header(self) -> Header:
        return self._header

    def sweep(self) -> list[Sample]:
        return [self._sample(id, handle, readings) for id, (handle, readings) in self._readings.items()]

    def close(self) -> None:
        if self._header.reason is None:
            binding().nvmlShutdown()

    def _sample(self, id: str, handle: Any, readings: list[_Reading]) -> Sample:
        values: dict[str, float | None] = {}
        problems = {}
        before_ns = time.monotonic_ns()
        for reading in readings:
            try:
                values[reading.metric] = reading.read(handle)
            except Exception as error:
                values[reading.metric] = None
                problems[reading.metric] = explain(error)
        return Sample(time_ns=(before_ns + time.monotonic_ns()) // 2, id=id, values=values, problems=problems)


@dataclass(frozen=True)
class _Reading:
    """One way to read one metric of an open GPU."""

    metric: str
    method: str
    read: Callable[[Any], float]
    average_seconds: float | None = None


def _ways(handle: Any) -> list[_Reading]:
    """Every way to read every metric, the better one first."""
    nvml = binding()
    power_average_seconds = 1.0 if _power_is_average(handle) else None
    return [
        _Reading("utilization_percent", "time in which any kernel ran", _utilization_percent),
        _Reading(
            "memory_used_bytes",
            "in use, without what the driver reserves",
            lambda h: nvml.nvmlDeviceGetMemoryInfo(h, version=nvml.nvmlMemory_v2).used,
        ),
        _Reading(
            "memory_used_bytes",
            "in use, with what the driver reserves",
            lambda h: nvml.nvmlDeviceGetMemoryInfo(h).used,
        ),
        _Reading("power_watts", "instantaneous (field 186)", lambda h: _field(h, FIELD_POWER_INSTANT) / 1e3),
        _Reading(
            "power_watts",
            "average of the last second" if power_average_seconds else "instantaneous",
            lambda h: nvml.nvmlDeviceGetPowerUsage(h) / 1e3,
            power_average_seconds,
        ),
        _Reading(
            "energy_joules",
            "counter since the driver was loaded",
            lambda h: nvml.nvmlDeviceGetTotalEnergyConsumption(h) / 1e3,
        ),
        _Reading("sm_clock_mhz", "SM clock", lambda h: nvml.nvmlDeviceGetClockInfo(h, CLOCK_SM)),
        _Reading("temperature_celsius", "GPU core", lambda h: nvml.nvmlDeviceGetTemperatureV(h, TEMPERATURE_CORE)),
        _Reading("temperature_celsius", "GPU core", lambda h: nvml.nvmlDeviceGetTemperature(h, TEMPERATURE_CORE)),
    ]


def _choose(handle: Any) -> tuple[list[_Reading], dict[str, str]]:
    """For each metric the first way that answers, or why none does."""
    chosen: dict[str, _Reading] = {}
    unavailable: dict[str, str] = {}
    mig = is_mig(handle)
    for way in _ways(handle):
        if mig and way.metric in ("utilization_percent", "power_watts", "energy_joules"):
            unavailable[way.metric] = "MIG is on, and the figure would be the whole GPU's"
        elif way.metric not in chosen:
            try:
                way.read(handle)
            except Exception as error:
                if _is_lasting(error):
                    unavailable[way.metric] = explain(error)
                    continue
            chosen[way.metric] = way
    return list(chosen.values()), {m: reason for m, reason in unavailable.items() if m not in chosen}


def _is_lasting(error: Exception) -> bool:
    # AttributeError: a binding older than the call.
    return getattr(error, "value", None) in LASTING_ERRORS or isinstance(error, AttributeError)


def _utilization_percent(handle: Any) -> float:
    percent = float(binding().nvmlDeviceGetUtilizationRates(handle).gpu)
    if percent > 100:
        raise ValueError(f"NVML gave a utilisation of {percent:.0f} %")
    return percent


def _power_is_average(handle: Any) -> bool:
    """Whether nvmlDeviceGetPowerUsage averages over a second: on Ampere except GA100, and newer (nvml.h)."""
    capability = or_none(lambda: tuple(binding().nvmlDeviceGetCudaComputeCapability(handle)))
    return capability is None or capability > (8, 0)


def _field(handle: Any, field_id: int) -> float:
    """One field; each carries its own error and its own type."""
    nvml = binding()
    answer = nvml.nvmlDeviceGetFieldValues(handle, [field_id])[0]
    if answer.nvmlReturn:
        raise nvml.NVMLError(answer.nvmlReturn)
    member = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}[answer.valueType]
    return float(getattr(answer.value, member))
