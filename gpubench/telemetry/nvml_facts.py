"""What the GPUs are and are set to, and how they are joined: read once, so that a reader can judge the numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from ctypes import byref
from dataclasses import dataclass
from typing import Any, TypeVar

from gpubench.spec.case import share_id
from gpubench.spec.record import GpuFacts, GpuSystem
from gpubench.telemetry.attribution import event_reasons
from gpubench.telemetry.nvml import (
    binding,
    binding_version,
    explain,
    is_lasting,
    is_mig,
    mig_instances,
    or_none,
    text_of,
)
from gpubench.telemetry.nvml_processes import as_processes, compute_processes
from gpubench.telemetry.nvml_ways import CLOCK_MEMORY, CLOCK_SM, CORRECTED, UNCORRECTED, VOLATILE

T = TypeVar("T")
ARCHITECTURES = {
    2: "Kepler", 3: "Maxwell", 4: "Pascal", 5: "Volta", 6: "Turing", 7: "Ampere", 8: "Ada", 9: "Hopper", 10: "Blackwell"
}  # fmt: skip
COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}  # 0: two GPUs on one board
FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
P2P = {0: "OK", 1: "chipset", 2: "GPU", 3: "topology", 4: "disabled", 5: "not supported"}
MOST_LINKS = 18
FABRIC_COMPLETED = 3
NODE_SCOPE = 0
TO_A_SWITCH = 2
READ = 0  # the binding's NVML_P2P_CAPS_INDEX_READ is a tuple by mistake


@dataclass(frozen=True)
class Opened:
    """A GPU that may be opened: its UUID, NVML's number of it, and its handle."""

    id: str
    index: int
    handle: Any


def system(opened: Sequence[Opened]) -> GpuSystem:
    """Of all GPUs that may be opened; never raises."""
    nvml = binding()
    handles = [one.handle for one in opened]
    links = [active_links(handle) for handle in handles]
    gpus = [gpu_facts(one, own) for one, own in zip(opened, links, strict=True)]
    joined = [_links_by_peer(handle, own) for handle, own in zip(handles, links, strict=True)]
    return GpuSystem(
        driver=or_none(lambda: text_of(nvml.nvmlSystemGetDriverVersion)),
        cuda=or_none(lambda: cuda_version(nvml.nvmlSystemGetCudaDriverVersion_v2())),
        nvml=or_none(lambda: text_of(nvml.nvmlSystemGetNVMLVersion)),
        binding=binding_version(),
        cuda_device_order=os.environ.get("CUDA_DEVICE_ORDER"),
        cuda_visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
        mps_device_enumeration=os.environ.get("NVML_MPS_DEVICE_ENUMERATION"),
        gpus=gpus,
        links=[
            ["X" if a is b else _link(a, b, gpus[i], gpus[j], joined[i]) for j, b in enumerate(handles)]
            for i, a in enumerate(handles)
        ],
        p2p=[["X" if a is b else _p2p(a, b) for b in handles] for a in handles],
    )


