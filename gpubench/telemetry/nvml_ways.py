"""Every way to read each metric of an open GPU, and which of them it answers.

Field numbers are written out, because some were renumbered between releases of the driver: 199, 200 and 251 to 273
are never used. The ones below kept their meaning in every release of nvidia-ml-py from 11.495 to 13.615. Nor is
nvmlDeviceGetPcieThroughput called: it measures for 20 ms within the call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from ctypes import byref
from dataclasses import dataclass
from operator import mul
from typing import Any, Protocol

from gpubench.telemetry.nvml import LASTING_ERRORS, binding, explain, or_none
from gpubench.telemetry.nvml_processes import compute_processes

CLOCK_SM, CLOCK_MEMORY, TEMPERATURE_CORE = 1, 2, 0
CORRECTED, UNCORRECTED, VOLATILE = 0, 1, 0
ALL_LINKS = 2**32 - 1
KIB = 1024
NO_VALUE, NO_LONG_VALUE = 2**32 - 1, 2**64 - 1
MIG_PARENT = "the figure would be the MIG parent's"
# A field of 40 bytes: id, scope, time and latency, which are not looked at; type, error; value, by its type.
TYPE_AND_ERROR, BEFORE_VALUE = "24xII8x", "32x"
VALUES = {0: "d", 1: "I4x", 2: "Q", 3: "Q", 4: "q", 5: "i4x", 6: "H6x"}
UNSIGNED_INT = 1


@dataclass(frozen=True)
class Field:
    """One number of nvmlDeviceGetFieldValues, times `factor`. `scope` is an NVLink's number where it is one's."""

    metric: str
    method: str
    number: int
    factor: float = 1.0
    scope: int = 0


class Reading(Protocol):
    """One call into the driver, for one metric or several. It never raises: an error is an answer as well."""

    @property
    def name(self) -> str: ...

    @property
    def metrics(self) -> Sequence[str]: ...

    def ask(self, handle: Any) -> Any:
        """The driver's answer, as it is."""
        ...

    def decode(self, answer: Any, values: dict[str, float | None], problems: dict[str, str]) -> None: ...


class Fields:
    """Several fields in one call, in a buffer that is used again. Several of one metric are added up."""

    def __init__(self, name: str, fields: Sequence[Field]) -> None:
        nvml = binding()
        self.name = name
        self.fields = list(fields)
        self._buffer = (nvml.c_nvmlFieldValue_t * len(fields))()
        for slot, field in zip(self._buffer, fields, strict=True):
            slot.fieldId, slot.scopeId = field.number, field.scope
        self._call = nvml._nvmlGetFunctionPointer("nvmlDeviceGetFieldValues")
        self._argument = byref(self._buffer)
        self.metrics = [field.metric for field in fields]
        self._factors = [field.factor for field in fields]
        self._told: tuple[int, ...] = ()
        self._unpack = struct.Struct("=" + TYPE_AND_ERROR * len(fields)).unpack

    def error(self, handle: Any) -> int:
        """The error code of the call, or of its first field; 0 is none."""
        answer = self.ask(handle)
        return answer if isinstance(answer, int) else int(self._unpack(answer)[1])

    def ask(self, handle: Any) -> bytes | int:
        """The fields' bytes, or the error code of the call."""
        return self._call(handle, len(self.fields), self._argument) or bytes(self._buffer)

    def decode(self, answer: bytes | int, values: dict[str, float | None], problems: dict[str, str]) -> None:
        if isinstance(answer, int):
            for metric in self.metrics:
                values[metric], problems[metric] = None, _explain_code(answer)
            return
        told = self._unpack(answer)
        if told != self._told:  # it hardly ever changes
            self._told, self._unpack_values = told, _values_of(told[::2])
            self._is_plain = not any(told[1::2]) and len(set(self.metrics)) == len(told[::2])
        numbers = self._unpack_values(answer)
        if self._is_plain and NO_VALUE not in numbers and NO_LONG_VALUE not in numbers:
            values.update(zip(self.metrics, map(mul, numbers, self._factors), strict=True))
            return
        for metric, factor, kind, error, number in zip(
            self.metrics, self._factors, told[::2], told[1::2], numbers, strict=True
        ):
            if error:
                values[metric], problems[metric] = None, _explain_code(error)
            elif number == NO_LONG_VALUE or (kind == UNSIGNED_INT and number == NO_VALUE):
                values[metric], problems[metric] = None, "NVML gave all bits set, which is no figure"
            elif metric not in problems:
                values[metric] = (values.get(metric) or 0) + number * factor


