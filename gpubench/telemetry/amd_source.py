"""What AMD GPUs are doing, through AMD SMI. GPUs are known by UUID.

Power and energy are read at every sweep, the rest every second, and errors and processes every few seconds; at the
edges of rounds all is read. Left alone are amdsmi_get_gpu_pci_throughput and amdsmi_get_violation_status, which measure
within the call, for a second and a tenth of one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpubench.spec.case import Device
from gpubench.spec.record import GPU_METRICS, METRICS
from gpubench.telemetry.amd import NO_FIGURES, NoFigureError, binding, explain, handles_by_hip, is_lasting, uuid_of
from gpubench.telemetry.calls import Due, medians, tiers, timed, too_slow
from gpubench.telemetry.nvml import or_none
from gpubench.telemetry.source import Header, Sample

HOTTEST_CELSIUS = 200  # some releases gave thousandths of a degree
PCIE_GENERATIONS = {2500: 1, 5000: 2, 8000: 3, 16000: 4, 32000: 5, 64000: 6}  # by MT/s
ALL_METRICS = (*METRICS, *GPU_METRICS, "gpm", "xids")
NOT_READ = "not read of AMD GPUs"
NOT_COUNTED = "AMD SMI does not count the bytes of each direction"


class AmdSource:
    """Reads GPUs by UUID. What a GPU can answer is found out once; whatever fails later is None for that sample."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._gpus: list[_Gpu] = []
        unavailable: dict[str, dict[str, str]] = {}
        try:
            binding().amdsmi_init()
            handles = {uuid_of(handle): handle for handle in handles_by_hip()}
        except Exception as error:
            self._header = Header(source="amdsmi", reason=explain(error))
            return
        for device in devices:
            if device.id in handles:
                self._gpus.append(_Gpu(device.id, handles[device.id], len(devices)))
            else:
                unavailable[device.id] = dict.fromkeys(ALL_METRICS, "AMD SMI does not find the GPU")
        self._due = Due([gpu.tiers for gpu in self._gpus])
        self._header = Header(
            source="amdsmi",
            devices=[gpu.id for gpu in self._gpus],
            period_ns=max((gpu.tiers.period_ns for gpu in self._gpus), default=0),
            unavailable=unavailable | {gpu.id: gpu.unavailable for gpu in self._gpus},
            methods={gpu.id: gpu.methods for gpu in self._gpus},
            power_limit_watts={gpu.id: gpu.power_limit_watts for gpu in self._gpus if gpu.power_limit_watts},
            call_seconds=medians([gpu.call_seconds for gpu in self._gpus]),
            slowed_calls=sorted({name for gpu in self._gpus for name in gpu.slowed}),
        )

    def header(self) -> Header:
        return self._header

    def sweep(self, edge: bool = False) -> list[Sample]:
        slow, rare = self._due.take(edge)
        return [sample for gpu in self._gpus if (sample := gpu.sample(slow, rare))]

    def close(self) -> None:
        if self._header.reason is None:
            binding().amdsmi_shut_down()


@dataclass(frozen=True)
class Call:
    """One way to read a metric, or as many as `get` gives numbers."""

    metrics: tuple[str, ...]
    method: str
    get: Callable[[Any], Any]

    def read(self, handle: Any, values: dict[str, float | None], problems: dict[str, str]) -> None:
        try:
            answer = self.get(handle)
        except Exception as error:
            values.update(dict.fromkeys(self.metrics))
            problems.update(dict.fromkeys(self.metrics, explain(error)))
            return
        values.update(zip(self.metrics, answer if isinstance(answer, tuple) else (answer,), strict=True))


