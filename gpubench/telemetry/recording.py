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

NO_PERMISSION, NOTHING_IN_IT, FUNCTION_NOT_FOUND = 4, 6, 13
GIB, MIB = 2**30, 2**20


def recorded() -> dict[str, Any]:
    """The scenario, asked for in a process of its own. GpubenchError where there is no driver to ask."""
    command = [sys.executable, "-P", "-m", "gpubench.telemetry.recording"]
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
    machine = _Machine(missing)
    scenario = {
        "driver": machine.ask("nvmlSystemGetDriverVersion", lambda: text_of(nvml.nvmlSystemGetDriverVersion)),
        "nvml": machine.ask("nvmlSystemGetNVMLVersion", lambda: text_of(nvml.nvmlSystemGetNVMLVersion)),
        "cuda": machine.ask("nvmlSystemGetCudaDriverVersion_v2", nvml.nvmlSystemGetCudaDriverVersion_v2),
        "gpus": [
            {"errors": {"nvmlDeviceGetHandleByIndex_v2": handle}}
            if isinstance(handle, int)
            else _Answers(handle, missing).gpu(handles)
            for handle in opened
        ],
    }
    if events := machine.ask("nvmlEventSetCreate", nvml.nvmlEventSetCreate):
        machine.ask("nvmlEventSetFree", lambda: nvml.nvmlEventSetFree(events))
    if sample := machine.ask("nvmlGpmSampleAlloc", nvml.nvmlGpmSampleAlloc):
        machine.ask("nvmlGpmSampleFree", lambda: nvml.nvmlGpmSampleFree(sample))
    nvml.nvmlShutdown()
    told = {key: value for key, value in scenario.items() if value is not None}
    fails = ",".join(f"{symbol}={code}" for symbol, code in machine.errors.items())
    return {**told, **({"fail": fails} if fails else {}), "missing": sorted(missing)}


