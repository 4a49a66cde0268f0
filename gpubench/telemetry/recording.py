"""What this machine's driver answers to each call, as a scenario that the tests' fake driver can replay.

Who the GPUs are is left out: no UUIDs, no serial numbers, no process ids. `python -m gpubench.telemetry.recording`
prints it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from gpubench.spec.errors import GpubenchError
from gpubench.telemetry.nvml import DISCOVERY_SECONDS, binding, explain, mig_instances, or_none, text_of
from gpubench.telemetry.nvml_events import XID_CRITICAL_ERROR
from gpubench.telemetry.nvml_facts import (
    active_links,
    fabric_of,
    is_to_switch,
    memory_bytes,
    near_cpus,
    near_node,
    peer_of,
)
from gpubench.telemetry.nvml_ways import ALL_LINKS, FAST_FIELDS, LINK_FIELDS, SLOW_FIELDS, per_link_fields

NO_PERMISSION, FUNCTION_NOT_FOUND = 4, 13
GIB, MIB = 2**30, 2**20


def recorded() -> dict[str, Any]:
    """The scenario, asked for in a process of its own. GpubenchError where there is no driver to ask."""
    command = [sys.executable, "-m", "gpubench.telemetry.recording"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DISCOVERY_SECONDS, check=True
        )
        scenario: dict[str, Any] = json.loads(done.stdout)
        return scenario
    except subprocess.TimeoutExpired:
        raise GpubenchError("NVML did not answer; does `nvidia-smi` hang as well?") from None
    except (subprocess.CalledProcessError, ValueError) as error:
        last = getattr(error, "stderr", b"").decode(errors="replace").strip().splitlines()[-1:]
        raise GpubenchError(f"There is no GPU to record: {' '.join(last)}") from None


def record() -> dict[str, Any]:
    """The scenario, read in this process."""
    nvml = binding()
    nvml.nvmlInit()
    opened = [_open(index) for index in range(nvml.nvmlDeviceGetCount())]
    handles = [None if isinstance(handle, int) else handle for handle in opened]
    missing: set[str] = set()
    scenario = {
        "driver": text_of(nvml.nvmlSystemGetDriverVersion),
        "nvml": text_of(nvml.nvmlSystemGetNVMLVersion),
        "cuda": nvml.nvmlSystemGetCudaDriverVersion_v2(),
        "gpus": [
            {"errors": {"nvmlDeviceGetHandleByIndex_v2": handle}}
            if isinstance(handle, int)
            else _Answers(handle, missing).gpu(handles)
            for handle in opened
        ],
    }
    nvml.nvmlShutdown()
    return {**scenario, "missing": sorted(missing)}


def _open(index: int) -> Any:
    """The handle, or the error's code: a container may not open all GPUs."""
    try:
        return binding().nvmlDeviceGetHandleByIndex(index)
    except Exception as error:
        return getattr(error, "value", NO_PERMISSION)


