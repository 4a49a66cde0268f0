"""PyTorch's devices: take this process's own, wait for them, say what they are."""

import contextlib
import os
import resource
import threading
from urllib.parse import unquote_to_bytes, urlsplit

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from gpubench.spec.case import Case, Place, share_id


def take(case: Case, place: Place) -> None:
    """Bind this process to its devices; on CPU shares, one thread a core."""
    exact = case.precision != "tf32"
    torch.backends.cuda.matmul.allow_tf32 = not exact
    torch.backends.cudnn.allow_tf32 = not exact
    torch.backends.cudnn.benchmark = True  # shapes never change within a case
    if place.device_kind == "cpu":
        torch.set_num_threads(len(place.cores))
    else:
        if not torch.cuda.is_available():
            raise RuntimeError("this PyTorch finds no GPU: a CPU build, or one for another vendor's GPUs")
        torch.cuda.set_device(devices(place)[0])


def devices(place: Place) -> list[torch.device]:
    """This process's devices. CUDA, or HIP under its name, sees all devices of the case, in the case's order."""
    if place.device_kind == "cpu":
        return [torch.device("cpu")] * len(place.devices)
    return [torch.device("cuda", place.all_devices.index(device)) for device in place.devices]


def wait(result: object) -> None:
    """Return once every device that this process uses is idle; on a CPU, operations end before they return."""
    if torch.cuda.is_initialized():
        for index in range(torch.cuda.device_count()):
            if torch.cuda.memory_reserved(index):
                torch.cuda.synchronize(index)


def meeting_place(place: Place) -> dist.Store:
    """The file by which the ranks find one another.

    PyTorch's own `init_method="file://…"` takes the path of its URL as it stands: a # or a ? in it ends the path, and
    %20 stays %20.
    """
    return dist.FileStore(unquote_to_bytes(urlsplit(place.address).path), place.world_size)


def autocast(case: Case, device: torch.device) -> contextlib.AbstractContextManager:
    if case.precision == "bf16":
        return torch.autocast(device.type, torch.bfloat16)
    return contextlib.nullcontext()


class Autocast(nn.Module):
    """The model with `autocast` inside its forward pass, where the threads of nn.DataParallel find it.

    They take over from their caller that autocast is on, but not its type, and would run float16.
    """

    def __init__(self, model: nn.Module, case: Case, device: torch.device) -> None:
        super().__init__()
        self.model = model
        self.autocast = lambda: autocast(case, device)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        with self.autocast():
            return self.model(inputs)


def parameters_of(model: nn.Module) -> list:
    """The trainable parameters as host arrays, in the order of the layers."""
    return [parameter.detach().cpu().numpy() for parameter in model.parameters()]


def product_types(step, watched) -> set[str]:
    """The types that matrix products and convolutions take in one step, forward and backward, in all its threads."""
    seen = set()
    run = threading.Thread.run

    def watched_run(thread):
        with TypesOfProducts(seen):  # the mode is of one thread; nn.DataParallel starts one a device
            run(thread)

    threading.Thread.run = watched_run
    try:
        with TypesOfProducts(seen):
            wait(step())
    finally:
        threading.Thread.run = run
    return seen


class TypesOfProducts(TorchDispatchMode):
    """Sees each operation as it reaches its device, after autocast; PyTorch's FLOP counter knows what multiplies."""

    def __init__(self, seen: set[str]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if operation._overloadpacket in flop_registry:
            arrays = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.is_floating_point()]
            self.seen |= {str(array.dtype).removeprefix("torch.") for array in arrays}
        return operation(*args, **(kwargs or {}))


def tf32() -> bool:
    """Whether float32 may be rounded to TF32 where a GPU multiplies it."""
    return torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32


def cpu_capability() -> str:
    return torch.backends.cpu.get_cpu_capability()


def observed(place: Place) -> list[str]:
    """Device ids as this process finds them bound, not as it was told."""
    if place.device_kind == "gpu":
        return [gpu_id(torch.cuda.get_device_properties(device)) for device in devices(place)]
    bound = tuple(sorted(os.sched_getaffinity(0)))
    return [d.id for d in place.devices] if bound == place.cores else [share_id(bound)]


def gpu_id(properties) -> str:
    """The GPU's UUID. HIP has the 16 letters of ROCm's (HSA_AMD_AGENT_INFO_UUID) where CUDA has 16 bytes."""
    if torch.version.hip:
        return f"GPU-{bytes(properties.uuid.bytes).decode(errors='replace').lower()}"
    return f"GPU-{properties.uuid}"


def versions() -> dict[str, str]:
    found = {"torch": torch.__version__ + (" (debug build)" if torch.version.debug else "")}
    if torch.version.cuda:
        found |= {"cuda_runtime": torch.version.cuda}
    if torch.version.hip:
        found |= {"hip_runtime": torch.version.hip}
    if torch.cuda.is_available():
        # AMD's own answer where PyTorch asks for NVIDIA's.
        kernels, collectives = ("miopen", "rccl") if torch.version.hip else ("cudnn", "nccl")
        found |= {
            kernels: str(torch.backends.cudnn.version()),
            collectives: ".".join(map(str, torch.cuda.nccl.version())),
        }
    return found


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def peak_memory() -> tuple[int | None, str]:
    """Bytes at the peak, and of what: the fullest device's tensors, or the process."""
    if torch.cuda.is_available():
        peaks = [torch.cuda.max_memory_allocated(i) for i in range(torch.cuda.device_count())]
        return max(peaks), "device"
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "process"


def discover() -> dict:
    """What `torch.cuda` finds by itself."""
    found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "version": torch.__version__,
        "gpus": [{"name": gpu.name, "id": gpu_id(gpu), "memory_bytes": gpu.total_memory} for gpu in found],
        "details": {
            "torch.cuda.is_available": torch.cuda.is_available(),
            "torch.cuda.device_count": torch.cuda.device_count(),
            "built for CUDA": torch.version.cuda or f"no: {'a ROCm' if torch.version.hip else 'a CPU'} build",
            "collectives": ", ".join(
                name
                for name, there in {
                    "gloo": torch.distributed.is_gloo_available(),
                    "nccl": torch.distributed.is_nccl_available(),
                }.items()
                if there
            ),
            "CPU threads": torch.get_num_threads(),
        },
    }
