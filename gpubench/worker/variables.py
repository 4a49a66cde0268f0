"""Which environment variables a record tells of: all that a framework, its libraries or the driver may read.

They are known by prefix, as new versions bring new names. The names behind the prefixes are those that the libraries
in the wheels hold, and those of these pages: PyTorch "Environment Variables"; oneDNN "CPU Dispatcher Control",
"Verbose Mode"; oneMKL "Environment Variables"; GNU libgomp and LLVM OpenMP "Environment Variables"; OpenBLAS "Runtime
variables"; CUDA C++ "Environment Variables"; NCCL "Environment Variables"; MXNet "Environment Variables"; XLA "Flags
Guidance"; ROCm "Environment variables reference"; UCX and libfabric "fi_getinfo"; CPython "Command line and
environment"; glibc "Tunables"; ld.so(8); jemalloc and gperftools "TUNING".
"""

from __future__ import annotations

from collections.abc import Mapping

from gpubench.spec.secrets import holds_secret, is_secret_name

PREFIXES = (
    # PyTorch, its compilers, and what it is built on
    *("TORCH", "PYTORCH_", "ATEN_", "C10_", "CAFFE2_", "KINETO_", "TRITON_"),
    # TensorFlow. Not all of `TF_`: Terraform's variables share it, and hold secrets.
    *("TF2_", "TF_AUTO", "TF_BFC_", "TF_CONV2D_", "TF_CPP_", "TF_CPU_", "TF_CUBLAS", "TF_CUDA", "TF_CUDNN_"),
    *("TF_DATA_EXPERIMENT_", "TF_DEBUG_", "TF_DETERMINISTIC_", "TF_DISABLE_", "TF_DUMP_", "TF_EAGER_", "TF_ENABLE"),
    *("TF_FORCE_", "TF_FP16_", "TF_FP32_", "TF_GPU_", "TF_GRAPH_", "TF_JITRT_", "TF_LOG_XLA_", "TF_MATMUL_"),
    *("TF_MKL_", "TF_NUM_", "TF_ONEDNN_", "TF_OVERRIDE_", "TF_PER_DEVICE_", "TF_PROFILER_", "TF_RUN_HANDLER_"),
    *("TF_SET_", "TF_SYNC_", "TF_USE_", "TF_XLA_", "KERAS_", "AUTOGRAPH_", "XLA_", "JAX_"),
    *("MXNET_", "PS_"),
    # kernels and threads of CPUs
    *("ONEDNN_", "DNNL_", "MKLDNN_", "MKL_", "OMP_", "KMP_", "GOMP_", "OPENBLAS_", "GOTO_", "BLIS_", "NVPL_", "ACL_"),
    # GPUs, and what moves data between them
    *("CUDA_", "CUBLAS", "CUDNN_", "NVIDIA_", "NCCL_", "GLOO_", "UCX_", "UCC_", "FI_"),
    *("HIP_", "ROCR_", "ROCM_", "HSA_", "AMD_", "GPU_", "MIOPEN_", "RCCL_", "ROCBLAS_", "HIPBLAS"),
    # memory, loader, Python
    *("MALLOC_", "JEMALLOC_", "MIMALLOC_", "TCMALLOC_", "GLIBC_TUNABLES", "LD_", "ASAN_OPTIONS", "TSAN_OPTIONS"),
    *("LSAN_OPTIONS", "UBSAN_OPTIONS", "PYTHON"),
)
LONGEST_VALUE = 2000  # characters; no setting is as long
HIDDEN = "set; not recorded, as it may be a secret"


def recorded(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that may matter, with values that are text; of what looks like a secret, only that it is set."""
    return {_text(name): _value(name, value) for name, value in environment.items() if name.startswith(PREFIXES)}


def _value(name: str, value: str) -> str:
    if is_secret_name(name) or holds_secret(value):
        return HIDDEN
    return _text(value)[:LONGEST_VALUE]


def _text(value: str) -> str:
    """What JSON can carry: bytes that are no UTF-8 are replaced."""
    return value.encode(errors="surrogateescape").decode(errors="replace")
