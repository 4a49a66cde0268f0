"""What the GPUs are and are set to, and how they are joined, as tables: what all have in common stands apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpubench.report.words import DASH, clean, gib
from gpubench.spec.record import GpuFacts, GpuProcess, GpuSystem

LINKS = {
    "NV": "NV#: that many NVLinks",
    "PIX": "PIX: one PCIe switch between",
    "PXB": "PXB: several PCIe switches",
    "PHB": "PHB: a PCIe host bridge",
    "NODE": "NODE: host bridges of one NUMA node",
    "SYS": "SYS: between NUMA nodes",
}


@dataclass(frozen=True)
class Matrix:
    """A row and a column for each GPU, headed by its number."""

    heads: list[str]
    rows: list[list[str]]
    legend: str


@dataclass(frozen=True)
class Gpus:
    """`common` is what all GPUs have alike, `differing` the rest: a name, and a value for each of `heads`."""

    software: dict[str, str]
    heads: list[str]
    common: dict[str, str]
    differing: dict[str, list[str]]
    links: Matrix | None
    p2p: str | Matrix


def told(system: GpuSystem) -> Gpus:
    """Everything as text that may stand in a page."""
    values = {name: [clean(read(gpu)) for gpu in system.gpus] for name, read in FACTS.items()}
    heads = [f"GPU {gpu.index}" for gpu in system.gpus]
    return Gpus(
        software=_software(system),
        heads=heads,
        common={name: each[0] for name, each in values.items() if len(set(each)) == 1 and each[0] != DASH},
        differing={name: each for name, each in values.items() if len(set(each)) > 1},
        links=_matrix(heads, system.links, _link_legend(system.links)) if len(heads) > 1 else None,
        p2p=_p2p(heads, system.p2p),
    )


def _software(system: GpuSystem) -> dict[str, str]:
    known = {
        "NVML": system.nvml,
        "nvidia-ml-py": system.binding,
        "CUDA_VISIBLE_DEVICES": system.cuda_visible_devices,
        "CUDA_DEVICE_ORDER": system.cuda_device_order,
        "NVML_MPS_DEVICE_ENUMERATION": system.mps_device_enumeration,
    }
    return {name: clean(value) or "set to nothing" for name, value in known.items() if value is not None}


def _p2p(heads: Sequence[str], answers: list[list[str]]) -> str | Matrix:
    pairs = {answer for i, row in enumerate(answers) for j, answer in enumerate(row) if i != j}
    if len(heads) < 2 or not pairs:
        return ""
    if len(pairs) > 1:
        return _matrix(heads, answers, "OK: they reach each other's memory (P2P); else why not")
    [answer] = pairs
    if answer == "OK":
        return "all reach each other's memory (P2P)"
    return clean(f"none reaches another's memory (P2P): {answer}")


def _matrix(heads: Sequence[str], rows: list[list[str]], legend: str) -> Matrix:
    return Matrix(
        [head.removeprefix("GPU ") for head in heads], [[clean(cell) for cell in row] for row in rows], legend
    )


def _link_legend(links: list[list[str]]) -> str:
    seen = {"NV" if link.startswith("NV") else link for row in links for link in row}
    return "; ".join(meaning for link, meaning in LINKS.items() if link in seen)


def _fact(gpu: GpuFacts, name: str, unit: str = "") -> str:
    """The value, or a dash with the driver's reason."""
    value = getattr(gpu, name)
    if value is None:
        reason = gpu.unavailable.get(name)
        return f"{DASH} ({reason})" if reason else DASH
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,g} {unit}" if unit else str(value)


def _plain(name: str, unit: str = "") -> Callable[[GpuFacts], str]:
    return lambda gpu: _fact(gpu, name, unit)


def _of(name: str, unit: str, **others: str) -> Callable[[GpuFacts], str]:
    """A value with what else it could be, where that is known and differs: `700 W (by default 600 W)`."""

    def read(gpu: GpuFacts) -> str:
        values = {other: getattr(gpu, other) for other in others}
        more = [
            f"{others[other].replace('_', ' ')} {value:,g} {unit}"
            for other, value in values.items()
            if value is not None and value != getattr(gpu, name)
        ]
        return _fact(gpu, name, unit) + (f" ({', '.join(more)})" if more else "")

    return read