def gpu_facts(opened: Opened, links: Sequence[int]) -> GpuFacts:
    """Each fact, or why the driver does not tell it; never raises. `links` are its active NVLinks."""
    nvml, handle = binding(), opened.handle
    unavailable: dict[str, str] = {}

    def fact(name: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except Exception as error:
            unavailable[name] = explain(error)
            return None

    def clock(name: str, call: Any, kind: int) -> int | None:
        return fact(name, lambda: int(call(handle, kind)))

    def errors(name: str, kind: int) -> int | None:
        return fact(name, lambda: int(nvml.nvmlDeviceGetTotalEccErrors(handle, kind, VOLATILE)))

    memory = fact("memory_used_bytes", lambda: memory_bytes(handle))
    fabric = fact("fabric", lambda: fabric_of(handle))
    return GpuFacts(
        id=opened.id,
        name=or_none(lambda: text_of(nvml.nvmlDeviceGetName, handle)) or "unnamed GPU",
        index=opened.index,
        bus_id=fact("bus_id", lambda: str(nvml.nvmlDeviceGetPciInfo(handle).busId)),
        architecture=fact("architecture", lambda: ARCHITECTURES[nvml.nvmlDeviceGetArchitecture(handle)]),
        capability=fact("capability", lambda: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle))),
        numa_node=fact("numa_node", lambda: near_node(handle)),
        cpus=fact("cpus", lambda: near_cpus(handle)),
        power_limit_watts=fact("power_limit_watts", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3),
        power_default_limit_watts=fact(
            "power_default_limit_watts", lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1e3
        ),
        power_most_watts=fact(
            "power_most_watts", lambda: nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)[1] / 1e3
        ),
        sm_clock_max_mhz=clock("sm_clock_max_mhz", nvml.nvmlDeviceGetMaxClockInfo, CLOCK_SM),
        memory_clock_max_mhz=clock("memory_clock_max_mhz", nvml.nvmlDeviceGetMaxClockInfo, CLOCK_MEMORY),
        boost_sm_clock_max_mhz=clock("boost_sm_clock_max_mhz", nvml.nvmlDeviceGetMaxCustomerBoostClock, CLOCK_SM),
        application_sm_clock_mhz=clock("application_sm_clock_mhz", nvml.nvmlDeviceGetApplicationsClock, CLOCK_SM),
        default_application_sm_clock_mhz=clock(
            "default_application_sm_clock_mhz", nvml.nvmlDeviceGetDefaultApplicationsClock, CLOCK_SM
        ),
        clock_event_reasons=fact("clock_event_reasons", lambda: event_reasons(_event_bits(handle))) or [],
        ecc=fact("ecc", lambda: bool(nvml.nvmlDeviceGetEccMode(handle)[0])),
        mig=fact("mig", lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0])),
        mig_instances=fact("mig_instances", lambda: _instance_ids(handle)) or [],
        persistence=fact("persistence", lambda: bool(nvml.nvmlDeviceGetPersistenceMode(handle))),
        compute_mode=fact("compute_mode", lambda: COMPUTE_MODES[nvml.nvmlDeviceGetComputeMode(handle)]),
        pcie_generation_max=fact("pcie_generation_max", lambda: int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle))),
        pcie_gpu_generation_max=fact(
            "pcie_gpu_generation_max", lambda: int(nvml.nvmlDeviceGetGpuMaxPcieLinkGeneration(handle))
        ),
        pcie_width=fact("pcie_width", lambda: int(nvml.nvmlDeviceGetCurrPcieLinkWidth(handle))),
        pcie_width_max=fact("pcie_width_max", lambda: int(nvml.nvmlDeviceGetMaxPcieLinkWidth(handle))),
        nvlinks=len(links),
        nvlink_version=fact("nvlink_version", lambda: int(nvml.nvmlDeviceGetNvLinkVersion(handle, 0))),
        nvswitch=fact("nvswitch", lambda: any(is_to_switch(handle, link) for link in links)),
        fabric=_fabric_state(fabric) if fabric else None,
        fabric_clique=fabric.cliqueId if fabric and fabric.state == FABRIC_COMPLETED else None,
        fabric_degraded=_is_degraded(fabric.healthMask) if fabric else None,
        gpm=fact("gpm", lambda: bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)),
        memory_bytes=memory[0] if memory else None,
        memory_used_bytes=memory[1] if memory else None,
        utilization_percent=fact("utilization_percent", lambda: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
        ecc_corrected=errors("ecc_corrected", CORRECTED),
        ecc_uncorrected=errors("ecc_uncorrected", UNCORRECTED),
        remap_pending=fact("remap_pending", lambda: bool(nvml.nvmlDeviceGetRemappedRows(handle)[2])),
        processes=fact("processes", lambda: compute_processes(handle)) or [],
        mps_processes=fact("mps_processes", lambda: as_processes(nvml.nvmlDeviceGetMPSComputeRunningProcesses(handle)))
        or [],
        unavailable=unavailable,
    )


