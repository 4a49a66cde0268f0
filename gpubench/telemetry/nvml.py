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
from typing import Any, TypeVar

from gpubench.spec.case import Device
from gpubench.spec.record import GpuFacts, GpuProcess, GpuSystem
from gpubench.telemetry import signs
from gpubench.telemetry.visible import visible_devices

T = TypeVar("T")
DISCOVERY_SECONDS = 30.0  # without persistence mode a driver takes seconds for each GPU
LIBRARY_NOT_FOUND = 12  # no driver is installed
# Errors of a call that will not go better next time: invalid argument, not supported, no permission, no such
# function in this driver, no such version of its argument.
LASTING_ERRORS = {2, 3, 4, 13, 25}


@dataclass(frozen=True, kw_only=True)
class NvmlView:
    """What NVML shows of this machine, after CUDA_VISIBLE_DEVICES. Where it cannot be read, `reason` says why.

    `broken`: there is a driver, but it does not answer as it should; there may well be GPUs. `refusal`: there are GPUs
    that somebody must do something about first, and to measure CPU shares in their place would mislead.
    `problems` maps what is wrong (a device's id, "GPU 3", "CUDA_VISIBLE_DEVICES") to the sentence about it;
    `n_found` counts the GPUs before CUDA_VISIBLE_DEVICES, `devices` are in its order, and are MIG instances where a
    GPU is cut into them. `system` has all GPUs that may be opened.
    """

    devices: list[Device] = field(default_factory=list)
    n_found: int = 0
    driver: str | None = None
    cuda: str | None = None
    nvml_version: str | None = None
    reason: str | None = None
    broken: bool = False
    refusal: str | None = None
    problems: dict[str, str] = field(default_factory=dict)
    pynvml_path: str | None = None
    pynvml_version: str | None = None
    system: GpuSystem | None = None


def discover(whole: bool = True) -> NvmlView:
    """Look in a process of its own, so that a hanging driver costs a deadline and this process never loads it.

    Without `whole` there is no `system`: a slow driver takes long for the many calls of that.
    """
    command = [sys.executable, "-P", "-m", "gpubench.telemetry.nvml", *(["whole"] if whole else [])]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DISCOVERY_SECONDS)
        return view_from_dict(json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        reason = f"NVML did not answer within {DISCOVERY_SECONDS:.0f} s; does `nvidia-smi` hang as well?"
        return NvmlView(reason=reason, broken=True)
    except OSError as error:
        return NvmlView(reason=f"the process that asks NVML could not be started: {error}")
    except (IndexError, KeyError, TypeError, ValueError):
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        reason = f"the process that asks NVML ended with {done.returncode}: {' '.join(last)}"
        return NvmlView(reason=reason, broken=True)


def view_from_dict(body: dict[str, Any]) -> NvmlView:
    """What `dataclasses.asdict` made of a view, also by way of JSON."""
    devices = [Device(**{**device, "cores": tuple(device["cores"])}) for device in body["devices"]]
    fields: dict[str, Any] = {**body, "devices": devices, "system": system_from_dict(body["system"])}
    return NvmlView(**fields)


def system_from_dict(body: dict[str, Any] | None) -> GpuSystem | None:
    """What `dataclasses.asdict` made of a system."""
    if body is None:
        return None
    return GpuSystem(**{**body, "gpus": [_facts_from_dict(gpu) for gpu in body["gpus"]]})


def _facts_from_dict(body: dict[str, Any]) -> GpuFacts:
    lists = {key: [GpuProcess(**one) for one in body[key]] for key in ("processes", "mps_processes")}
    facts: dict[str, Any] = {**body, **lists}
    return GpuFacts(**facts)


def look(whole: bool = True) -> NvmlView:
    """What `discover` gives, read in this process; never raises."""
    try:
        binding().nvmlInit()
    except Exception as error:
        broken = getattr(error, "value", None) != LIBRARY_NOT_FOUND
        sign = signs.of_nvidia()
        reason = f"{explain(error)}; {sign}" if sign else explain(error)
        return NvmlView(reason=reason, broken=broken or sign is not None, **_which_binding())
    try:
        return _look(whole)
    except Exception as error:
        return NvmlView(reason=explain(error), broken=True, **_which_binding())
    finally:
        or_none(binding().nvmlShutdown)


def _look(whole: bool) -> NvmlView:
    from gpubench.telemetry.nvml_facts import Opened, system  # it needs this module

    problems: dict[str, str] = {}
    n = int(binding().nvmlDeviceGetCount())
    found = sorted(_found(n, problems), key=lambda gpu: gpu.bus_id)
    by_id = {device.id: device for gpu in found for device in [gpu.device, *gpu.parts]}
    variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    cut = {gpu.device.id: gpu.cut for gpu in found if gpu.is_mig}
    visible = visible_devices(variable, [gpu.device.id for gpu in found], cut)
    if problem := visible.problem or _doubt(variable, [gpu.device for gpu in found], visible.ids):
        problems["CUDA_VISIBLE_DEVICES"] = problem
    all_facts = system([Opened(gpu.device.id, gpu.index, gpu.handle) for gpu in found]) if whole else None
    bare = [gpu.index for gpu in found if gpu.is_mig and not gpu.parts]
    hidden_on_purpose = variable is not None and visible.problem is None
    return NvmlView(
        devices=[by_id[id] for id in visible.ids],
        n_found=len(found),
        **_versions(),
        reason=None if visible.ids else _no_device(n, found, problems),
        broken=not found,
        refusal=_without_instance(bare) if bare and not visible.ids and not hidden_on_purpose else None,
        problems=problems,
        system=all_facts,
        **_which_binding(),
    )


def _without_instance(indices: list[int]) -> str:
    which = f"GPUs {', '.join(map(str, indices))} are" if len(indices) > 1 else f"GPU {indices[0]} is"
    remedy = f"make one: sudo nvidia-smi mig -i {indices[0]} -cgi 0 -C"
    return f"{which} in MIG mode without an instance to run on; {remedy}"


def _no_device(n: int, found: list[_Found], problems: dict[str, str]) -> str:
    """Why there is none, whatever is in the way; never empty."""
    if n == 0:
        sign = signs.of_nvidia()
        return f"the driver answers, and NVML counts no GPU{f'; {sign}' if sign else ''}"
    if not found:
        whys = list(dict.fromkeys(why for why in problems.values()))
        return f"NVML counts {n} GPU{'s' if n > 1 else ''} and finds no GPU that may be opened: {'; '.join(whys)}"
    if problem := problems.get("CUDA_VISIBLE_DEVICES"):
        return f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES')}: {problem}"
    return "; ".join(dict.fromkeys(problems.values())) or "no GPU is left"


@dataclass(frozen=True)
class _Found:
    """A GPU that may be opened; its MIG instances, with `cut` mapping their UUIDs to their older names."""

    index: int
    handle: Any
    bus_id: str
    device: Device
    is_mig: bool
    parts: list[Device]
    cut: dict[str, str]


def _found(n: int, problems: dict[str, str]) -> list[_Found]:
    nvml = binding()
    found: list[_Found] = []
    for index in range(n):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            bus_id, device = str(nvml.nvmlDeviceGetPciInfo(handle).busId), _device(handle)
            cut = is_mig(handle)
            parts = [(part, _device(part)) for part in mig_instances(handle)] if cut else []
        except Exception as error:  # also one that is lost just after it was opened
            problems[f"GPU {index}"] = f"it could not be opened: {explain(error)}"
            continue
        if twin := next((gpu for gpu in found if gpu.device.id == device.id), None):
            problems[f"GPU {index}"] = f"it has the UUID of the GPU at {twin.bus_id}, so that it cannot be told apart"
            continue
        older = {instance.id: _older_name(device.id, part) for part, instance in parts}
        found.append(_Found(index, handle, bus_id, device, cut, [instance for _, instance in parts], older))
        if cut:
            what = "utilisation, power, energy and traffic cannot be had for its instances"
            problems[device.id] = f"MIG is on; {what}" if parts else "MIG is on, but there is no instance to run on"
    return found


def _device(handle: Any) -> Device:
    nvml = binding()
    return Device(
        kind="gpu",
        id=text_of(nvml.nvmlDeviceGetUUID, handle),
        name=or_none(lambda: text_of(nvml.nvmlDeviceGetName, handle)) or "unnamed GPU",
        memory_bytes=or_none(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total)),
    )


