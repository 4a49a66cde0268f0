"""What is to be said about this machine's AMD GPUs before anything is measured on them."""

from __future__ import annotations

from gpubench.spec.record import Machine
from gpubench.telemetry.amd import AmdView
from gpubench.telemetry.doctor import GIB, Warning, reads
from gpubench.telemetry.source import Header


def warnings(view: AmdView | None, machine: Machine) -> list[Warning]:
    """None where AMD's binding is not installed."""
    if view is None:
        return []
    found = []
    if view.broken:
        message = f"there may be AMD GPUs, but they cannot be measured: {view.reason}"
        remedy = "install the amdsmi of this ROCm's release; see whether `amd-smi list` works"
        found.append(Warning(about="AMD GPUs", message=message, remedy=remedy, misleads=True))
    for about, problem in view.problems.items():
        found.append(
            Warning(
                about=f"AMD {about}" if about.startswith("GPU") else about, message=problem, remedy="", misleads=True
            )
        )
    if view.devices and machine.devices[0].vendor is None:
        message = "they are left out, as there are NVIDIA GPUs, and no case runs on both"
        remedy = f"CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES={','.join(map(str, range(len(view.devices))))}"
        found.append(Warning(about="AMD GPUs", message=message, remedy=remedy, misleads=False))
    return found


def screen(view: AmdView | None, answers: Header | None) -> list[str]:
    """Devices, and what will and will not be measured. Without GPUs, why there are none."""
    if view is None:
        return []
    if not view.devices:
        reason = (view.reason or "no GPU is left").removeprefix("AMD SMI: ").removeprefix("AMD SMI's ")
        return [f"AMD SMI    {reason}"]
    head = f"AMD SMI    driver {view.driver}, library {view.library}, amdsmi {view.binding}"
    gpus = [f"{gpu.name}  {(gpu.memory_bytes or 0) / GIB:.0f} GiB  {gpu.id}" for gpu in view.devices]
    return [head, *(f"           {line}" for line in gpus), *reads(answers)]