class _Answers:
    """One GPU's answers; a symbol that the driver lacks goes into `missing`."""

    def __init__(self, handle: Any, missing: set[str]) -> None:
        self._handle, self._missing = handle, missing
        self._errors: dict[str, int] = {}

    def ask(self, symbol: str, *arguments: Any, call: Callable[..., Any] | None = None) -> Any:
        """What the function of the binding answers that is called like the symbol, or `call`. None where it fails."""
        try:
            return (call or getattr(binding(), symbol))(self._handle, *arguments)
        except Exception as error:
            code = getattr(error, "value", None)
            if code == FUNCTION_NOT_FOUND or type(error).__name__.endswith("LibraryMismatchError"):
                self._missing.add(symbol)
            elif isinstance(code, int):
                self._errors[symbol] = code
            return None

    def gpu(self, handles: list[Any | None]) -> dict[str, Any]:
        """Among all GPUs of the machine; None are those that may not be opened."""
        settings = {
            **self._identity(),
            **self._settings(),
            **self._state(),
            **self._joined(handles),
            "field_errors": self._field_errors(),
        }
        return {**{key: value for key, value in settings.items() if value is not None}, "errors": self._errors}

    def _identity(self) -> dict[str, Any]:
        pci = self.ask("nvmlDeviceGetPciInfo_v3")
        capability = self.ask("nvmlDeviceGetCudaComputeCapability")
        mode = self.ask("nvmlDeviceGetMigMode")
        parts = mig_instances(self._handle) if mode and mode[0] else []
        return {
            "name": or_none(lambda: text_of(binding().nvmlDeviceGetName, self._handle)),
            "architecture": self.ask("nvmlDeviceGetArchitecture"),
            "capability": "{}.{}".format(*capability) if capability else None,
            "bus": pci.bus if pci else None,
            "numa": self.ask("nvmlDeviceGetMemoryAffinity", call=near_node),
            "cpus": or_none(lambda: near_cpus(self._handle)),
            "mig": mode[0] if mode else None,
            "mig_instances": list(filter(None, (or_none(lambda p=p: _instance(p)) for p in parts))) or None,  # type: ignore[misc]
        }

    def _settings(self) -> dict[str, Any]:
        sm, memory = 1, 2
        constraints = self.ask("nvmlDeviceGetPowerManagementLimitConstraints")
        ecc = self.ask("nvmlDeviceGetEccMode")
        return {
            "persistence": self.ask("nvmlDeviceGetPersistenceMode"),
            "compute_mode": self.ask("nvmlDeviceGetComputeMode"),
            "power_limit_mw": self.ask("nvmlDeviceGetEnforcedPowerLimit"),
            "default_power_limit_mw": self.ask("nvmlDeviceGetPowerManagementDefaultLimit"),
            "min_power_limit_mw": constraints[0] if constraints else None,
            "max_power_limit_mw": constraints[1] if constraints else None,
            "max_sm_clock_mhz": self.ask("nvmlDeviceGetMaxClockInfo", sm),
            "max_memory_clock_mhz": self.ask("nvmlDeviceGetMaxClockInfo", memory),
            "application_sm_clock_mhz": self.ask("nvmlDeviceGetApplicationsClock", sm),
            "default_application_sm_clock_mhz": self.ask("nvmlDeviceGetDefaultApplicationsClock", sm),
            "boost_sm_clock_mhz": self.ask("nvmlDeviceGetMaxCustomerBoostClock", sm),
            "ecc": ecc[0] if ecc else None,
            "pcie_max_generation": self.ask("nvmlDeviceGetMaxPcieLinkGeneration"),
            "pcie_gpu_max_generation": self.ask("nvmlDeviceGetGpuMaxPcieLinkGeneration"),
            "pcie_max_width": self.ask("nvmlDeviceGetMaxPcieLinkWidth"),
        }

    def _state(self) -> dict[str, Any]:
        """As it was at the time: the replay stands still there."""
        nvml = binding()
        apart = self.ask("nvmlDeviceGetMemoryInfo_v2", nvml.nvmlMemory_v2, call=nvml.nvmlDeviceGetMemoryInfo)
        together = self.ask("nvmlDeviceGetMemoryInfo")
        used = apart.used if apart else together.used if together else 0
        milliwatts = self.ask("nvmlDeviceGetPowerUsage")
        self.ask("nvmlDeviceGetTotalEnergyConsumption")
        self.ask("nvmlDeviceGetTemperature", 0)
        celsius = or_none(lambda: nvml.nvmlDeviceGetTemperature(self._handle, 0))
        support = self.ask("nvmlGpmQueryDeviceSupport")
        rows = self.ask("nvmlDeviceGetRemappedRows")
        generation = self.ask("nvmlDeviceGetCurrPcieLinkGeneration")
        busy = self.ask("nvmlDeviceGetUtilizationRates")
        samples = or_none(lambda: nvml.nvmlDeviceGetSamples(self._handle, 1, 0)) is not None
        self.ask("nvmlDeviceGetTemperatureV", 0)
        self.ask("nvmlDeviceGetCurrentClocksEventReasons")
        self.ask("nvmlDeviceGetMPSComputeRunningProcesses_v3")
        self.ask("nvmlDeviceGetPcieReplayCounter")
        fabric = self.ask("nvmlDeviceGetGpuFabricInfoV", call=fabric_of)
        processes = self.ask("nvmlDeviceGetComputeRunningProcesses_v3")
        if processes is None:
            processes = self.ask("nvmlDeviceGetComputeRunningProcesses_v2") or []
        return {
            "memory_gib": together.total / GIB if together else None,
            "used_gib": used / GIB,
            "reserved_gib": apart.reserved / GIB if apart else 0,
            "idle_watts": milliwatts / 1e3 if milliwatts is not None else None,
            "busy_watts": milliwatts / 1e3 if milliwatts is not None else None,
            "busy_share": busy.gpu / 100 if busy else 0,
            "sm_clock_mhz": self.ask("nvmlDeviceGetClockInfo", 1),
            "memory_clock_mhz": self.ask("nvmlDeviceGetClockInfo", 2),
            "celsius": celsius,
            "idle_reasons": or_none(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)),
            "pcie_generation": generation,
            "pcie_idle_generation": generation,
            "pcie_width": self.ask("nvmlDeviceGetCurrPcieLinkWidth"),
            "corrected": self.ask("nvmlDeviceGetTotalEccErrors", 0, 0),
            "uncorrected": self.ask("nvmlDeviceGetTotalEccErrors", 1, 0),
            "remapped": rows[0] + rows[1] if rows else None,
            "remap_pending": rows[2] if rows else None,
            "gpm": support.isSupportedDevice if support else 0,
            "samples": int(samples),
            "events": int(or_none(lambda: _registers_events(self._handle)) or 0),
            "fabric_state": fabric.state if fabric else None,
            "fabric_status": fabric.status if fabric else None,
            "fabric_clique": fabric.cliqueId if fabric else None,
            "fabric_health": fabric.healthMask if fabric else None,
            "processes": [f"{n + 1} {p.usedGpuMemory or 0}" for n, p in enumerate(processes)] or None,
        }

    def _joined(self, handles: list[Any | None]) -> dict[str, Any]:
        nvml, mine = binding(), self._handle
        links = active_links(mine)
        switched = any(or_none(lambda n=n: is_to_switch(mine, n)) for n in links)  # type: ignore[misc]
        buses = {str(nvml.nvmlDeviceGetPciInfo(handle).busId): i for i, handle in enumerate(handles) if handle}
        return {
            "nvlinks": len(links),
            "nvlink_version": or_none(lambda: nvml.nvmlDeviceGetNvLinkVersion(mine, 0)),
            "nvswitch": int(switched),
            "link_peers": None if switched else [buses.get(peer_of(mine, n), 0) for n in links] or None,
            "levels": _each(handles, mine, lambda other: nvml.nvmlDeviceGetTopologyCommonAncestor(mine, other)),
            "p2p_statuses": _each(handles, mine, lambda other: nvml.nvmlDeviceGetP2PStatus(mine, other, 0)),
        }

    def _field_errors(self) -> dict[str, int]:
        """The error codes of the fields that are asked for, by number."""
        errors = {}
        fields = [*FAST_FIELDS, *SLOW_FIELDS, *LINK_FIELDS, *per_link_fields([0])]
        for number in sorted({field.number for field in fields}):
            scope = ALL_LINKS if number in (138, 139) else 0
            answer = self.ask("nvmlDeviceGetFieldValues", [(number, scope)])
            if answer is not None and answer[0].nvmlReturn:
                errors[str(number)] = int(answer[0].nvmlReturn)
            elif answer is None and "nvmlDeviceGetFieldValues" in self._errors:
                errors[str(number)] = self._errors.pop("nvmlDeviceGetFieldValues")
        return errors