def _versions() -> dict[str, str | None]:
    from gpubench.telemetry.nvml_facts import cuda_version

    nvml = binding()
    return {
        "driver": or_none(lambda: text_of(nvml.nvmlSystemGetDriverVersion)),
        "cuda": or_none(lambda: cuda_version(nvml.nvmlSystemGetCudaDriverVersion_v2())),
        "nvml_version": or_none(lambda: text_of(nvml.nvmlSystemGetNVMLVersion)),
    }


def is_mig(handle: Any) -> bool:
    """Whether the GPU is in MIG mode; False where it has none. NVMLError where it does not say."""
    try:
        return bool(binding().nvmlDeviceGetMigMode(handle)[0])
    except Exception as error:
        if is_lasting(error):
            return False
        raise


def mig_instances(handle: Any) -> list[Any]:
    """The handles of the MIG instances of a GPU in MIG mode."""
    nvml = binding()
    n = or_none(lambda: int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))) or 0
    handles = [or_none(lambda i=i: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, i)) for i in range(n)]  # type: ignore[misc]
    return [part for part in handles if part is not None]


def _older_name(gpu: str, part: Any) -> str:
    """As drivers before R470 named an instance."""
    nvml = binding()
    ids = or_none(lambda: (nvml.nvmlDeviceGetGpuInstanceId(part), nvml.nvmlDeviceGetComputeInstanceId(part)))
    return f"MIG-{gpu}/{ids[0]}/{ids[1]}" if ids else ""


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
    return {"pynvml_path": or_none(lambda: str(binding().__file__)), "pynvml_version": binding_version()}


def binding_version() -> str | None:
    """By the folder that pip leaves beside the module: importlib.metadata makes the sampler's start a fifth longer."""
    folder = or_none(lambda: os.listdir(os.path.dirname(binding().__file__))) or []
    found = [name for name in folder if name.startswith("nvidia_ml_py-") and name.endswith(".dist-info")]
    return found[0].removesuffix(".dist-info").partition("-")[2] if len(found) == 1 else None


def explain(error: Exception) -> str:
    """One sentence on an error of the binding, whose exceptions have several unrelated classes."""
    code = getattr(error, "value", None)
    if code is None:
        return f"{type(error).__name__}: {error}"
    return f"NVML: {error} (error {code})"


def is_lasting(error: Exception) -> bool:
    """Whether the call will fail next time as well. AttributeError: a binding older than the call."""
    return getattr(error, "value", None) in LASTING_ERRORS or isinstance(error, AttributeError)


def text_of(call: Any, *arguments: Any) -> str:
    """A string of the driver. The binding decodes strictly, and some drivers give names that are not UTF-8."""
    raw: bytes = call.__wrapped__(*arguments)
    return raw.decode(errors="replace")


def _doubt(variable: str | None, devices: list[Device], ids: tuple[str, ...]) -> str | None:
    """What to say of a CUDA_VISIBLE_DEVICES that is well formed."""
    if devices and not ids:
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
    print(json.dumps(dataclasses.asdict(look("whole" in sys.argv))))
