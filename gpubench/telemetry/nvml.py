"""Which NVIDIA GPUs there are, through NVML. The only importer of `pynvml`, NVIDIA's binding (nvidia-ml-py)."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any, TypeVar

from gpubench.spec.case import Device
from gpubench.telemetry.visible import visible_devices

T = TypeVar("T")
DISCOVERY_SECONDS = 30.0  # without persistence mode a driver takes seconds for each GPU


@dataclass(frozen=True, kw_only=True)
class NvmlView:
    """What NVML shows of this machine, after CUDA_VISIBLE_DEVICES. Where it cannot be read, `reason` says why.

    `problems` maps what is wrong (a device's id, "GPU 3", "CUDA_VISIBLE_DEVICES") to the sentence about it;
    `n_found` counts the GPUs before CUDA_VISIBLE_DEVICES, `devices` are in its order.
    """

    devices: list[Device] = field(default_factory=list)
    n_found: int = 0
    driver: str | None = None
    cuda: str | None = None
    nvml_version: str | None = None
    reason: str | None = None
    problems: dict[str, str] = field(default_factory=dict)
    pynvml_path: str | None = None
    pynvml_version: str | None = None


def discover() -> NvmlView:
    """Look in a process of its own, so that a hanging driver costs a deadline and this process never loads it."""
    command = [sys.executable, "-m", "gpubench.telemetry.nvml"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DISCOVERY_SECONDS)
        body = json.loads(done.stdout.splitlines()[-1])
        devices = [Device(**{**device, "cores": tuple(device["cores"])}) for device in body.pop("devices")]
        return NvmlView(devices=devices, **body)
    except subprocess.TimeoutExpired:
        return NvmlView(reason=f"NVML did not answer within {DISCOVERY_SECONDS:.0f} s; does `nvidia-smi` hang as well?")
    except OSError as error:
        return NvmlView(reason=f"the process that asks NVML could not be started: {error}")
    except (IndexError, KeyError, TypeError, ValueError):
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return NvmlView(reason=f"the process that asks NVML ended with {done.returncode}: {' '.join(last)}")


def look() -> NvmlView:
    """What `discover` gives, read in this process; never raises."""
    try:
        binding().nvmlInit()
    except Exception as error:
        return NvmlView(reason=explain(error), **_which_binding())
    problems: dict[str, str] = {}
    found = sorted(_found(problems), key=lambda item: item[0])
    devices = [device for _, device in found]
    variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    visible = visible_devices(variable, [device.id for device in devices])
    if problem := visible.problem or _doubt(variable, devices, visible.indices):
        problems["CUDA_VISIBLE_DEVICES"] = problem
    nvml = binding()
    view = NvmlView(
        devices=[devices[index] for index in visible.indices],
        n_found=len(devices),
        driver=or_none(lambda: _text(nvml.nvmlSystemGetDriverVersion)),
        cuda=or_none(lambda: _cuda_version(nvml.nvmlSystemGetCudaDriverVersion_v2())),
        nvml_version=or_none(lambda: _text(nvml.nvmlSystemGetNVMLVersion)),
        reason=None if devices else "NVML finds no GPU that may be opened",
        problems=problems,
        **_which_binding(),
    )
    or_none(nvml.nvmlShutdown)
    return view


def _found(problems: dict[str, str]) -> list[tuple[str, Device]]:
    """Every GPU that may be opened, with its PCI bus id."""
    nvml = binding()
    found = []
    for index in range(or_none(nvml.nvmlDeviceGetCount) or 0):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            bus_id, device = str(nvml.nvmlDeviceGetPciInfo(handle).busId), _device(handle)
        except Exception as error:
            problems[f"GPU {index}"] = explain(error)
            continue
        found.append((bus_id, device))
        if is_mig(handle):
            problems[device.id] = "MIG is on; utilisation, power and energy cannot be had for its instances"
    return found


def _device(handle: Any) -> Device:
    nvml = binding()
    return Device(
        kind="gpu",
        id=_text(nvml.nvmlDeviceGetUUID, handle),
        name=or_none(lambda: _text(nvml.nvmlDeviceGetName, handle)) or "unnamed GPU",
        memory_bytes=or_none(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total)),
    )


def is_mig(handle: Any) -> bool:
    return bool(or_none(lambda: binding().nvmlDeviceGetMigMode(handle)[0]))


@cache
def binding() -> Any:
    """The binding. Imported here, so that who only wants the types of this module needs no binding."""
    import pynvml

    if not hasattr(pynvml, "_nvmlGetFunctionPointer"):
        raise ImportError(
            f"the module pynvml at {pynvml.__file__} is not NVIDIA's; "
            "`pip uninstall pynvml`, then `pip install --force-reinstall nvidia-ml-py`"
        )
    return pynvml


def _which_binding() -> dict[str, Any]:
    return {
        "pynvml_path": or_none(lambda: str(binding().__file__)),
        "pynvml_version": or_none(lambda: metadata.version("nvidia-ml-py")),
    }


def explain(error: Exception) -> str:
    """One sentence on an error of the binding, whose exceptions have several unrelated classes."""
    code = getattr(error, "value", None)
    if code is None:
        return f"{type(error).__name__}: {error}"
    return f"NVML: {error} (error {code})"


def _text(call: Any, *arguments: Any) -> str:
    """A string of the driver. The binding decodes strictly, and some drivers give names that are not UTF-8."""
    raw: bytes = call.__wrapped__(*arguments)
    return raw.decode(errors="replace")


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"  # 12080 is 12.8


def _doubt(variable: str | None, devices: list[Device], indices: tuple[int, ...]) -> str | None:
    """What to say of a CUDA_VISIBLE_DEVICES that is well formed."""
    if devices and not indices:
        return f"it hides all {len(devices)} GPUs"
    own_order = os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
    if variable and variable[0].isdigit() and own_order and len({device.name for device in devices}) > 1:
        return (
            "it names GPUs of several models by index while CUDA_DEVICE_ORDER is not PCI_BUS_ID: CUDA may count them "
            "in another order than NVML does, and the order of NVML was taken"
        )
    return None


def or_none(read: Callable[[], T]) -> T | None:
    with suppress(Exception):
        return read()
    return None


if __name__ == "__main__":
    print(json.dumps(dataclasses.asdict(look())))
