"""Signs of a GPU that the kernel shows without its driver's library: why GPUs that are there cannot be measured."""

from __future__ import annotations

import grp
import os
from pathlib import Path

NVIDIA, AMD = "0x10de", "0x1002"  # PCI vendors
DISPLAY, ACCELERATOR = "0x03", "0x12"  # PCI classes
WITHOUT_ROCM = "an AMD GPU and its driver are here (/dev/kfd), but amdsmi is not installed: `pip install gpubench[amd]`"


def of_nvidia(root: Path = Path("/")) -> str | None:
    """Why NVML cannot be asked, with a remedy, as far as the kernel's files tell it; None where nothing is amiss."""
    loaded = (root / "proc/driver/nvidia/version").exists()
    nodes = sorted((root / "dev").glob("nvidia[0-9]*"))
    control = root / "dev/nvidiactl"
    if forbidden := next((node for node in [control, *nodes] if node.exists() and _is_forbidden(node)), None):
        return f"/{forbidden.relative_to(root)} may not be opened: {_remedy(forbidden)}"
    if loaded and not (control.exists() and nodes):
        return (
            "the driver is loaded, but no /dev/nvidia0 and /dev/nvidiactl are here: a container must be given its GPUs "
            "(`docker run --gpus all`)"
        )
    if loaded:
        return None
    n = _on_pci(root, NVIDIA)
    return (
        f"{n} NVIDIA GPU{'s are' if n > 1 else ' is'} on PCI, but the driver is not loaded: install it" if n else None
    )


def of_amd(root: Path = Path("/")) -> str | None:
    """Why AMD GPUs cannot be opened, with a remedy; None where there is none, or where /dev/kfd may be opened."""
    kfd = root / "dev/kfd"
    if kfd.exists():
        return f"/dev/kfd may not be opened: {_remedy(kfd)}" if _is_forbidden(kfd) else None
    if n := _on_pci(root, AMD, (ACCELERATOR,)):
        return f"{n} AMD accelerator{'s are' if n > 1 else ' is'} on PCI, but the driver (/dev/kfd) is not here"
    return None


def without_amdsmi(root: Path = Path("/")) -> str | None:
    """Why AMD GPUs are not measured where `amdsmi` is not installed; None where there is no sign of one."""
    return of_amd(root) or (WITHOUT_ROCM if (root / "dev/kfd").exists() else None)


def _is_forbidden(node: Path) -> bool:
    return not os.access(node, os.R_OK | os.W_OK)


def _remedy(node: Path) -> str:
    try:
        group = grp.getgrgid(node.stat().st_gid).gr_name
    except (KeyError, OSError):
        group = "that it belongs to"
    return f"add the user to the group {group}, or change the device's permissions"


def _on_pci(root: Path, vendor: str, classes: tuple[str, ...] = (DISPLAY, ACCELERATOR)) -> int:
    found = 0
    for folder in (root / "sys/bus/pci/devices").glob("*"):
        try:
            of_vendor = (folder / "vendor").read_text().strip() == vendor
            found += of_vendor and (folder / "class").read_text().startswith(classes)
        except OSError:
            continue  # it was taken out meanwhile
    return found