def _values_of(kinds: tuple[int, ...]) -> Callable[[bytes], tuple[Any, ...]]:
    """Unpacks the values of fields of these types. An error's may be any; one that is not known is a whole number's."""
    return struct.Struct("=" + "".join(BEFORE_VALUE + VALUES.get(kind, "q") for kind in kinds)).unpack


@dataclass(frozen=True)
class Call:
    """One function of the binding that gives one number, or as many as there are `metrics`."""

    metrics: tuple[str, ...]
    method: str
    get: Callable[[Any], Any]
    average_seconds: float | None = None

    @property
    def name(self) -> str:
        return self.metrics[0]

    def ask(self, handle: Any) -> Any:
        try:
            return self.get(handle)
        except Exception as error:
            return error.with_traceback(None)  # whose frames would hold on to this answer: a cycle

    def decode(self, answer: Any, values: dict[str, float | None], problems: dict[str, str]) -> None:
        if isinstance(answer, Exception):
            values.update(dict.fromkeys(self.metrics))
            problems.update(dict.fromkeys(self.metrics, explain(answer)))
            return
        if isinstance(answer, tuple):
            values.update(zip(self.metrics, answer, strict=True))
        else:
            values[self.metrics[0]] = answer


FAST_FIELDS = [
    Field("power_watts", "instantaneous (field 186)", 186, 1e-3),
    Field("power_average_watts", "average of the last second (field 185)", 185, 1e-3),
    Field("energy_joules", "counter since the driver was loaded", 83, 1e-3),
    Field("throttle_power_ns", "time below the wanted clock for power", 74),
    Field("throttle_thermal_ns", "time below the wanted clock for heat", 75),
]
SLOW_FIELDS = [
    Field("throttle_sync_boost_ns", "time below the wanted clock for its group", 76),
    Field("throttle_board_limit_ns", "time below the wanted clock for the board", 77),
    Field("throttle_reliability_ns", "time below the wanted clock for reliability", 79),
    Field("memory_temperature_celsius", "memory (field 82)", 82),
    Field("pcie_replays", "counter", 94),
    Field("pcie_tx_bytes", "counter (field 197)", 197),
    Field("pcie_rx_bytes", "counter (field 198)", 198),
]
# Kept apart from the others: one NVLink field that is not supported has been seen to spoil a whole call.
LINK_FIELDS = [
    Field("nvlink_tx_bytes", "counter of all links (field 138)", 138, KIB, ALL_LINKS),
    Field("nvlink_rx_bytes", "counter of all links (field 139)", 139, KIB, ALL_LINKS),
]


def per_link_fields(links: Sequence[int]) -> list[Field]:
    """NVLink 5 counts by link."""
    return [
        Field(metric, f"counters of {len(links)} links (field {number})", number, 1.0, link)
        for metric, number in (("nvlink_tx_bytes", 202), ("nvlink_rx_bytes", 204))
        for link in links
    ]


def fast_calls(power_average_seconds: float | None) -> list[Call]:
    """Where the fields are not answered."""
    nvml = binding()
    method = "average of the last second" if power_average_seconds else "instantaneous"
    return [
        Call(("power_watts",), method, lambda h: _watts(nvml.nvmlDeviceGetPowerUsage(h)), power_average_seconds),
        Call(
            ("energy_joules",),
            "counter since the driver was loaded",
            lambda h: nvml.nvmlDeviceGetTotalEnergyConsumption(h) / 1e3,
        ),
    ]


