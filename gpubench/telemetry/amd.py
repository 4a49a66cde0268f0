"""Which AMD GPUs there are, through AMD SMI. The only importer of `amdsmi`, AMD's binding of it."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from gpubench.spec.case import Device
from gpubench.telemetry.nvml import DISCOVERY_SECONDS, or_none

UUID = re.compile(r"GPU-[0-9a-f]{16}")
# Errors of a call that will not go better next time: invalid argument, not supported, not yet implemented, no such
# function in this library, no permission.
LASTING_ERRORS = {1, 2, 3, 5, 10}
NO_FIGURES = (2**16 - 1, 2**32 - 1, 2**64 - 1)  # all bits set, at each width that the firmware uses
DRIVER_NOT_LOADED = 34


class NoFigureError(ValueError):
    """AMD SMI answered, but not with a number."""


class LibraryNotFoundError(ImportError):
    """ROCm is not installed where the binding looks for it."""


@dataclass(frozen=True, kw_only=True)
class AmdView:
    """What AMD SMI shows of this machine, after ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES.

    Where it cannot be read, `reason` says why; `broken`: there is a driver, but it does not answer as it should.
    `problems` maps what is wrong ("GPU 3", a variable) to the sentence about it; `n_found` counts the GPUs before the
    variables.
    """

    devices: list[Device] = field(default_factory=list)
    n_found: int = 0
    driver: str | None = None
    library: str | None = None
    binding: str | None = None
    reason: str | None = None
    broken: bool = False
    problems: dict[str, str] = field(default_factory=dict)


def discover() -> AmdView | None:
    """None where `amdsmi` is not installed; it is asked in a process of its own."""
    if find_spec("amdsmi") is None:
        return None
    command = [sys.executable, "-P", "-m", "gpubench.telemetry.amd"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DISCOVERY_SECONDS)
        return view_from_dict(json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        reason = f"AMD SMI did not answer within {DISCOVERY_SECONDS:.0f} s; does `amd-smi list` hang as well?"
    except OSError as error:
        reason = f"the process that asks AMD SMI could not be started: {error}"
    except (IndexError, KeyError, TypeError, ValueError):
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        reason = f"the process that asks AMD SMI ended with {done.returncode}: {' '.join(last)}"
    return AmdView(reason=reason, broken=True)


def view_from_dict(body: dict[str, Any]) -> AmdView:
    """What `dataclasses.asdict` made of a view, also by way of JSON."""
    devices = [Device(**{**device, "cores": tuple(device["cores"])}) for device in body["devices"]]
    fields: dict[str, Any] = {**body, "devices": devices}
    return AmdView(**fields)


def look() -> AmdView:
    """What `discover` gives, read in this process; never raises."""
    try:
        binding().amdsmi_init()
        handles = handles_by_hip()
    except Exception as error:
        absent = isinstance(error, LibraryNotFoundError) or getattr(error, "err_code", None) == DRIVER_NOT_LOADED
        return AmdView(reason=explain(error), broken=not absent, binding=binding_version())
    ids = [uuid_of(handle) for handle in handles]
    problems = _unnamed(ids)
    found = {id: _device(id, handle) for id, handle in zip(ids, handles, strict=True) if id and ids.count(id) == 1}
    visible = visible_devices(list(found), os.environ, problems)
    view = AmdView(
        devices=[found[id] for id in visible],
        n_found=len(handles),
        driver=or_none(lambda: str(binding().amdsmi_get_gpu_driver_info(handles[0])["driver_version"])),
        library=or_none(lambda: "{major}.{minor}.{release}".format(**binding().amdsmi_get_lib_version())),
        binding=binding_version(),
        reason=None if handles else "AMD SMI finds no GPU",
        problems=problems,
    )
    or_none(binding().amdsmi_shut_down)
    return view


def handles_by_hip() -> list[Any]:
    """All GPUs, in the order that HIP numbers them, where the binding tells it (ROCm 6.4 and newer)."""
    smi = binding()
    handles = list(smi.amdsmi_get_processor_handles())
    numbers = [or_none(lambda h=h: int(smi.amdsmi_get_gpu_enumeration_info(h)["hip_id"])) for h in handles]  # type: ignore[misc]
    if None in numbers:
        return handles
    return [handle for _, handle in sorted(zip(numbers, handles, strict=True), key=lambda pair: pair[0] or 0)]


def uuid_of(handle: Any) -> str | None:
    """As ROCm names the GPU, GPU-0123456789abcdef; None where it has no serial number to make one of."""
    smi = binding()
    texts = [
        or_none(lambda: str(smi.amdsmi_get_gpu_enumeration_info(handle)["hip_uuid"])),
        or_none(lambda: "GPU-" + str(smi.amdsmi_get_gpu_asic_info(handle)["asic_serial"]).removeprefix("0x")),
    ]
    ids = ["GPU-" + text.removeprefix("GPU-").lower() for text in texts if text]
    return next((id for id in ids if UUID.fullmatch(id) and int(id[4:], 16)), None)


def _unnamed(ids: Sequence[str | None]) -> dict[str, str]:
    """Why some GPUs cannot be devices, which must be named apart."""
    counts = Counter(ids)
    return {
        f"GPU {number}": f"{counts[id]} GPUs, or partitions of one, have the UUID {id}" if id else "it has no UUID"
        for number, id in enumerate(ids)
        if id is None or counts[id] > 1
    }


def _device(id: str, handle: Any) -> Device:
    smi = binding()
    return Device(
        kind="gpu",
        vendor="amd",
        id=id,
        name=or_none(lambda: str(smi.amdsmi_get_gpu_asic_info(handle)["market_name"])) or "unnamed GPU",
        memory_bytes=or_none(lambda: int(smi.amdsmi_get_gpu_memory_total(handle, smi.AmdSmiMemoryType.VRAM))),
    )


def visible_devices(ids: Sequence[str], environment: Mapping[str, str], problems: dict[str, str]) -> list[str]:
    """What the variables leave of all GPUs, as the ROCm and HIP runtimes read them; what is odd goes into `problems`.

    HIP counts among what ROCm's own variable left, and reads CUDA_VISIBLE_DEVICES where its own is empty. A GPU named
    twice ends ROCm's list, but not HIP's. (ROCR-Runtime, amd_filter_device.cpp; clr, rocdevice.cpp.)
    """
    hip = next((name for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if environment.get(name)), None)
    left = list(ids)
    for name in ("ROCR_VISIBLE_DEVICES", hip):
        if name is None or name not in environment:
            continue
        before, left = left, []
        for entry in (text.strip() for text in environment[name].split(",")):
            fitting = _fitting(entry, before)
            if len(fitting) != 1 or (fitting[0] in left and name != hip):
                if entry not in ("", "-1"):  # the usual ways to say "none"
                    problems[name] = f"{entry!r} names no further GPU, which hides everything after it"
                break
            left += [id for id in fitting if id not in left]
        if before and not left:
            problems[name] = f"it hides all {len(before)} AMD GPUs"
    return left


def _fitting(entry: str, ids: Sequence[str]) -> list[str]:
    if entry.upper().startswith("GPU-"):
        return [id for id in ids if id.upper().startswith(entry.upper())]
    return list(ids[int(entry) : int(entry) + 1]) if entry.isdecimal() else []


@cache
def binding() -> Any:
    """The binding. It loads AMD's library when imported, and prints where it does not find it."""
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            import amdsmi
    except KeyError:  # the library, by its name
        where = said.getvalue().partition("\n")[0]
        raise LibraryNotFoundError(f"AMD SMI's library, which comes with ROCm, was not found: {where}") from None
    except AttributeError as error:
        message = f"amdsmi {binding_version()} and this ROCm's library are not of one release: {error}"
        raise ImportError(message) from error
    return amdsmi


def binding_version() -> str | None:
    return or_none(lambda: metadata.version("amdsmi"))


def explain(error: Exception) -> str:
    """One sentence on an error of the binding."""
    code = getattr(error, "err_code", None)
    if code is not None:
        return f"AMD SMI: {error.get_error_info().partition(' - ')[2].strip()} (error {code})"  # type: ignore[attr-defined]
    return str(error) if isinstance(error, ImportError | ValueError) else f"{type(error).__name__}: {error}"


def is_lasting(error: Exception) -> bool:
    """Whether the call will fail next time as well. AttributeError, KeyError: a binding older than the figure."""
    lasting = NoFigureError | AttributeError | KeyError
    return getattr(error, "err_code", None) in LASTING_ERRORS or isinstance(error, lasting)


if __name__ == "__main__":
    print(json.dumps(dataclasses.asdict(look())))
