"""Which GPUs `CUDA_VISIBLE_DEVICES` leaves, and in which order. NVML itself does not look at that variable."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Visible:
    """The UUIDs of the devices that CUDA will see; and what is wrong with the variable."""

    ids: tuple[str, ...]
    problem: str | None = None


def visible_devices(
    variable: str | None, uuids: Sequence[str], instances: Mapping[str, Mapping[str, str]] | None = None
) -> Visible:
    """Read the variable as CUDA does (CUDA C++ Programming Guide, "CUDA Environment Variables"; MIG User Guide).

    `uuids` are those of all GPUs in PCI bus order. `instances` has, for each GPU that is cut into MIG instances, their
    UUIDs with their older names ("MIG-GPU-UUID/1/0"). An entry is an index, a UUID, or a prefix that only one UUID has;
    a GPU that is cut means its first instance, and one in MIG mode that has none means no device. An entry that fits no
    device hides everything after it; a device named twice hides all. Without the variable each instance is a device, as
    each process can be given one.
    """
    cut = {gpu: tuple(names) for gpu, names in (instances or {}).items()}
    if variable is None:
        return Visible(tuple(device for gpu in uuids for device in cut.get(gpu, (gpu,))))
    older = {old: uuid for names in (instances or {}).values() for uuid, old in names.items()}
    ids: list[str] = []
    for entry in (text.strip() for text in variable.split(",")):
        fitting = _fitting(entry, uuids, cut, older)
        if len(fitting) != 1:
            bare = not fitting and _fitting(entry, uuids, {}, {})
            return Visible(tuple(ids), _bare(entry) if bare else _problem(entry, len(fitting)))
        if fitting[0] in ids:
            return Visible((), f"{entry!r} names a device for the second time, which hides all of them")
        ids += fitting
    return Visible(tuple(ids))


def _fitting(
    entry: str, uuids: Sequence[str], cut: Mapping[str, tuple[str, ...]], older: Mapping[str, str]
) -> list[str]:
    if entry in older:
        return [older[entry]]
    if entry.startswith("MIG-"):
        return [uuid for names in cut.values() for uuid in names if uuid.startswith(entry)]
    gpus: list[str] = []
    if number := re.match(r"\+?\d+", entry):  # CUDA reads "1st" as 1
        gpus = list(uuids[int(number[0]) : int(number[0]) + 1])
    elif entry.startswith("GPU-"):
        gpus = [uuid for uuid in uuids if uuid.startswith(entry)]
    return [device for gpu in gpus for device in cut.get(gpu, (gpu,))[:1]]


def _bare(entry: str) -> str:
    return f"{entry!r} names a GPU in MIG mode that has no instance, which hides it and everything after it"


def _problem(entry: str, n_fitting: int) -> str | None:
    if entry in ("", "-1"):
        return None  # the usual ways to say "none" or "no more"
    kind = "MIG instance" if entry.startswith("MIG-") else "GPU"
    what = f"fits no {kind}" if n_fitting == 0 else f"fits {n_fitting} {kind}s"
    return f"{entry!r} {what}, which hides it and everything after it"
