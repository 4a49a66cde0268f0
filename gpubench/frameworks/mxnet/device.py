"""MXNet's devices (it calls them contexts): take this process's own, wait for them, say what they are."""

import json
import os
import resource

import numpy as np

from gpubench.frameworks.mxnet.compat import gluon, mx
from gpubench.spec.case import Case, Place, share_id

FEATURES = ("CUDA", "CUDNN", "NCCL", "MKLDNN", "OPENMP")


def take(case: Case, place: Place) -> None:
    """Touch each device, so that one that is missing is found here and not in the middle of a model."""
    for context in contexts(place):
        mx.nd.ones(1, ctx=context).wait_to_read()


def contexts(place: Place) -> list[mx.Context]:
    """This process's devices. CUDA sees all devices of the case, in the case's order; cpu(i) is the i-th share."""
    kind = mx.cpu if place.device_kind == "cpu" else mx.gpu
    return [kind(place.all_devices.index(device)) for device in place.devices]


def wait(result: object) -> None:
    """Wait for all that was queued: the loss is ready before the update that follows it."""
    mx.nd.waitall()


def initializer() -> mx.init.Initializer:
    """Uniform within 1/sqrt(fan-in), as PyTorch starts its layers; biases start at 0, as is Gluon's default."""
    return mx.init.Xavier(rnd_type="uniform", factor_type="in", magnitude=1)


def parameters_of(model: gluon.Block, context: mx.Context) -> list[np.ndarray]:
    """The trainable parameters as host arrays, in the order of the layers, as they are on one device."""
    trainable = [p for p in model.collect_params().values() if p.grad_req != "null"]  # null: running statistics
    return [parameter.data(context).asnumpy() for parameter in trainable]


PRODUCTS = {"FullyConnected", "Convolution", "Deconvolution", "dot", "batch_dot", "RNN"}


def product_types(step, watched) -> set[str] | None:
    """The types that matrix products and convolutions take in the graphs into which models were hybridized.

    MXNet infers each from the types of parameters and inputs, as it does to run the graph. None where there is no
    graph: a model that is not hybridized, or has not run yet. No step is run for it.
    """
    found = set()
    for model in watched.models:
        if getattr(model, "_cached_graph", None):
            for input_type in watched.input_types:
                found |= types_in_graph(model, input_type)
    return found or None


def types_in_graph(model: gluon.HybridBlock, input_type: str) -> set[str]:
    inputs, output = model._cached_graph
    inside = output.get_internals()
    types = {name: parameter.dtype for name, parameter in model.collect_params().items()}
    types |= {symbol.name: input_type for symbol in inputs}
    _, of_outputs, _ = inside.infer_type(**{name: types[name] for name in inside.list_inputs()})
    operations = {node["name"]: node["op"] for node in json.loads(inside.tojson())["nodes"]}
    return {
        np.dtype(kind).name
        for output, kind in zip(inside.list_outputs(), of_outputs, strict=True)
        if operations.get(output.removesuffix("_output")) in PRODUCTS
    }


def tf32() -> bool:
    """Whether float32 may be rounded to TF32 where a GPU multiplies it: cuDNN 8 does, unless it is told not to."""
    return os.environ.get("NVIDIA_TF32_OVERRIDE") != "0"


def observed(place: Place) -> list[str]:
    """Device ids as this process finds them bound, not as it was told."""
    if place.device_kind == "gpu":
        return [gpu_ids()[context.device_id] for context in contexts(place)]
    bound = tuple(sorted(os.sched_getaffinity(0)))
    return [d.id for d in place.devices] if bound == place.cores else [share_id(bound)]


def gpu_ids() -> list[str]:
    """The id of each GPU that MXNet finds.

    MXNet gives no UUID. CUDA numbers its devices as CUDA_VISIBLE_DEVICES lists them, so where that lists UUIDs, they
    are taken from there; where not, a GPU goes by MXNet's own name, `gpu(0)`.
    """
    listed = [entry.strip() for entry in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    names = [str(mx.gpu(i)) for i in range(mx.context.num_gpus())]
    return listed[: len(names)] if all(entry.startswith(("GPU-", "MIG-")) for entry in listed) else names


def versions() -> dict[str, str]:
    return {"mxnet": mx.__version__, "numpy": np.__version__}


def is_out_of_memory(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, mx.base.MXNetError) and (
        "out of memory" in text or "Failed to allocate CPU Memory" in text
    )


def peak_memory() -> tuple[int | None, str]:
    """Bytes at the peak, and of what: the fullest device, or the process.

    On a GPU, what is in use now: MXNet's pool keeps all that it ever took.
    """
    if n_gpus := mx.context.num_gpus():
        free_and_total = [mx.context.gpu_memory_info(i) for i in range(n_gpus)]
        return max(total - free for free, total in free_and_total), "device"
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "process"


def has(feature: str) -> bool:
    """Whether this MXNet was built with it."""
    return mx.runtime.Features().is_enabled(feature)


def discover() -> dict:
    """What MXNet finds by itself. It knows no GPU's name."""
    ids = gpu_ids()
    return {
        "version": mx.__version__,
        "gpus": [
            {"name": str(mx.gpu(i)), "id": gpu_id, "memory_bytes": mx.context.gpu_memory_info(i)[1]}
            for i, gpu_id in enumerate(ids)
        ],
        "details": {
            "mx.context.num_gpus": len(ids),
            "contexts": ", ".join(str(mx.gpu(i)) for i in range(len(ids))) or "cpu(0), cpu(1), …: one a CPU share",
            "built with": ", ".join(filter(has, FEATURES)) or "none of " + ", ".join(FEATURES),
            "GPU ids": "MXNet gives none; UUIDs where CUDA_VISIBLE_DEVICES lists them, else gpu(i)",
        },
    }
