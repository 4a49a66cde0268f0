"""What is to be said about this machine's GPUs before anything is measured on them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpubench.spec.case import Device
from gpubench.spec.record import GpuFacts, GpuSystem
from gpubench.telemetry.nvml import DISCOVERY_SECONDS, NvmlView
from gpubench.telemetry.source import Header

GIB = 2**30
MUCH_USED_BYTES = GIB  # more than a desktop takes
# What a reader knows the metrics by, in the order of the screen.
NAMES = {
    "utilization_percent": "utilisation",
    "memory_used_bytes": "memory",
    "power_watts": "power",
    "energy_joules": "energy",
    "sm_clock_mhz": "SM clock",
    "temperature_celsius": "temperature",
    "throttle_power_ns": "throttle time",
    "pcie_tx_bytes": "PCIe bytes",
    "nvlink_tx_bytes": "NVLink bytes",
    "ecc_uncorrected": "ECC errors",
    "xids": "Xid errors",
    "gpm": "SM and tensor activity",
}


@dataclass(frozen=True, kw_only=True)
class Warning:
    """One doubt about the machine. `misleads`: a benchmark would not tell what these GPUs can do."""

    about: str
    message: str
    remedy: str
    misleads: bool


def ask(devices: Sequence[Device]) -> Header | None:
    """What the sampler would read of each device, found out in a process of its own; None where it cannot be asked."""
    command = [sys.executable, "-m", "gpubench.telemetry.doctor"]
    question = json.dumps([asdict(device) for device in devices]).encode()
    try:
        done = subprocess.run(command, input=question, capture_output=True, timeout=DISCOVERY_SECONDS, check=True)
        body: dict[str, Any] = json.loads(done.stdout)
        return Header(**body)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def warnings(view: NvmlView, cpus: Collection[int]) -> list[Warning]:
    """Of the whole machine; `cpus` are those that this process may use."""
    found: list[Warning] = []
    if view.reason and "is not NVIDIA's" in view.reason:
        found.append(Warning(about="pynvml", message=view.reason, remedy="see there", misleads=True))
    if view.system is None:
        return found
    used = {device.id for device in view.devices}
    for gpu in view.system.gpus:
        if gpu.id in used or used & set(gpu.mig_instances):
            found += _of_gpu(gpu, cpus)
    for about, problem in view.problems.items():
        severe = about == "CUDA_VISIBLE_DEVICES"
        found.append(Warning(about=_name(about, view.system), message=problem, remedy="", misleads=severe))
    return found + _of_system(view.system)


def _of_gpu(gpu: GpuFacts, cpus: Collection[int]) -> list[Warning]:
    found: list[Warning] = []

    def warn(message: str, remedy: str, misleads: bool = True) -> None:
        found.append(Warning(about=f"GPU {gpu.index}", message=message, remedy=remedy, misleads=misleads))

    clock, usual = gpu.application_sm_clock_mhz, gpu.default_application_sm_clock_mhz
    if clock is not None and usual is not None and clock < usual:
        warn(f"its clock is set to {clock} MHz; {usual} MHz is usual", f"sudo nvidia-smi -i {gpu.index} -rac")
    limit, usual_limit = gpu.power_limit_watts, gpu.power_default_limit_watts
    if limit is not None and usual_limit is not None and limit < 0.99 * usual_limit:
        warn(
            f"its power is limited to {limit:.0f} W; {usual_limit:.0f} W is usual",
            f"sudo nvidia-smi -i {gpu.index} -pl {usual_limit:.0f}",
        )
    if gpu.processes or gpu.mps_processes:
        n = len(gpu.processes) or len(gpu.mps_processes)
        warn(f"{n} other process{'es' if n > 1 else ''} on it", "nvidia-smi shows them; run when they have ended")
    elif (gpu.memory_used_bytes or 0) >= MUCH_USED_BYTES or gpu.utilization_percent:
        warn(
            f"somebody is on it: {(gpu.memory_used_bytes or 0) / GIB:.1f} GiB in use, "
            f"{gpu.utilization_percent or 0} % busy",
            "nvidia-smi may not show who, from within a container",
        )
    if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
        warn(
            f"its PCIe link has {gpu.pcie_width} lanes of {gpu.pcie_width_max}",
            "reseat the card; look at the slot and the riser",
        )
    slot, own = gpu.pcie_generation_max, gpu.pcie_gpu_generation_max
    if slot is not None and own is not None and slot < own:
        warn(f"its slot is PCIe {slot}, the GPU could PCIe {own}", "look at the slot and the BIOS", False)
    if gpu.ecc_uncorrected or gpu.remap_pending:
        pending = ", and a row waits to be remapped" if gpu.remap_pending else ""
        warn(f"{gpu.ecc_uncorrected or 0} uncorrected ECC errors{pending}", f"sudo nvidia-smi -i {gpu.index} -r")
    if gpu.compute_mode == "prohibited":
        warn("its compute mode forbids any use", f"sudo nvidia-smi -i {gpu.index} -c DEFAULT")
    near = _numbers(gpu.cpus)
    if near and not near & set(cpus):
        warn(f"none of the CPUs near it ({gpu.cpus}) may be used here", f"numactl --cpunodebind={gpu.numa_node or 0}")
    if gpu.persistence is False:
        warn("persistence mode is off: the driver is loaded anew each time", "sudo nvidia-smi -pm 1", False)
    return found


def _of_system(system: GpuSystem) -> list[Warning]:
    found = []
    models = sorted({gpu.name for gpu in system.gpus})
    if len(models) > 1:
        message = f"they are of {len(models)} models ({', '.join(models)}): a step waits for the slowest"
        found.append(Warning(about="GPUs", message=message, remedy="choose with CUDA_VISIBLE_DEVICES", misleads=True))
    pairs = [(i, j) for i in range(len(system.p2p)) for j in range(i)]
    without = [(i, j) for i, j in pairs if system.p2p[i][j] not in ("OK", "?")]
    if without:
        words = "no two of them" if len(without) == len(pairs) else f"{len(without)} of {len(pairs)} pairs do not"
        message = f"{words} reach each other's memory (P2P): their data goes through the host's"
        found.append(Warning(about="GPUs", message=message, remedy="", misleads=False))
    if system.mps_device_enumeration:
        message = "NVML_MPS_DEVICE_ENUMERATION is set: counts and indices are MPS's"
        found.append(Warning(about="GPUs", message=message, remedy="unset it", misleads=False))
    return found


def screen(view: NvmlView, answers: Header | None, found: Sequence[Warning]) -> list[str]:
    """Devices, links, what will and will not be measured, and what is doubtful. Without GPUs, why there are none."""
    if view.system is None or not view.system.gpus:
        return [f"NVML       {view.reason}", *_warning_lines(found)]
    system = view.system
    lines = [
        f"NVML       driver {system.driver}, CUDA {system.cuda}, NVML {system.nvml}, nvidia-ml-py {system.binding}",
        *(f"           {line}" for line in _gpu_table(system, {device.id for device in view.devices})),
    ]
    if len(system.gpus) > 1:
        lines += [f"{'Links' if i == 0 else '':<10} {line}" for i, line in enumerate(_matrix(system))]
    if answers is not None:
        measured, missing = _measured(answers)
        lines += [f"{'Measures' if i == 0 else '':<10} {line}" for i, line in enumerate(measured)]
        lines += [f"{'Cannot' if i == 0 else '':<10} {line}" for i, line in enumerate(missing)]
    return lines + _warning_lines(found)


def _gpu_table(system: GpuSystem, used: Collection[str]) -> list[str]:
    rows = []
    for gpu in system.gpus:
        link = f"PCIe {gpu.pcie_generation_max} x{gpu.pcie_width}" if gpu.pcie_generation_max else ""
        rows.append(
            [
                str(gpu.index),
                gpu.name,
                f"{(gpu.memory_bytes or 0) / GIB:.0f} GiB" if gpu.memory_bytes else "",
                f"{gpu.power_limit_watts:.0f} W" if gpu.power_limit_watts else "",
                f"NUMA {gpu.numa_node}" if gpu.numa_node is not None else "",
                link,
                {True: "ECC on", False: "ECC off", None: ""}[gpu.ecc],
                f"MIG, {len(gpu.mig_instances)} instances" if gpu.mig else "",
                "" if gpu.id in used or set(gpu.mig_instances) & set(used) else "hidden",
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True) if w).rstrip() for row in rows]


def _matrix(system: GpuSystem) -> list[str]:
    names = [str(gpu.index) for gpu in system.gpus]
    width = max(len(cell) for row in system.links for cell in row) + 2
    head = " " * 4 + "".join(f"{name:<{width}}" for name in names)
    table = zip(names, system.links, strict=True)
    rows = [f"{name:<4}" + "".join(f"{cell:<{width}}" for cell in row) for name, row in table]
    return [line.rstrip() for line in [head, *rows]]


def _measured(answers: Header) -> tuple[list[str], list[str]]:
    """Lines about what is, and what is not, each metric once with the number of devices where that differs."""
    ids = sorted({*answers.unavailable, *answers.methods})
    measured, missing = [], []
    for metric, name in NAMES.items():
        reasons = [answers.unavailable.get(id, {}).get(metric) for id in ids]
        for reason in dict.fromkeys(reason for reason in reasons if reason):
            n = reasons.count(reason)
            where = "" if n == len(ids) else f" ({n} of {len(ids)} devices)"
            missing.append(f"{name}: {reason}{where}")
        able = [id for id in ids if metric not in answers.unavailable.get(id, {})]
        methods = [_method(answers.methods.get(id, {}), metric) for id in able]
        for method in dict.fromkeys(methods):
            where = "" if methods.count(method) == len(ids) else f" ({methods.count(method)} of {len(ids)} devices)"
            measured.append(f"{name}: {method}{where}")
    return measured, missing


def _method(methods: Mapping[str, str], metric: str) -> str:
    return methods.get(metric, {"gpm": "mean between the edges of a round", "xids": "as they come"}.get(metric, "yes"))


def _warning_lines(found: Sequence[Warning]) -> list[str]:
    lines = []
    for i, one in enumerate(found):
        remedy = f" -> {one.remedy}" if one.remedy else ""
        mark = "!" if one.misleads else "-"
        lines.append(f"{'Warnings' if i == 0 else '':<10} {mark} {one.about}: {one.message}{remedy}")
    return lines


def _name(about: str, system: GpuSystem) -> str:
    """GPU 3 for its UUID."""
    return next((f"GPU {gpu.index}" for gpu in system.gpus if gpu.id == about), about)


def _numbers(spans: str | None) -> set[int]:
    """{0, 1, 2, 8} for "0-2,8"."""
    numbers: set[int] = set()
    for span in (spans or "").split(","):
        first, _, last = span.partition("-")
        if first.isdigit():
            numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


if __name__ == "__main__":
    from gpubench.telemetry.nvml_source import NvmlSource

    asked = [Device(**{**body, "cores": tuple(body["cores"])}) for body in json.load(sys.stdin)]
    print(json.dumps(asdict(NvmlSource(asked).header())))