def _instance(part: Any) -> str:
    """What a MIG instance is, its numbers, and MiB in all and in use: "3g.40gb 1 0 40192 37"."""
    nvml = binding()
    name = text_of(nvml.nvmlDeviceGetName, part).split()[-1]
    numbers = nvml.nvmlDeviceGetGpuInstanceId(part), nvml.nvmlDeviceGetComputeInstanceId(part)
    total, used = memory_bytes(part)
    return " ".join([name, *map(str, numbers), str(total // MIB), str(used // MIB)])


def _registers_events(handle: Any) -> bool:
    nvml = binding()
    events = nvml.nvmlEventSetCreate()
    nvml.nvmlDeviceRegisterEvents(handle, XID_CRITICAL_ERROR, events)
    nvml.nvmlEventSetFree(events)
    return True


def _each(handles: list[Any | None], mine: Any, ask: Callable[[Any], int]) -> list[int] | None:
    answers = [0 if handle in (mine, None) else or_none(lambda h=handle: ask(h)) for handle in handles]  # type: ignore[misc]
    return None if None in answers or len(handles) < 2 else [answer for answer in answers if answer is not None]


if __name__ == "__main__":
    try:
        print(json.dumps(record(), indent=1))
    except Exception as error:
        sys.exit(explain(error))
