"""Xid errors, as the driver tells them: waited for in a thread of its own, because the call blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from ctypes import addressof
from typing import Any

from gpubench.telemetry.nvml import binding, or_none

XID_CRITICAL_ERROR = 8
WAIT_MS = 5000
TIMED_OUT = 10
NO_INSTANCE = 2**32 - 1


class Xids:
    """Collects (time in ns, Xid) by device from the moment that it is made. GPUs that tell none have a reason.

    A device is a GPU's handle, and the number of its MIG instance where it is one. What the driver does not blame on
    an instance happened to all of the GPU's. `everyone` are all GPUs, by UUID and handle: what happens to those that
    nobody samples is collected as well, as it may be felt by the others.
    """

    def __init__(self, devices: Mapping[str, tuple[Any, int | None]], everyone: Sequence[tuple[str, Any]] = ()) -> None:
        sampled = {addressof(handle.contents) for handle, _ in devices.values()}
        self._others = {id: handle for id, handle in everyone if addressof(handle.contents) not in sampled}
        devices = {**devices, **{id: (handle, None) for id, handle in self._others.items()}}
        self._waiting: dict[str, list[tuple[int, int]]] = {id: [] for id in devices}
        self._places = {id: (addressof(handle.contents), instance) for id, (handle, instance) in devices.items()}
        self._lock = threading.Lock()
        self.unavailable: dict[str, str] = {}
        nvml = binding()
        events = or_none(nvml.nvmlEventSetCreate)
        for address, handle in {addressof(handle.contents): handle for handle, _ in devices.values()}.items():
            if events is None or not _registers(handle, events):
                reason = "this GPU tells no Xid errors"
                self.unavailable |= {id: reason for id, place in self._places.items() if place[0] == address}
        if events is not None and len(self.unavailable) < len(devices):
            threading.Thread(target=self._wait, args=(events,), daemon=True).start()

    def take(self, id: str) -> list[tuple[int, int]]:
        """Those of a device since the last call."""
        if not self._waiting.get(id):
            return []
        with self._lock:
            taken, self._waiting[id] = self._waiting[id], []
        return taken

    def of_others(self) -> list[tuple[str, list[tuple[int, int]]]]:
        """Those of the GPUs that nobody samples since the last call, by UUID."""
        return [(id, xids) for id in self._others if (xids := self.take(id))]

    def _wait(self, events: Any) -> None:
        nvml = binding()
        while True:
            try:
                event = nvml.nvmlEventSetWait_v2(events, WAIT_MS)
            except Exception as error:
                if getattr(error, "value", None) == TIMED_OUT:
                    continue
                return  # the driver was shut down, or lost its GPUs
            address, at = addressof(event.device.contents), (time.monotonic_ns(), int(event.eventData))
            with self._lock:
                for id, (mine, instance) in self._places.items():
                    if mine == address and (instance is None or event.gpuInstanceId in (instance, NO_INSTANCE)):
                        self._waiting[id].append(at)


def _registers(handle: Any, events: Any) -> bool:
    try:
        binding().nvmlDeviceRegisterEvents(handle, XID_CRITICAL_ERROR, events)
    except Exception:  # why it does not is no matter: this GPU tells none
        return False
    return True
