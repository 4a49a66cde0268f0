"""What `gpubench doctor` says: the machine, what NVML sees, and what each framework finds by its own means."""

from __future__ import annotations

import dataclasses
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from gpubench.analysis.checks.environment import harmful
from gpubench.analysis.checks.limits import LOAD_SEVERE, LOAD_WARNING
from gpubench.files.outputs import may_write
from gpubench.harness import machine, registry
from gpubench.harness.cores import usable_cores, usable_cpus
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.outcomes import printable
from gpubench.spec.errors import GpubenchError
from gpubench.spec.identity import cpu_limit
from gpubench.telemetry import amd, amd_doctor, doctor, nvml, recording
from gpubench.telemetry.source import Header

GIB = 1024**3
LOOK_SECONDS = 1.0


def examine(interpreters: Interpreters) -> dict[str, Any]:
    """Everything that is shown, as plain data. Each framework is asked in its own Python, all at the same time."""
    this = machine.describe()
    view, amd_view = nvml.discover(), amd.discover()
    host = _host_warnings()  # before the frameworks are asked, which load the cores themselves
    kind = "gpu" if this.devices or this.gpu_refusal else "cpu"
    frameworks = [framework for framework in registry.frameworks().values() if not framework.hidden]
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(interpreters.discover, frameworks))
    sampled = doctor.ask(view.devices) if view.devices else None
    amd_sampled = doctor.ask(amd_view.devices) if amd_view and amd_view.devices else None
    about_gpus = doctor.warnings(view, usable_cpus()) + amd_doctor.warnings(amd_view, this)
    return {
        "machine": dataclasses.asdict(this),
        "nvml": dataclasses.asdict(view),
        "telemetry": dataclasses.asdict(sampled) if sampled else None,
        "amd": dataclasses.asdict(amd_view) if amd_view else None,
        "amd_telemetry": dataclasses.asdict(amd_sampled) if amd_sampled else None,
        "warnings": [dataclasses.asdict(one) for one in [*about_gpus, *host]],
        "device_kind": kind,
        "cpu_limit": cpu_limit(this),
        "unlike_cores": len(usable_cores().other),
        "no_share": machine.lacking("cpu", 1, this) if machine.most_devices("cpu", this) == 0 else None,
        "no_gpu": this.gpu_refusal or machine.fallback("auto", this),
        "devices": [dataclasses.asdict(d) for d in machine.devices(kind, machine.most_devices(kind, this), this)],
        "frameworks": {f.name: answer for f, answer in zip(frameworks, answers, strict=True)},
        "refused": [
            {"framework": f.name, "strategy": s.name, "reason": s.refused[kind]}
            for f in frameworks
            for s in f.strategies
            if kind in s.refused
        ],
    }


def _host_warnings() -> list[doctor.Warning]:
    """Those doubts about every record that can be looked into beforehand: other load, swapping, debug variables."""
    found = []
    swapped = psutil.swap_memory()
    percents = psutil.cpu_percent(interval=LOOK_SECONDS, percpu=True)
    busy = fmean(percents[core] for core in usable_cpus() if core < len(percents)) / 100
    if busy > LOAD_WARNING:
        found.append(
            doctor.Warning(
                about="cores",
                message=f"other processes keep them {100 * busy:.0f} % busy",
                remedy="stop them, or let each launch wait: gpubench run --wait-quiet 60s",
                misleads=busy > LOAD_SEVERE,
            )
        )
    now = psutil.swap_memory()
    if now.sin > swapped.sin or now.sout > swapped.sout:
        found.append(
            doctor.Warning(about="memory", message="the machine is swapping", remedy="close programs", misleads=True)
        )
    for name, harm in harmful(os.environ).items():
        found.append(
            doctor.Warning(
                about=name,
                message=f"is set to {os.environ[name][:60]}: {harm.effect}",
                remedy=f"unset {name}",
                misleads=harm.severity == "severe",
            )
        )
    return found


def misleads(found: dict[str, Any]) -> bool:
    """Whether a benchmark here would not tell what these devices can do."""
    return any(warning["misleads"] for warning in found["warnings"])


def save_recording(path: Path) -> None:
    """Write what the driver answers to each call, without who the GPUs are. GpubenchError where that cannot be."""
    may_write(path, (".json",))
    scenario = recording.recorded()
    try:
        path.write_text(json.dumps(scenario, indent=1) + "\n")
    except OSError as error:
        raise GpubenchError(f"Cannot write {path}: {error.strerror}.") from error


def as_text(found: dict[str, Any]) -> str:
    """One screen."""
    this = found["machine"]
    warnings = [doctor.Warning(**one) for one in found["warnings"]]
    sampled = Header(**found["telemetry"]) if found["telemetry"] else None
    amd_view = amd.view_from_dict(found["amd"]) if found["amd"] else None
    amd_sampled = Header(**found["amd_telemetry"]) if found["amd_telemetry"] else None
    lines = [
        f"Machine    {this['cpu']}, {this['cores']} cores, {this['memory_bytes'] / GIB:.1f} GiB; {this['os']}",
        *([f"CPU limit  {found['cpu_limit']}, set by a control group"] if found["cpu_limit"] else []),
        *map(printable, amd_doctor.screen(amd_view, amd_sampled)),
        *map(printable, doctor.screen(nvml.view_from_dict(found["nvml"]), sampled, warnings)),
    ]
    if found["device_kind"] == "cpu":
        shares = found["devices"]
        cut = "" if not shares or "threads" not in shares[0]["name"] else f": {shares[0]['name']}"
        most = (
            f"up to {len(shares)} of one core{cut} ({_ids(shares)})" if shares else f"none fits ({found['no_share']})"
        )
        lines.append(f"Measures   CPU shares, not GPUs: {most}")
        if found["unlike_cores"]:
            left = f"{found['unlike_cores']} cores that are slower, or of which not all threads may be used"
            lines.append(f"           Left out of equal shares: {left}")
    for name, answer in found["frameworks"].items():
        lines += ["", *_of_framework(name, answer, this["devices"])]
    if found["refused"]:
        lines += ["", "Not here"]
        lines += [f"           {r['framework']}:{r['strategy']}: {r['reason']}." for r in found["refused"]]
    return "\n".join(lines)


def _of_framework(name: str, answer: dict[str, Any], devices: list[dict[str, Any]]) -> list[str]:
    """What a framework finds, and whether that is what the driver shows: `devices`."""
    if "version" not in answer:
        return [f"{name:<10} {printable(answer['reason'])}"]
    gpus = answer["gpus"]
    width = max((len(key) for key in answer["details"]), default=0)
    lines = [
        f"{name:<10} {answer['version']}, finds {len(gpus)} GPU{'' if len(gpus) == 1 else 's'}",
        *(f"           {gpu['name']}  {gpu.get('id') or ''}  {_gib(gpu.get('memory_bytes'))}" for gpu in gpus),
        *(f"           {key:<{width}}  {_plain(value)}" for key, value in answer["details"].items()),
    ]
    if len(gpus) != len(devices):
        cut = len(gpus) == 1 and any(device["id"].startswith("MIG-") for device in devices)
        why = "CUDA shows a process one MIG instance and no more" if cut else "a CPU build, or a driver mismatch"
        lines.append(f"           Differs from the driver, which shows {len(devices)}: {why}.")
    return lines


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "none"
    return printable(str(value))


def _gib(memory_bytes: int | None) -> str:
    return f"{memory_bytes / GIB:.1f} GiB" if memory_bytes else ""


def _ids(devices: list[dict[str, Any]]) -> str:
    return "; ".join(device["id"] for device in devices)