class _Gpu:
    """One GPU, and the calls that it answers."""

    def __init__(self, id: str, handle: Any, n_gpus: int) -> None:
        smi = binding()
        self.id, self._handle = id, handle
        self.unavailable = dict.fromkeys(ALL_METRICS, NOT_READ)
        self.unavailable |= dict.fromkeys(("pcie_tx_bytes", "pcie_rx_bytes"), NOT_COUNTED)
        self.methods: dict[str, str] = {}
        self.call_seconds: dict[str, float] = {}
        self.slowed: list[str] = []
        self.power_limit_watts = or_none(lambda: figure(smi.amdsmi_get_power_cap_info(handle)["power_cap"]) / 1e6)
        fast, seldom, rare = map(self._answered, (fast_calls(handle), slow_calls(), rare_calls()))
        self.tiers = tiers(fast, seldom, rare, self._time, n_gpus)
        self.slowed = [call.metrics[0] for call in fast if call not in self.tiers.fast]
        for call in self.tiers.left_out:
            for metric in call.metrics:
                del self.methods[metric]
                self.unavailable[metric] = too_slow(self.call_seconds[call.metrics[0]])

    def sample(self, slow: bool, rare: bool) -> Sample | None:
        """None where nothing is due, as the driver is too slow for every tick."""
        due = [*self.tiers.fast, *(self.tiers.slow if slow else []), *(self.tiers.rare if rare else [])]
        if not due:
            return None
        values: dict[str, float | None] = {}
        problems: dict[str, str] = {}
        n_first = len(self.tiers.fast) or 1
        before_ns = time.monotonic_ns()
        for call in due[:n_first]:
            call.read(self._handle, values, problems)
        time_ns = (before_ns + time.monotonic_ns()) // 2
        for call in due[n_first:]:
            call.read(self._handle, values, problems)
        return Sample(time_ns=time_ns, id=self.id, values=values, problems=problems)

    def _answered(self, calls: Sequence[Call]) -> list[Call]:
        """The first way of each metric that the GPU answers; why it answers none goes into `unavailable`."""
        kept = []
        for call in calls:
            if call.metrics[0] in self.methods:
                continue
            try:
                call.get(self._handle)
            except Exception as error:
                if is_lasting(error):
                    self.unavailable.update(dict.fromkeys(call.metrics, explain(error)))
                    continue
            kept.append(call)
            for metric in call.metrics:
                self.methods[metric] = call.method
                del self.unavailable[metric]
        return kept

    def _time(self, call: Call) -> float:
        return timed(self.call_seconds, call.metrics[0], lambda: call.read(self._handle, {}, {}))


def fast_calls(handle: Any) -> list[Call]:
    smi = binding()
    microjoules = or_none(lambda: float(smi.amdsmi_get_energy_count(handle)["counter_resolution"])) or 0.0

    def joules(handle: Any) -> float:
        answer = smi.amdsmi_get_energy_count(handle)
        return figure(answer["energy_accumulator"]) * float(answer["counter_resolution"]) / 1e6

    def watts(which: str) -> Callable[[Any], float]:
        return lambda handle: figure(smi.amdsmi_get_power_info(handle)[which])

    return [
        Call(("power_watts",), "of the socket, current", watts("current_socket_power")),
        Call(
            ("power_watts",), "of the socket, average over a time that AMD leaves open", watts("average_socket_power")
        ),
        Call(("energy_joules",), f"counter in steps of {microjoules:.3f} µJ", joules),
    ]


