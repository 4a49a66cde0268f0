"""What is to be said about this machine's GPUs before anything is measured on them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from gpubench.spec.case import Device
from gpubench.spec.record import GpuFacts, GpuSystem
from gpubench.telemetry.nvml import DISCOVERY_SECONDS, NvmlView
from gpubench.telemetry.source import Header, source_of

GIB = 2**30
MUCH_USED_BYTES = GIB  # more than a desktop takes
MUCH_BUSY_PERCENT = 5  # nor is it that busy
MUCH_SLOWER = 0.95  # of the highest clock
# What holds down the clock of a GPU that has nothing to do, where something is wrong with it or with its settings.
HELD_BY = {"thermal (software)", "thermal (hardware)", "hardware slowdown", "power brake", "sync boost"}
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
# What it takes, where the driver only says that it is not supported.
HINTS = {
    "energy_joules": "needs Volta or newer; it is worked out from power",
    "pcie_tx_bytes": "needs driver R555 or newer",
    "nvlink_tx_bytes": "needs active links",
    "ecc_uncorrected": "needs ECC, switched on",
    "gpm": "needs Hopper or newer, and a newer driver",
}


@dataclass(frozen=True, kw_only=True)
class Warning:
    """One doubt about the machine. `misleads`: a benchmark would not tell what these GPUs can do."""

    about: str
    message: str
    remedy: str
    misleads: bool


def ask(devices: Sequence[Device]) -> Header | None:
    """What the sampler would read of devices of one source, found out in a process of its own; None where it cannot."""
    command = [sys.executable, "-P", "-m", "gpubench.telemetry.doctor"]
    question = json.dumps([asdict(device) for device in devices]).encode()
    try:
        done = subprocess.run(command, input=question, capture_output=True, timeout=DISCOVERY_SECONDS, check=True)
        body: dict[str, Any] = json.loads(done.stdout)
        return Header(**body)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def warnings(view: NvmlView, cpus: Collection[int]) -> list[Warning]:
    """Of the GPUs that would be used; `cpus` are those that this process may use."""
    found: list[Warning] = []
    if view.broken:
        message = "there may be GPUs, but CPU shares would be measured"
        remedy = "see why above" if "is not NVIDIA's" in (view.reason or "") else "see whether `nvidia-smi` works"
        found.append(Warning(about="GPUs", message=message, remedy=remedy, misleads=True))
    if view.system is None:
        return found
    used = [gpu for gpu in view.system.gpus if _is_used(gpu, view)]
    for gpu in used:
        found += _of_gpu(gpu, cpus)
    for about, problem in view.problems.items():
        of_gpu = next((gpu for gpu in view.system.gpus if gpu.id == about), None)
        if of_gpu is None or of_gpu in used or (_is_bare(of_gpu) and view.system.cuda_visible_devices is None):
            found.append(_of_problem(about, problem, of_gpu))
    return found + _of_several(view, used)


def _is_used(gpu: GpuFacts, view: NvmlView) -> bool:
    return bool({gpu.id, *gpu.mig_instances} & {device.id for device in view.devices})


def _is_bare(gpu: GpuFacts) -> bool:
    """In MIG mode without an instance, so that nothing can run on it."""
    return bool(gpu.mig) and not gpu.mig_instances


def _of_problem(about: str, problem: str, gpu: GpuFacts | None) -> Warning:
    """`about` is as in `NvmlView.problems`."""
    if about == "CUDA_VISIBLE_DEVICES":
        return Warning(about=about, message=problem, remedy="name GPUs by UUID: nvidia-smi -L", misleads=True)
    if gpu is not None and _is_bare(gpu):
        remedy = f"make one: sudo nvidia-smi mig -i {gpu.index} -cgi 0 -C"
        return Warning(about=f"GPU {gpu.index}", message=problem, remedy=remedy, misleads=True)
    return Warning(about=f"GPU {gpu.index}" if gpu else about, message=_plain(problem), remedy="", misleads=False)


def _of_gpu(gpu: GpuFacts, cpus: Collection[int]) -> list[Warning]:
    found: list[Warning] = []

    def warn(message: str, remedy: str, misleads: bool = True) -> None:
        found.append(Warning(about=f"GPU {gpu.index}", message=message, remedy=remedy, misleads=misleads))

    clock, usual = gpu.application_sm_clock_mhz, gpu.default_application_sm_clock_mhz
    if clock is not None and usual is not None and clock < usual:
        warn(f"its clock is set to {clock} MHz; {usual} MHz is usual", f"sudo nvidia-smi -i {gpu.index} -rac")
    boost, most = gpu.boost_sm_clock_max_mhz, gpu.sm_clock_max_mhz
    if boost is not None and most is not None and boost < most:
        warn(f"its clock may rise to {boost} MHz of {most}", "ask who set that limit", boost < MUCH_SLOWER * most)
    if held := [reason for reason in gpu.clock_event_reasons if reason in HELD_BY]:
        warn(f"its clock is held down now: {', '.join(held)}", f"nvidia-smi -i {gpu.index} -q -d PERFORMANCE")
    limit, usual_limit = gpu.power_limit_watts, gpu.power_default_limit_watts
    if limit is not None and usual_limit is not None and limit < 0.99 * usual_limit:
        warn(
            f"its power is limited to {limit:.0f} W; {usual_limit:.0f} W is usual",
            f"sudo nvidia-smi -i {gpu.index} -pl {usual_limit:.0f}",
        )
    if gpu.processes or gpu.mps_processes:
        n = len(gpu.processes) or len(gpu.mps_processes)
        warn(f"{n} other process{'es' if n > 1 else ''} on it", "nvidia-smi shows them; run when they have ended")
    elif (gpu.memory_used_bytes or 0) >= MUCH_USED_BYTES or (gpu.utilization_percent or 0) > MUCH_BUSY_PERCENT:
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
        warn(
            f"none of the CPUs near it ({gpu.cpus}) may be used here",
            "do not bind the run to others (taskset, numactl, cgroups)",
        )
    if gpu.fabric in ("not started", "in progress", "failed"):
        warn(f"NVSwitch's fabric is not ready for it: {gpu.fabric}", "systemctl status nvidia-fabricmanager")
    if gpu.fabric_degraded:
        warn("NVLink has less bandwidth than it should", "look at the fabric manager's log")
    if gpu.persistence is False:
        warn("persistence mode is off: the driver is loaded anew each time", "sudo nvidia-smi -pm 1", False)
    return found


def _of_several(view: NvmlView, used: Sequence[GpuFacts]) -> list[Warning]:
    """Of the GPUs that would be used, as they work together."""
    assert view.system is not None
    found = []
    cut = any(gpu.mig_instances for gpu in used)
    if cut and len(view.devices) > 1:
        message = "CUDA shows a process one MIG instance and no more: cases of several devices are skipped"
        found.append(
            Warning(about="GPUs", message=message, remedy="choose it with CUDA_VISIBLE_DEVICES", misleads=False)
        )
    models = sorted({device.name for device in view.devices})
    if len(models) > 1 and not cut:
        message = f"they are of {len(models)} models ({', '.join(models)}): a step waits for the slowest"
        found.append(Warning(about="GPUs", message=message, remedy="choose with CUDA_VISIBLE_DEVICES", misleads=True))
    places = [i for i, gpu in enumerate(view.system.gpus) if gpu in used]
    pairs = [view.system.p2p[i][j] for i in places for j in places if j < i]
    n_without = sum(status not in ("OK", "?") for status in pairs)
    if n_without:
        words = "no two of them" if n_without == len(pairs) else f"{n_without} of {len(pairs)} pairs do not"
        message = f"{words} reach each other's memory (P2P): their data goes through the host's"
        found.append(Warning(about="GPUs", message=message, remedy="", misleads=False))
    if view.system.mps_device_enumeration:
        message = "NVML_MPS_DEVICE_ENUMERATION is set: counts and indices are MPS's"
        found.append(Warning(about="GPUs", message=message, remedy="unset it", misleads=False))
    return found


def screen(view: NvmlView, answers: Header | None, found: Sequence[Warning]) -> list[str]:
    """Devices, links, what will and will not be measured, and what is doubtful. Without GPUs, why there are none."""
    if view.system is None or not view.system.gpus:
        return [f"NVML       {_plain(view.reason or '')}", *_warning_lines(found)]
    system = view.system
    lines = [
        f"NVML       driver {system.driver}, CUDA {system.cuda}, NVML {system.nvml}, nvidia-ml-py {system.binding}",
        *(f"           {line}" for line in _gpu_table(view)),
    ]
    if len(system.gpus) > 1:
        lines += [f"{'Links' if i == 0 else '':<10} {line}" for i, line in enumerate(_matrix(system))]
    if answers is None and view.devices:
        lines.append("Measures   unknown: the driver did not say in time")
    return lines + reads(answers) + _warning_lines(found)


def reads(answers: Header | None) -> list[str]:
    """What the sampler can and cannot read of the devices; nothing where it could not be asked."""
    if answers is None:
        return []
    measured, missing = _measured(answers)
    lines = [f"{'Measures' if i == 0 else '':<10} {line}" for i, line in enumerate(measured)]
    return lines + [f"{'Cannot' if i == 0 else '':<10} {line}" for i, line in enumerate(missing)]


def _gpu_table(view: NvmlView) -> list[str]:
    """A line a GPU, and one below it for each MIG instance that would be used."""
    assert view.system is not None
    rows = []
    for gpu in view.system.gpus:
        link = f"PCIe {gpu.pcie_generation_max} x{gpu.pcie_width}" if gpu.pcie_generation_max else ""
        rows.append(
            [
                str(gpu.index),
                gpu.name,
                _gib(gpu.memory_bytes),
                f"{gpu.power_limit_watts:.0f} W" if gpu.power_limit_watts else "",
                f"NUMA {gpu.numa_node}" if gpu.numa_node is not None else "",
                link,
                {True: "ECC on", False: "ECC off", None: ""}[gpu.ecc],
                "MIG" if gpu.mig else "",
                "" if _is_used(gpu, view) else "no instance" if _is_bare(gpu) else "hidden",
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row, gpu in zip(rows, view.system.gpus, strict=True):
        lines.append("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True) if w).rstrip())
        parts = [device for device in view.devices if device.id in gpu.mig_instances]
        profiles = [part.name.removeprefix(gpu.name).strip() for part in parts]
        lines += [f"   {p}  {_gib(part.memory_bytes)}  {part.id}" for p, part in zip(profiles, parts, strict=True)]
    return lines


def _gib(memory_bytes: int | None) -> str:
    return f"{memory_bytes / GIB:.0f} GiB" if memory_bytes else ""


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
            missing.append(f"{name}: {_plain(reason)}{_hint(metric, reason)}{where}")
        able = [id for id in ids if metric not in answers.unavailable.get(id, {})]
        methods = [_method(answers.methods.get(id, {}), metric) for id in able]
        for method in dict.fromkeys(methods):
            where = "" if methods.count(method) == len(ids) else f" ({methods.count(method)} of {len(ids)} devices)"
            measured.append(f"{name}: {method}{where}")
    return measured, missing


def _method(methods: Mapping[str, str], metric: str) -> str:
    return methods.get(metric, {"gpm": "mean between the edges of a round", "xids": "as they come"}.get(metric, "yes"))


def _hint(metric: str, reason: str) -> str:
    known = "Not Supported" in reason or "Function Not Found" in reason
    return f"; {HINTS[metric]}" if known and metric in HINTS else ""


def _plain(reason: str) -> str:
    """Without the name of what was asked, which the line has."""
    return reason.replace("ImportError: ", "").replace("NVML: ", "").removeprefix("NVML ")


def _warning_lines(found: Sequence[Warning]) -> list[str]:
    """What misleads first, and what is so of several GPUs once."""
    alike: dict[Warning, list[str]] = {}
    for one in found:
        number = one.about.removeprefix("GPU ")
        without_number = replace(one, about="", remedy=one.remedy.replace(f"-i {number} ", "-i # "))
        alike.setdefault(without_number, []).append(one.about)
    lines = []
    for i, (one, abouts) in enumerate(sorted(alike.items(), key=lambda item: not item[0].misleads)):
        numbers = [about.removeprefix("GPU ") for about in abouts]
        about = ", ".join([abouts[0], *numbers[1:]])
        remedy = one.remedy.replace("-i # ", f"-i {','.join(numbers)} ")
        advice = f" -> {remedy}" if remedy else ""
        lines.append(
            f"{'Warnings' if i == 0 else '':<10} {'!' if one.misleads else '-'} {about}: {one.message}{advice}"
        )
    return lines


def _numbers(spans: str | None) -> set[int]:
    """{0, 1, 2, 8} for "0-2,8"."""
    numbers: set[int] = set()
    for span in (spans or "").split(","):
        first, _, last = span.partition("-")
        if first.isdigit():
            numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


if __name__ == "__main__":
    from gpubench.telemetry.sampling import make_source

    asked = [Device(**{**body, "cores": tuple(body["cores"])}) for body in json.load(sys.stdin)]
    print(json.dumps(asdict(make_source(source_of(asked[0]), asked).header())))
