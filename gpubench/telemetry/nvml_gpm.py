"""GPU performance monitoring, on Hopper and newer: how busy the parts of a GPU were between two times.

It is the difference of two samples of the GPU's own counters, so that one sample at each edge of a round gives the
round's mean exactly, without polling (nvml.h, "GPM").
"""

from __future__ import annotations

import time
from contextlib import suppress
from math import isfinite
from typing import Any

from gpubench.telemetry.nvml import binding, explain
from gpubench.telemetry.source import Gpm

MIB = 2**20
# Number in nvml.h, name, factor. 60 is what is received, 61 what is sent, in MiB/s as PCIe's.
METRICS = [
    (2, "sm_active_percent", 1.0),
    (3, "sm_occupancy_percent", 1.0),
    (5, "tensor_active_percent", 1.0),
    (10, "dram_bandwidth_percent", 1.0),
    (20, "pcie_tx_bytes_per_second", MIB),
    (21, "pcie_rx_bytes_per_second", MIB),
    (60, "nvlink_rx_bytes_per_second", MIB),
    (61, "nvlink_tx_bytes_per_second", MIB),
]
SHORTEST_NS = 100_000_000  # the GPU's own samples are that far apart


class GpmReader:
    """Of one GPU, or of one MIG instance: then `handle` is the whole GPU and `instance` its number."""

    def __init__(self, handle: Any, instance: int | None = None) -> None:
        nvml = binding()
        self._handle, self._instance = handle, instance
        self._last_ns: int | None = None
        self._problem: str | None = None
        self.reason: str | None = None
        try:
            if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                self.reason = "this GPU has no performance monitoring through NVML, which takes Hopper or newer"
                return
            self._last, self._next = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
            self._get = nvml.c_nvmlGpmMetricsGet_t()  # 19 KB: made once
            self._get.version, self._get.numMetrics = 1, len(METRICS)
            self._take(self._next)
        except Exception as error:
            self.reason = explain(error)

    def edge(self) -> Gpm | None:
        """The means since the last edge; None at the first, and where they are too close for a mean."""
        if self.reason is not None:
            return None
        now_ns = time.monotonic_ns()
        try:
            self._take(self._next)
        except Exception as error:
            self._last_ns, self._problem = None, explain(error)
            return None
        before_ns, self._last_ns = self._last_ns, now_ns
        self._last, self._next = self._next, self._last
        if before_ns is None or now_ns - before_ns < SHORTEST_NS:
            return None
        self._get.sample1, self._get.sample2 = self._next, self._last
        for metric, (number, _, _) in zip(self._get.metrics, METRICS, strict=False):
            metric.metricId = number
        try:
            binding().nvmlGpmMetricsGet(self._get)
        except Exception as error:
            self._problem = explain(error)
            return None
        answers = zip(self._get.metrics, METRICS, strict=False)
        told = {name: metric.value * factor for metric, (_, name, factor) in answers if metric.nvmlReturn == 0}
        values = {name: value for name, value in told.items() if isfinite(value)}
        if len(values) < len(told):
            self._problem = f"NVML gave what is no number for {', '.join(sorted(set(told) - set(values)))}"
        return Gpm(start_ns=before_ns, end_ns=now_ns, values=values)

    def look(self) -> None:
        """One sample, to see how long that takes."""
        with suppress(Exception):
            self._take(self._next)

    def take_problem(self) -> str | None:
        """Why something was missing at an edge since the last call."""
        problem, self._problem = self._problem, None
        return problem

    def _take(self, sample: Any) -> Any:
        nvml = binding()
        if self._instance is None:
            return nvml.nvmlGpmSampleGet(self._handle, sample)
        return nvml.nvmlGpmMigSampleGet(self._handle, self._instance, sample)