def slow_calls() -> list[Call]:
    """The better way to read a metric first."""
    smi = binding()
    clocks, sensors = smi.AmdSmiClkType, smi.AmdSmiTemperatureType

    def pcie(handle: Any, name: str) -> float:
        return figure(smi.amdsmi_get_pcie_info(handle)["pcie_metric"][name])

    def celsius(sensor: Any) -> Callable[[Any], float]:
        return lambda handle: _celsius(smi.amdsmi_get_temp_metric(handle, sensor, smi.AmdSmiTemperatureMetric.CURRENT))

    return [
        Call(("utilization_percent",), "graphics engine busy (gfx activity), snapshots", _utilization_percent),
        Call(
            ("memory_used_bytes",),
            "VRAM in use",
            lambda h: figure(smi.amdsmi_get_gpu_memory_usage(h, smi.AmdSmiMemoryType.VRAM)),
        ),
        Call(("sm_clock_mhz",), "gfx", lambda h: figure(smi.amdsmi_get_clock_info(h, clocks.GFX)["clk"])),
        Call(("memory_clock_mhz",), "memory", lambda h: figure(smi.amdsmi_get_clock_info(h, clocks.MEM)["clk"])),
        Call(("temperature_celsius",), "edge", celsius(sensors.EDGE)),
        Call(("temperature_celsius",), "hotspot", celsius(sensors.HOTSPOT)),
        Call(("memory_temperature_celsius",), "VRAM", celsius(sensors.VRAM)),
        Call(("pcie_link_generation",), "at work, by its speed", lambda h: _generation(pcie(h, "pcie_speed"))),
        Call(("pcie_link_width",), "lanes", lambda h: pcie(h, "pcie_width")),
        Call(("pcie_replays",), "counter", lambda h: pcie(h, "pcie_replay_count")),
        Call(("throttle_power_ns", "throttle_thermal_ns"), "share of the firmware's looks, of the time", Throttle()),
    ]


def rare_calls() -> list[Call]:
    smi = binding()

    def errors(handle: Any) -> tuple[float, float]:
        answer = smi.amdsmi_get_gpu_total_ecc_count(handle)
        return figure(answer["correctable_count"]), figure(answer["uncorrectable_count"])

    return [
        Call(("ecc_corrected", "ecc_uncorrected"), "counter", errors),
        Call(("processes",), "on the GPU", lambda h: len(smi.amdsmi_get_gpu_process_list(h))),
    ]


class Throttle:
    """How long a GPU was held back for power, and for heat, in ns since the first call.

    The firmware counts how often it looked, and how often a limit held it back (MI300 and newer); AMD's own tools
    divide the two as well. For heat it is the limit that held most often: socket, voltage regulators, HBM or PROCHOT.
    """

    POWER = "ppt_residency_acc"
    HEAT = ("socket_thm_residency_acc", "vr_thm_residency_acc", "hbm_thm_residency_acc", "prochot_residency_acc")

    def __init__(self) -> None:
        self._last: tuple[int, dict[str, float]] | None = None
        self._power_ns = self._heat_ns = 0.0

    def __call__(self, handle: Any) -> tuple[float, float]:
        answer = binding().amdsmi_get_gpu_metrics_info(handle)
        now_ns = time.monotonic_ns()
        counts = {name: figure(answer[name]) for name in ("accumulation_counter", self.POWER, *self.HEAT)}
        last_ns, last = self._last or (now_ns, counts)
        grown = {name: counts[name] - last[name] for name in counts}
        looks = grown["accumulation_counter"]
        if looks > 0 and min(grown.values()) >= 0:
            self._power_ns += (now_ns - last_ns) * grown[self.POWER] / looks
            self._heat_ns += (now_ns - last_ns) * max(grown[name] for name in self.HEAT) / looks
        if looks != 0 or self._last is None:  # else the firmware has not looked since
            self._last = (now_ns, counts)
        return self._power_ns, self._heat_ns


def figure(value: Any) -> float:
    """The number; NoFigureError where the binding gives "N/A" or all bits set."""
    if not isinstance(value, int | float) or value in NO_FIGURES:
        raise NoFigureError("AMD SMI has no figure")
    return value


def _utilization_percent(handle: Any) -> float:
    percent = figure(binding().amdsmi_get_gpu_activity(handle)["gfx_activity"])
    if percent > 100:
        raise ValueError(f"AMD SMI gave a utilisation of {percent:.0f} %")
    return percent


def _celsius(value: Any) -> float:
    if figure(value) > HOTTEST_CELSIUS:
        raise NoFigureError(f"AMD SMI gave a temperature of {value}, which is not in °C")
    return figure(value)


def _generation(megatransfers: float) -> int:
    if megatransfers not in PCIE_GENERATIONS:
        raise ValueError(f"AMD SMI gave a link of {megatransfers:.0f} MT/s")
    return PCIE_GENERATIONS[int(megatransfers)]