def slow_calls() -> list[Call]:
    """Every way to read what changes slowly, the better one first."""
    nvml = binding()

    def memory_apart(handle: Any) -> tuple[int, int]:
        info = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        return info.used, info.reserved

    return [
        Call(("utilization_percent",), "time in which any kernel ran", _utilization_percent),
        Call(("memory_used_bytes", "memory_reserved_bytes"), "in use, without what the driver reserves", memory_apart),
        Call(
            ("memory_used_bytes",),
            "in use, with what the driver reserves",
            lambda h: nvml.nvmlDeviceGetMemoryInfo(h).used,
        ),
        Call(("sm_clock_mhz",), "once a second", lambda h: nvml.nvmlDeviceGetClockInfo(h, CLOCK_SM)),
        Call(("memory_clock_mhz",), "once a second", lambda h: nvml.nvmlDeviceGetClockInfo(h, CLOCK_MEMORY)),
        Call(("temperature_celsius",), "GPU core", lambda h: nvml.nvmlDeviceGetTemperatureV(h, TEMPERATURE_CORE)),
        Call(("temperature_celsius",), "GPU core", lambda h: nvml.nvmlDeviceGetTemperature(h, TEMPERATURE_CORE)),
        Call(("clock_event_reasons",), "bits", lambda h: nvml.nvmlDeviceGetCurrentClocksEventReasons(h)),
        Call(("clock_event_reasons",), "bits", lambda h: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(h)),
        Call(("pcie_link_generation",), "at work", lambda h: nvml.nvmlDeviceGetCurrPcieLinkGeneration(h)),
        Call(("pcie_link_width",), "lanes", lambda h: nvml.nvmlDeviceGetCurrPcieLinkWidth(h)),
        Call(("pcie_replays",), "counter", lambda h: nvml.nvmlDeviceGetPcieReplayCounter(h)),
        Call(("ecc_corrected",), "counter", lambda h: nvml.nvmlDeviceGetTotalEccErrors(h, CORRECTED, VOLATILE)),
        Call(("ecc_uncorrected",), "counter", lambda h: nvml.nvmlDeviceGetTotalEccErrors(h, UNCORRECTED, VOLATILE)),
        Call(("remapped_rows",), "counter", lambda h: sum(nvml.nvmlDeviceGetRemappedRows(h)[:2])),
        Call(("processes",), "with a compute context", lambda h: len(compute_processes(h))),
    ]


def answered(handle: Any, name: str, fields: Sequence[Field], unavailable: dict[str, str]) -> Fields | None:
    """Those of the fields that the GPU answers; why it does not answer the others goes into `unavailable`."""
    try:
        probes = [(field, Fields(name, [field]).error(handle)) for field in fields]
    except Exception as error:  # a driver that lacks the function
        unavailable.update((field.metric, explain(error)) for field in fields)
        return None
    refused = {field.metric: _explain_code(code) for field, code in probes if code in LASTING_ERRORS}
    unavailable.update(refused)
    kept = [field for field in fields if field.metric not in refused]
    return Fields(name, kept) if kept else None


def power_is_average(handle: Any) -> bool:
    """Whether nvmlDeviceGetPowerUsage averages over a second: on Ampere except GA100, and newer (nvml.h)."""
    capability = or_none(lambda: tuple(binding().nvmlDeviceGetCudaComputeCapability(handle)))
    return capability is None or capability > (8, 0)


def _explain_code(code: int) -> str:
    return explain(binding().NVMLError(code))


def _utilization_percent(handle: Any) -> float:
    percent = float(binding().nvmlDeviceGetUtilizationRates(handle).gpu)
    if percent > 100:
        raise ValueError(f"NVML gave a utilisation of {percent:.0f} %")
    return percent


def _watts(milliwatts: int) -> float:
    if milliwatts == NO_VALUE:
        raise ValueError("NVML gave all bits set, which is no figure")
    return milliwatts / 1e3
