"""Xid errors, as the driver tells them: waited for in a thread of its own, because the call blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from ctypes import addressof
from typing import Any

from gpubench.telemetry.nvml import binding, or_none

XID_CRITICAL_ERROR = 8
WAIT_MS = 1000
TIMED_OUT = 10


class Xids:
    """Collects (time in ns, Xid) by device from the moment that it is made. GPUs that tell none have a reason."""

    def __init__(self, handles: Mapping[str, Any]) -> None:
        self._waiting: dict[str, list[tuple[int, int]]] = {id: [] for id in handles}
        self._ids = {addressof(handle.contents): id for id, handle in handles.items()}
        self._lock = threading.Lock()
        self.unavailable: dict[str, str] = {}
        nvml = binding()
        events = or_none(nvml.nvmlEventSetCreate)
        for id, handle in handles.items():
            if or_none(lambda h=handle: nvml.nvmlDeviceRegisterEvents(h, XID_CRITICAL_ERROR, events) or True) is None:  # type: ignore[misc]
                self.unavailable[id] = "this GPU tells no Xid errors"
        if events is not None and len(self.unavailable) < len(handles):
            threading.Thread(target=self._wait, args=(events,), daemon=True).start()

    def take(self, id: str) -> list[tuple[int, int]]:
        """Those of a device since the last call."""
        if not self._waiting.get(id):
            return []
        with self._lock:
            taken, self._waiting[id] = self._waiting[id], []
        return taken

    def _wait(self, events: Any) -> None:
        nvml = binding()
        while True:
            try:
                event = nvml.nvmlEventSetWait_v2(events, WAIT_MS)
            except Exception as error:
                if getattr(error, "value", None) == TIMED_OUT:
                    continue
                return  # the driver was shut down, or lost its GPUs
            id = self._ids.get(addressof(event.device.contents))
            if id is not None:
                with self._lock:
                    self._waiting[id].append((time.monotonic_ns(), int(event.eventData)))
