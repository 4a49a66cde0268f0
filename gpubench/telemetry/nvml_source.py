"""What NVIDIA GPUs are doing, through NVML. GPUs are known by UUID; NVML's index is not CUDA's.

Power, energy and throttle time are read at every sweep, in one call for each GPU; the rest every second, and errors
every few seconds, as a call can take milliseconds and holds the driver's lock. At the edges of rounds all is read.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from gpubench.spec.case import Device
from gpubench.spec.record import GPU_METRICS, METRICS
from gpubench.telemetry import nvml_ways as ways
from gpubench.telemetry.calls import LARGEST_SHARE, RARE_NS, Due, Tiers, medians, tiers, timed, too_slow
from gpubench.telemetry.nvml import binding, explain, is_lasting, is_mig, or_none, text_of
from gpubench.telemetry.nvml_events import Xids
from gpubench.telemetry.nvml_facts import Opened, active_links, system
from gpubench.telemetry.nvml_gpm import GpmReader
from gpubench.telemetry.nvml_history import History
from gpubench.telemetry.source import Gpm, Header, Sample

RARE = {"ecc_corrected", "ecc_uncorrected", "remapped_rows", "processes"}
OF_THE_PARENT = (
    "utilization_percent", "power_watts", "power_average_watts", "energy_joules",
    "pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_bytes", "nvlink_rx_bytes",
)  # fmt: skip
OF_THE_INSTANCE = ("memory_used_bytes", "processes")


class NvmlSource:
    """Reads GPUs by UUID. What a GPU can answer is found out once; whatever fails later is None for that sample."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._gpus: list[_Gpu] = []
        unavailable: dict[str, dict[str, str]] = {}
        try:
            binding().nvmlInit()
        except Exception as error:
            self._header = Header(source="nvml", reason=explain(error))
            return
        for device in devices:
            try:
                handle = binding().nvmlDeviceGetHandleByUUID(device.id)
                self._gpus.append(_Gpu(device.id, handle, len(devices)))
            except Exception as error:
                reason = f"the GPU could not be opened: {explain(error)}"
                unavailable[device.id] = dict.fromkeys((*METRICS, *GPU_METRICS, "gpm", "xids"), reason)
        self._due = Due([gpu.tiers for gpu in self._gpus])
        everyone = _all_handles()
        self._xids = Xids(
            {gpu.id: (gpu.whole, gpu.instance) for gpu in self._gpus}, [(one.id, one.handle) for one in everyone]
        )
        self._header = Header(
            source="nvml",
            devices=[gpu.id for gpu in self._gpus],
            period_ns=max((gpu.tiers.period_ns for gpu in self._gpus), default=0),
            unavailable=unavailable | {g.id: g.unavailable | _xid_reason(self._xids, g.id) for g in self._gpus},
            methods={gpu.id: gpu.methods for gpu in self._gpus},
            power_average_seconds={g.id: g.power_average_seconds for g in self._gpus if g.power_average_seconds},
            power_limit_watts={g.id: g.power_limit_watts for g in self._gpus if g.power_limit_watts},
            system=dataclasses.asdict(system(everyone)),
            call_seconds=medians([gpu.call_seconds for gpu in self._gpus]),
            slowed_calls=sorted({name for gpu in self._gpus for name in gpu.slowed}),
        )

    def header(self) -> Header:
        return self._header

    def sweep(self, edge: bool = False) -> list[Sample]:
        """Samples come once a second and at edges, with those in between: decoded in one go they cost less."""
        slow, rare = self._due.take(edge)
        if not slow:
            self._ask_fast()
            return []
        for gpu in self._gpus:
            gpu.ask_first(rare, edge)
        for gpu in self._gpus:
            gpu.ask_rest()
        samples = [sample for gpu in self._gpus for sample in gpu.samples(self._xids, rare)]
        return samples + [Sample(time.monotonic_ns(), id, {}, xids=xids) for id, xids in self._xids.of_others()]

    def _ask_fast(self) -> None:
        """What is done at every tick, in as few steps as it takes: after a pause each costs several times as much."""
        before_ns = time.monotonic_ns()
        for gpu in self._gpus:
            if not gpu.fast:
                continue
            answers = [(reading, reading.ask(handle)) for handle, reading in gpu.fast]
            after_ns = time.monotonic_ns()
            gpu.asked.append(((before_ns + after_ns) // 2, answers))
            before_ns = after_ns

    def close(self) -> None:
        if self._header.reason is None:
            binding().nvmlShutdown()


class _Gpu:
    """One open GPU or MIG instance, and the calls that it answers."""

    def __init__(self, id: str, handle: Any, n_gpus: int) -> None:
        nvml = binding()
        self.id, self._handle = id, handle
        # Some figures of a MIG instance are those of the whole GPU, and are read there.
        parent = or_none(lambda: nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle))
        self.whole = parent if id.startswith("MIG-") and parent is not None else handle
        self.unavailable: dict[str, str] = {}
        self.methods: dict[str, str] = {}
        self.call_seconds: dict[str, float] = {}
        self.slowed: list[str] = []
        self.power_average_seconds: float | None = None
        self.power_limit_watts = or_none(lambda: float(nvml.nvmlDeviceGetEnforcedPowerLimit(self.whole)) / 1e3)
        self.asked: list[tuple[int, list[tuple[ways.Reading, Any]]]] = []
        self._at_edge: Gpm | None = None
        self._shared = OF_THE_PARENT if id.startswith("MIG-") or is_mig(handle) else ()
        self.tiers = self._in_tiers(n_gpus)
        self.fast = self.tiers.fast
        self._asking: tuple[int, list[tuple[ways.Reading, Any]], list[tuple[Any, ways.Reading]]] = (0, [], [])
        self.instance = (
            or_none(lambda: int(nvml.nvmlDeviceGetGpuInstanceId(handle))) if self.whole is not handle else None
        )
        self._gpm = GpmReader(self.whole, self.instance)
        if self._gpm.reason is None:
            self._gpm.reason = self._is_too_slow(n_gpus, "performance monitoring", self._gpm.look)
        if self._gpm.reason:
            self.unavailable["gpm"] = self._gpm.reason
        else:
            self.methods["gpm"] = "mean between the edges of a round"
        self._history = None if self._shared else History(handle)
        if self._history and (
            self._history.reason or self._is_too_slow(n_gpus, "buffer of utilisation", self._history.look)
        ):
            self._history = None
        self._drains_every_second = n_gpus * self.call_seconds.get("buffer of utilisation", 0.0) <= LARGEST_SHARE
        if self._history:
            self.unavailable.pop("utilization_percent", None)
            told = self.methods.get("utilization_percent", "time in which any kernel ran")
            self.methods["utilization_percent"] = f"{told}, from the driver's buffer"

    def ask_first(self, rare: bool, edge: bool) -> None:
        """What is read at the time of the sample: the fast calls, or the first of all where none is fast."""
        due = [*self.fast, *self.tiers.slow, *(self.tiers.rare if rare else [])]
        n_first = len(self.fast) or 1
        before_ns = time.monotonic_ns()
        answers = [(reading, reading.ask(handle)) for handle, reading in due[:n_first]]
        self._asking = ((before_ns + time.monotonic_ns()) // 2, answers, due[n_first:])
        if edge:
            self._at_edge = self._gpm.edge()

    def ask_rest(self) -> None:
        time_ns, answers, due = self._asking
        answers = answers + [(reading, reading.ask(handle)) for handle, reading in due]
        if answers:
            self.asked.append((time_ns, answers))

    def samples(self, xids: Xids, rare: bool) -> list[Sample]:
        """Of all that was asked since the last call; the newest has what does not come at every sweep."""
        samples: list[Sample] = []
        if not self.asked:
            return samples
        for time_ns, answers in self.asked:
            values: dict[str, float | None] = {}
            problems: dict[str, str] = {}
            for reading, answer in answers:
                reading.decode(answer, values, problems)
            samples.append(Sample(time_ns, self.id, values, problems))
        if problem := self._gpm.take_problem():
            problems["gpm"] = problem
        history: Sequence[tuple[int, float]] = ()
        if self._history and (rare or self._drains_every_second):
            history = self._history.drain(samples[-1].values.get("utilization_percent"))
        samples[-1] = samples[-1]._replace(history=history, gpm=self._at_edge, xids=xids.take(self.id))
        self.asked, self._at_edge = [], None
        return samples

    def _is_too_slow(self, n_gpus: int, name: str, call: Callable[[], object]) -> str | None:
        """Why what is read at edges is left out, where that takes so long over all GPUs as no tier of calls may."""
        seconds = timed(self.call_seconds, name, call)
        return too_slow(seconds) if n_gpus * seconds > LARGEST_SHARE * RARE_NS / 1e9 else None

    def _in_tiers(self, n_gpus: int) -> Tiers[tuple[Any, ways.Reading]]:
        """Each way to read where it belongs, or further back where the driver is slow."""

        def seconds(one: tuple[Any, ways.Reading]) -> float:
            handle, reading = one
            return timed(self.call_seconds, reading.name, partial(reading.ask, handle))

        fast, slow = self._choose()
        slow.sort(key=lambda one: not set(one[1].metrics) & set(METRICS))  # these go last where time is short
        rare = [one for one in slow if one[1].name in RARE]
        found = tiers(fast, [one for one in slow if one not in rare], rare, seconds, n_gpus)
        self.slowed = [reading.name for _, reading in fast if all(reading is not kept for _, kept in found.fast)]
        for _, reading in found.left_out:
            for metric in reading.metrics:
                self.methods.pop(metric, None)
                self.unavailable[metric] = too_slow(self.call_seconds[reading.name])
        return found

    def _choose(self) -> tuple[list[tuple[Any, ways.Reading]], list[tuple[Any, ways.Reading]]]:
        """For each metric the first way that answers, or why none does."""
        fast: list[tuple[Any, ways.Reading]] = []
        slow: list[tuple[Any, ways.Reading]] = []
        self.unavailable.update(dict.fromkeys(self._shared, ways.MIG_PARENT))
        for tier, name, fields in (
            (fast, "fields at every sweep", ways.FAST_FIELDS),
            (slow, "fields every second", ways.SLOW_FIELDS),
            (slow, "NVLink fields", ways.LINK_FIELDS),
        ):
            self._add_fields(tier, name, [field for field in fields if field.metric not in self._shared])
        links = active_links(self.whole)
        if links and "nvlink_tx_bytes" not in {*self.methods, *self._shared}:
            self._add_fields(slow, "NVLink fields", ways.per_link_fields(links))
        seconds = 1.0 if ways.power_is_average(self.whole) else None
        for tier, calls in ((fast, ways.fast_calls(seconds)), (slow, ways.slow_calls())):
            for call in calls:
                self._add_call(tier, call)
        return fast, slow

    def _add_fields(self, tier: list[tuple[Any, ways.Reading]], name: str, fields: Sequence[ways.Field]) -> None:
        if reading := ways.answered(self.whole, name, fields, self.unavailable):
            tier.append((self.whole, reading))
            for field in reading.fields:
                self.methods[field.metric] = field.method
                self.unavailable.pop(field.metric, None)

    def _add_call(self, tier: list[tuple[Any, ways.Reading]], call: ways.Call) -> None:
        if call.name in self.methods or call.name in self._shared:
            return
        handle = self._handle if call.name in OF_THE_INSTANCE else self.whole
        try:
            call.get(handle)
        except Exception as error:
            if is_lasting(error):
                self.unavailable.update(dict.fromkeys(call.metrics, explain(error)))
                return
        tier.append((handle, call))
        for metric in call.metrics:
            self.methods[metric] = call.method
            self.unavailable.pop(metric, None)
        self.power_average_seconds = call.average_seconds or self.power_average_seconds


def _all_handles() -> list[Opened]:
    """All GPUs of the machine that may be opened."""
    nvml = binding()
    found = []
    for index in range(or_none(nvml.nvmlDeviceGetCount) or 0):  # the devices themselves are opened by UUID
        with suppress(Exception):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            found.append(Opened(text_of(nvml.nvmlDeviceGetUUID, handle), index, handle))
    return found


def _xid_reason(xids: Xids, id: str) -> dict[str, str]:
    return {"xids": xids.unavailable[id]} if id in xids.unavailable else {}