class _Machine:
    """Answers that are of no GPU; the errors' codes are in `errors`."""

    def __init__(self, missing: set[str]) -> None:
        self._missing = missing
        self.errors: dict[str, int] = {}

    def ask(self, symbol: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            _note(symbol, error, self.errors, self._missing)
            return None


def _note(symbol: str, error: Exception, errors: dict[str, int], missing: set[str]) -> None:
    """Keep why a call failed: its function is missing from the driver, or the code that it gave."""
    code = getattr(error, "value", None)
    if code == FUNCTION_NOT_FOUND or type(error).__name__.endswith("LibraryMismatchError"):
        missing.add(symbol)
    elif isinstance(code, int):
        errors[symbol] = code


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
            _note(symbol, error, self._errors, self._missing)
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
        uuid = self.ask("nvmlDeviceGetUUID", call=lambda h: text_of(binding().nvmlDeviceGetUUID, h))
        if uuid:
            self.ask("nvmlDeviceGetHandleByUUID", call=lambda _: binding().nvmlDeviceGetHandleByUUID(uuid))
        return {
            "name": self.ask("nvmlDeviceGetName", call=lambda h: text_of(binding().nvmlDeviceGetName, h)),
            "architecture": self.ask("nvmlDeviceGetArchitecture"),
            "capability": "{}.{}".format(*capability) if capability else None,
            "bus": pci.bus if pci else None,
            "numa": self.ask("nvmlDeviceGetMemoryAffinity", call=near_node),
            "cpus": or_none(lambda: near_cpus(self._handle)),
            "mig": mode[0] if mode else None,
            "mig_instances": [self._instance(part, number) for number, part in enumerate(parts, 1)] or None,
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
        samples = self.ask("nvmlDeviceGetSamples", 1, 0) is not None
        if self._errors.get("nvmlDeviceGetSamples") == NOTHING_IN_IT:
            del self._errors["nvmlDeviceGetSamples"]
        if support and support.isSupportedDevice:
            self.ask("nvmlGpmSampleGet", call=lambda h: nvml.nvmlGpmSampleGet(h, nvml.nvmlGpmSampleAlloc()))
        self.ask("nvmlDeviceGetTemperatureV", 0)
        self.ask("nvmlDeviceGetCurrentClocksEventReasons")
        self.ask("nvmlDeviceGetMPSComputeRunningProcesses_v3")
        self.ask("nvmlDeviceGetPcieReplayCounter")
        fabric = self.ask("nvmlDeviceGetGpuFabricInfoV", call=fabric_of)
        processes = self.ask("nvmlDeviceGetComputeRunningProcesses_v3")
        if processes is None:
            processes = self.ask("nvmlDeviceGetComputeRunningProcesses_v2") or []
        return {
            "memory_gib": (together or apart).total / GIB if together or apart else None,
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
        self.ask("nvmlDeviceGetNvLinkState", 0)
        if isinstance(self._errors.get("nvmlDeviceGetNvLinkState"), int) and self._counts_links():
            # The links that are counted are there, though their state is not told.
            return {"nvlinks": 1, "levels": self._levels(handles), "p2p_statuses": self._p2p(handles)}
        links = active_links(mine)
        if links:
            self.ask("nvmlDeviceGetNvLinkRemoteDeviceType", links[0])
            self.ask("nvmlDeviceGetNvLinkRemotePciInfo_v2", links[0], call=peer_of)
        switched = any(or_none(lambda n=n: is_to_switch(mine, n)) for n in links)  # type: ignore[misc]
        buses = {or_none(lambda h=h: str(nvml.nvmlDeviceGetPciInfo(h).busId)): i for i, h in enumerate(handles) if h}  # type: ignore[misc]
        return {
            "nvlinks": len(links),
            "nvlink_version": or_none(lambda: nvml.nvmlDeviceGetNvLinkVersion(mine, 0)),
            "nvswitch": int(switched),
            "link_peers": None
            if switched
            else [buses.get(or_none(lambda n=n: peer_of(mine, n)), 0) for n in links] or None,  # type: ignore[misc]
            "levels": self._levels(handles),
            "p2p_statuses": self._p2p(handles),
        }

    def _levels(self, handles: list[Any | None]) -> list[int] | None:
        return self._each(handles, "nvmlDeviceGetTopologyCommonAncestor")

    def _p2p(self, handles: list[Any | None]) -> list[int] | None:
        return self._each(handles, "nvmlDeviceGetP2PStatus", 0)

    def _each(self, handles: list[Any | None], symbol: str, *arguments: int) -> list[int] | None:
        """What the driver answers for the GPU and each of the others."""
        if len(handles) < 2:
            return None
        answers = [0 if h in (self._handle, None) else self.ask(symbol, h, *arguments) for h in handles]
        return None if None in answers else answers

    def _counts_links(self) -> bool:
        answer = or_none(lambda: binding().nvmlDeviceGetFieldValues(self._handle, [(138, ALL_LINKS)]))
        return answer is not None and answer[0].nvmlReturn == 0

    def _instance(self, part: Any, number: int) -> str:
        """What a MIG instance is, its numbers, and MiB in all and in use: "3g.40gb 1 0 40192 37"."""
        of_part = _Answers(part, self._missing)
        name = of_part.ask("nvmlDeviceGetName", call=lambda h: text_of(binding().nvmlDeviceGetName, h)) or "unknown"
        gpu_instance = of_part.ask("nvmlDeviceGetGpuInstanceId")
        compute_instance = of_part.ask("nvmlDeviceGetComputeInstanceId")
        of_part.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle")
        total, used = or_none(lambda: memory_bytes(part)) or (0, 0)
        self._errors |= of_part._errors
        numbers = number if gpu_instance is None else gpu_instance, compute_instance or 0
        sample = or_none(binding().nvmlGpmSampleAlloc) if self.ask("nvmlGpmQueryDeviceSupport") else None
        if gpu_instance is not None and sample is not None:
            self.ask("nvmlGpmMigSampleGet", call=lambda h: binding().nvmlGpmMigSampleGet(h, gpu_instance, sample))
        return " ".join([name.split()[-1], *map(str, numbers), str(total // MIB), str(used // MIB)])

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


def _registers_events(handle: Any) -> bool:
    nvml = binding()
    events = nvml.nvmlEventSetCreate()
    nvml.nvmlDeviceRegisterEvents(handle, XID_CRITICAL_ERROR, events)
    or_none(lambda: nvml.nvmlEventSetFree(events))
    return True


if __name__ == "__main__":
    try:
        print(json.dumps(record(), indent=1))
    except Exception as error:
        sys.exit(explain(error))