def _instance_ids(handle: Any) -> list[str]:
    if not is_mig(handle):
        return []
    return [text_of(binding().nvmlDeviceGetUUID, part) for part in mig_instances(handle)]


def memory_bytes(handle: Any) -> tuple[int, int]:
    """Total and used, in bytes; used without what the driver reserves, where it tells."""
    nvml = binding()
    info = or_none(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    info = info or nvml.nvmlDeviceGetMemoryInfo(handle)
    return int(info.total), int(info.used)


def near_node(handle: Any) -> int | None:
    """The first NUMA node near the GPU. nvmlDeviceGetNumaNodeId is of GPUs that are nodes themselves, as on Grace."""
    (nodes,) = binding().nvmlDeviceGetMemoryAffinity(handle, 1, NODE_SCOPE)
    return (nodes & -nodes).bit_length() - 1 if nodes else None


def _event_bits(handle: Any) -> int:
    nvml = binding()
    bits = or_none(lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) if bits is None else bits)


def fabric_of(handle: Any) -> Any:
    """The GPU's place in a fabric of NVSwitches: state, clique, health."""
    nvml = binding()
    info = nvml.c_nvmlGpuFabricInfoV_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(info))
    return info


def _fabric_state(info: Any) -> str | None:
    failed = info.state == FABRIC_COMPLETED and info.status != 0
    return "failed" if failed else FABRIC_STATES.get(info.state)


def _is_degraded(health: int) -> bool | None:
    """Whether the fabric's bandwidth is: bits 0 and 1 (nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW)."""
    return {1: True, 2: False}.get(health & 3)


def near_cpus(handle: Any) -> str | None:
    """The logical CPUs near the GPU: "0-15,32-47"."""
    words = (os.cpu_count() or 1) // 64 + 16  # the driver fills as many as it is given
    mask = binding().nvmlDeviceGetCpuAffinity(handle, words)
    cpus = tuple(64 * i + bit for i, word in enumerate(mask) for bit in range(64) if word >> bit & 1)
    return share_id(cpus).partition(" ")[2] if cpus else None


def active_links(handle: Any) -> list[int]:
    """A GPU that has no NVLink answers "not supported" to the first one, which is none."""
    nvml = binding()
    links = []
    for link in range(MOST_LINKS):
        try:
            links += [link] if nvml.nvmlDeviceGetNvLinkState(handle, link) else []
        except Exception as error:
            if link == 0 and is_lasting(error):
                return []
    return links


def is_to_switch(handle: Any, link: int) -> bool:
    return bool(binding().nvmlDeviceGetNvLinkRemoteDeviceType(handle, link) == TO_A_SWITCH)


def _links_by_peer(handle: Any, links: Sequence[int]) -> dict[str, int]:
    """How many links go to each PCI bus id."""
    peers: dict[str, int] = {}
    for link in links:
        if peer := or_none(lambda n=link: peer_of(handle, n)):  # type: ignore[misc]
            peers[peer] = peers.get(peer, 0) + 1
    return peers


def peer_of(handle: Any, link: int) -> str:
    return str(binding().nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)


def _link(a: Any, b: Any, one: GpuFacts, other: GpuFacts, by_peer: dict[str, int]) -> str:
    """The best way between two GPUs. All links to a switch reach every GPU at it."""
    if one.nvswitch and other.nvswitch:
        return f"NV{one.nvlinks}"
    if n := by_peer.get(other.bus_id or "", 0):
        return f"NV{n}"
    level = or_none(lambda: int(binding().nvmlDeviceGetTopologyCommonAncestor(a, b)))
    return "?" if level is None else ANCESTORS.get(level, "?")


def _p2p(a: Any, b: Any) -> str:
    status = or_none(lambda: int(binding().nvmlDeviceGetP2PStatus(a, b, READ)))
    return "?" if status is None else P2P.get(status, "?")


def cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"  # 12080 is 12.8