def _pcie(gpu: GpuFacts) -> str:
    lanes = DASH if gpu.pcie_width is None else f"x{gpu.pcie_width}"
    if gpu.pcie_width_max not in (None, gpu.pcie_width):
        lanes += f" of x{gpu.pcie_width_max}"
    generation = _fact(gpu, "pcie_generation_max")
    if gpu.pcie_gpu_generation_max not in (None, gpu.pcie_generation_max):
        generation += f" (the GPU alone {gpu.pcie_gpu_generation_max})"
    return f"generation {generation}, {lanes}"


def _nvlinks(gpu: GpuFacts) -> str:
    version = f", version {gpu.nvlink_version}" if gpu.nvlinks and gpu.nvlink_version is not None else ""
    return _fact(gpu, "nvlinks") + version + (", to NVSwitches" if gpu.nvswitch else "")


def _fabric(gpu: GpuFacts) -> str:
    clique = "" if gpu.fabric_clique is None else f", clique {gpu.fabric_clique}"
    return _fact(gpu, "fabric") + clique + (", bandwidth degraded" if gpu.fabric_degraded else "")


def _mig(gpu: GpuFacts) -> str:
    return _fact(gpu, "mig") + (f": {', '.join(gpu.mig_instances)}" if gpu.mig_instances else "")


def _held_down(gpu: GpuFacts) -> str:
    """An older record has no reasons, as they were not asked for."""
    reason = gpu.unavailable.get("clock_event_reasons")
    return ", ".join(gpu.clock_event_reasons) or (f"{DASH} ({reason})" if reason else "no reason told")


def _before(gpu: GpuFacts) -> str:
    memory = "" if gpu.memory_used_bytes is None else f"{gib(gpu.memory_used_bytes)} GiB in use"
    busy = "" if gpu.utilization_percent is None else f"{gpu.utilization_percent} % busy"
    held = [f"process {_process(each)}" for each in gpu.processes]
    held += [f"process {_process(each)} through MPS" for each in gpu.mps_processes]
    return ", ".join(filter(None, [memory, busy, *(held or ["no process"])]))


def _process(one: GpuProcess) -> str:
    return str(one.pid) if one.memory_bytes is None else f"{one.pid} with {gib(one.memory_bytes)} GiB"


def _errors(gpu: GpuFacts) -> str:
    pending = ", a row waits to be remapped" if gpu.remap_pending else ""
    return f"{_fact(gpu, 'ecc_corrected')} corrected, {_fact(gpu, 'ecc_uncorrected')} uncorrected{pending}"


FACTS: dict[str, Callable[[GpuFacts], str]] = {
    "name": _plain("name"),
    "UUID": _plain("id"),
    "PCI bus": _plain("bus_id"),
    "architecture": lambda gpu: f"{_fact(gpu, 'architecture')}, compute capability {_fact(gpu, 'capability')}",
    "memory": lambda gpu: f"{gib(gpu.memory_bytes)} GiB",
    "NUMA node": _plain("numa_node"),
    "CPUs near it": _plain("cpus"),
    "power limit": _of("power_limit_watts", "W", power_default_limit_watts="by default", power_most_watts="at most"),
    "SM clock, at most": _of("sm_clock_max_mhz", "MHz", boost_sm_clock_max_mhz="allowed"),
    "SM clock of applications": _of("application_sm_clock_mhz", "MHz", default_application_sm_clock_mhz="by default"),
    "memory clock, at most": _plain("memory_clock_max_mhz", "MHz"),
    "clock held down before the run": _held_down,
    "ECC": _plain("ecc"),
    "ECC errors before the run": _errors,
    "MIG": _mig,
    "persistence mode": _plain("persistence"),
    "compute mode": _plain("compute_mode"),
    "PCIe": _pcie,
    "NVLinks": _nvlinks,
    "NVLink fabric": _fabric,
    "performance monitoring (GPM)": lambda gpu: "yes" if gpu.gpm else "no" if gpu.gpm is False else _fact(gpu, "gpm"),
    "on it before the run": _before,
}
