"""Which GPUs `CUDA_VISIBLE_DEVICES` leaves, and in which order. NVML itself does not look at that variable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Visible:
    """The places, in the list of all GPUs, of those that CUDA will see; and what is wrong with the variable."""

    indices: tuple[int, ...]
    problem: str | None = None


def visible_devices(variable: str | None, uuids: Sequence[str]) -> Visible:
    """Read the variable as CUDA does (CUDA C++ Programming Guide, "CUDA Environment Variables").

    `uuids` are those of all GPUs in PCI bus order. An entry is an index, a UUID, or a prefix that only one UUID has.
    An entry that fits no device hides everything after it; a device named twice hides all.
    """
    if variable is None:
        return Visible(tuple(range(len(uuids))))
    indices: list[int] = []
    for entry in (text.strip() for text in variable.split(",")):
        fitting = _fitting(entry, uuids)
        if len(fitting) != 1:
            return Visible(tuple(indices), _problem(entry, len(fitting)))
        if fitting[0] in indices:
            return Visible((), f"{entry!r} names a device for the second time, which hides all of them")
        indices += fitting
    return Visible(tuple(indices))


def _fitting(entry: str, uuids: Sequence[str]) -> list[int]:
    if number := re.match(r"\+?\d+", entry):  # CUDA reads "1st" as 1
        return [index for index in [int(number[0])] if index < len(uuids)]
    if entry.startswith("GPU-"):
        return [index for index, uuid in enumerate(uuids) if uuid.startswith(entry)]
    return []


def _problem(entry: str, n_fitting: int) -> str | None:
    if entry in ("", "-1"):
        return None  # the usual ways to say "none" or "no more"
    if entry.startswith("MIG-"):
        return f"{entry!r} is a MIG instance; only whole GPUs can be benchmarked"
    what = "fits no GPU" if n_fitting == 0 else f"fits {n_fitting} GPUs"
    return f"{entry!r} {what}, which hides it and everything after it"
