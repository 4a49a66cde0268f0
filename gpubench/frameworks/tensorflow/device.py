"""TensorFlow's devices: take this process's own, wait for them, say what they are."""

import ctypes
import os
import resource
import uuid

import keras
import tensorflow as tf
from tensorflow.python.eager import context

from gpubench.spec.case import Case, Place, share_id


def take(case: Case, place: Place) -> None:
    """Bind this process to its devices. Must come before TensorFlow's first operation: counts are fixed there."""
    tf.config.experimental.enable_tensor_float_32_execution(case.precision == "tf32")
    if case.precision == "bf16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    if place.device_kind == "gpu":
        gpus = tf.config.list_physical_devices("GPU")
        mine = [gpus[place.all_devices.index(device)] for device in place.devices]
        tf.config.set_visible_devices(mine, "GPU")
        allow_growth(mine)
    else:
        take_cpu_shares(place)


def take_cpu_shares(place: Place) -> None:
    """One logical CPU device a share. TensorFlow has one pool of threads for all of them, so it is sized for all.

    With one core a share, each operation stays on the thread that started it, and n replicas keep n threads busy.
    """
    (cpu,) = tf.config.list_physical_devices("CPU")
    shares = len(place.devices)
    tf.config.set_visible_devices([], "GPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * shares)
    one_core_each = len(place.cores) == shares
    tf.config.threading.set_intra_op_parallelism_threads(1 if one_core_each else len(place.cores))
    tf.config.threading.set_inter_op_parallelism_threads(shares)


def allow_growth(gpus: list) -> None:
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)  # else the first process takes a GPU's memory whole


def devices(place: Place) -> list[str]:
    """The names of this process's devices: it sees no others, so they count from 0."""
    return [f"/{place.device_kind.upper()}:{index}" for index in range(len(place.devices))]


def wait(result: object) -> None:
    """Return once every device is idle; `result` alone would tell of one of them."""
    tf.test.experimental.sync_devices()


def replicas_that_run(strategy: tf.distribute.Strategy) -> set[str]:
    """The devices on which the strategy really runs a replica's operation."""

    @tf.function
    def run():
        return strategy.run(tf.random.uniform, args=([],))

    return {result.backing_device for result in strategy.experimental_local_results(run())}


def mirrors_of(model: keras.Model, strategy: tf.distribute.Strategy) -> list[list]:
    """The trainable parameters as host arrays, in the order of the layers, for each replica."""
    mirrors = [strategy.experimental_local_results(variable.value) for variable in model.trainable_variables]
    return [[copy.numpy() for copy in replica] for replica in zip(*mirrors, strict=True)]


PRODUCTS = ("MatMul", "BatchMatMul", "Conv", "DepthwiseConv", "Einsum")  # how the operations that multiply begin


def product_types(step, watched) -> set[str] | None:
    """The types that matrix products and convolutions take in the functions that TensorFlow has traced so far.

    None where no function was traced. No step is run for it.
    """
    traced = context.context()
    functions = [traced.get_function_def(name) for name in traced.list_function_names()]
    nodes = [node for function in functions for node in function.node_def if node.op.lstrip("_").startswith(PRODUCTS)]
    return {tf.as_dtype(node.attr["T"].type).name for node in nodes} or None


def tf32() -> bool:
    """Whether float32 may be rounded to TF32 where a GPU multiplies it."""
    return tf.config.experimental.tensor_float_32_execution_enabled()


def observed(place: Place) -> list[str]:
    """Device ids as this process finds them bound, not as it was told."""
    if place.device_kind == "gpu":
        return [gpu["id"] for gpu in gpus_found()]
    bound = tuple(sorted(os.sched_getaffinity(0)))
    as_told = bound == place.cores and len(tf.config.list_logical_devices("CPU")) == len(place.devices)
    return [device.id for device in place.devices] if as_told else [share_id(bound)]


def gpus_found() -> list[dict]:
    """Name, id and memory in bytes of each GPU that TensorFlow may use in this process."""
    found = []
    for gpu in tf.config.get_visible_devices("GPU"):
        ordinal = int(gpu.name.rsplit(":", 1)[1])  # /physical_device:GPU:0 is CUDA's device 0 of this process
        identifier, memory_bytes = ask_cuda(ordinal)
        name = tf.config.experimental.get_device_details(gpu)["device_name"]
        found.append({"name": name, "id": identifier, "memory_bytes": memory_bytes})
    return found


def ask_cuda(ordinal: int) -> tuple[str, int]:
    """A GPU's UUID, by which the harness knows it, and its memory in bytes. TensorFlow tells neither.

    The functions are those of the CUDA Driver API, "Device Management".
    """
    cuda = ctypes.CDLL("libcuda.so.1")
    device, memory_bytes, identifier = ctypes.c_int(), ctypes.c_size_t(), (ctypes.c_ubyte * 16)()
    error = (
        cuda.cuInit(0)
        or cuda.cuDeviceGet(ctypes.byref(device), ordinal)
        or cuda.cuDeviceGetUuid(ctypes.byref(identifier), device)
        or cuda.cuDeviceTotalMem_v2(ctypes.byref(memory_bytes), device)
    )
    if error:
        raise RuntimeError(f"The CUDA driver does not say which GPU its device {ordinal} is: CUDA error {error}.")
    return f"GPU-{uuid.UUID(bytes=bytes(identifier))}", memory_bytes.value


def versions() -> dict[str, str]:
    found = {"tensorflow": tf.__version__, "keras": keras.__version__}
    build = tf.sysconfig.get_build_info()
    if build["is_cuda_build"]:
        found |= {"cuda_runtime": build["cuda_version"], "cudnn": build["cudnn_version"]}
    return found


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, tf.errors.ResourceExhaustedError) or "bad_alloc" in str(error)


def peak_memory() -> tuple[int | None, str]:
    """Bytes at the peak, and of what: the fullest device's tensors, or the process."""
    gpus = tf.config.list_logical_devices("GPU")
    if gpus:
        return max(tf.config.experimental.get_memory_info(gpu.name)["peak"] for gpu in gpus), "device"
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "process"


def discover() -> dict:
    """What `tf.config` finds by itself."""
    allow_growth(tf.config.list_physical_devices("GPU"))
    return {
        "version": tf.__version__,
        "gpus": gpus_found(),
        "details": {
            "physical devices": names(tf.config.list_physical_devices()),
            "logical devices": names(tf.config.list_logical_devices()),
            "built for CUDA": tf.sysconfig.get_build_info().get("cuda_version", "no: a CPU build"),
            "keras": keras.__version__,
        },
    }


def names(found: list) -> str:
    return ", ".join(device.name for device in found)
