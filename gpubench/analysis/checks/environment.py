"""Variables that make a framework slower on purpose: for debugging, for tracing, or around a fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpubench.spec.record import Check, RunRecord, Severity


@dataclass(frozen=True)
class Harm:
    """A variable, the values that do harm (a pattern for the whole value), how bad it is, and what it does."""

    variable: str
    values: str
    severity: Severity
    effect: str


_ON = "(?!(0|false|off|no)$).+"  # set to anything but "no"
_OFF = "0|false|off|no"
_LOGS = "(?!(0|none)$).+"
_OLDER = "(?!(default|all)$).+"  # the highest set of instructions that is named
_SANITIZER = r".*(lib[atlm]san|libubsan|vgpreload|libefence|libduma).*"

# Severe: each step, kernel or exchange does something that training does not. Warning: slower kernels or paths, which
# a machine may need, and which a number measured with them must own up to.
HARMS = (
    Harm("CUDA_LAUNCH_BLOCKING", _ON, "severe", "the host waits for every kernel"),
    Harm("CUDA_INJECTION64_PATH", ".+", "warning", "a profiler is loaded into the process"),
    Harm("PYTORCH_NO_CUDA_MEMORY_CACHING", _ON, "severe", "every tensor is allocated by the driver"),
    Harm("TORCH_DISTRIBUTED_DEBUG", "detail", "severe", "every collective is checked by another one"),
    Harm("TORCH_NCCL_BLOCKING_WAIT", _ON, "warning", "the host waits for every collective"),
    Harm("NCCL_BLOCKING_WAIT", _ON, "warning", "the host waits for every collective"),
    Harm("NCCL_DEBUG", "trace", "severe", "NCCL logs every call"),
    Harm("NCCL_P2P_DISABLE", _ON, "warning", "GPUs exchange through host memory"),
    Harm("NCCL_SHM_DISABLE", _ON, "warning", "GPUs exchange through the network"),
    Harm("NCCL_IB_DISABLE", _ON, "warning", "nodes exchange without InfiniBand"),
    Harm("TF_CPP_MAX_VLOG_LEVEL", "[1-9][0-9]*", "severe", "TensorFlow logs every operation"),
    Harm("TF_DETERMINISTIC_OPS", _ON, "warning", "slower, deterministic kernels"),
    Harm("TF_CUDNN_DETERMINISTIC", _ON, "warning", "slower, deterministic kernels"),
    Harm("TF_ENABLE_ONEDNN_OPTS", _OFF, "warning", "CPU kernels without oneDNN"),
    Harm("XLA_FLAGS", ".*--xla_dump_.*", "warning", "XLA writes what it compiles to disk"),
    Harm("MXNET_ENGINE_TYPE", "naiveengine", "severe", "MXNet waits for every operation"),
    Harm("MXNET_PROFILER_AUTOSTART", _ON, "severe", "MXNet's profiler is on"),
    Harm("MXNET_ENFORCE_DETERMINISM", _ON, "warning", "slower, deterministic kernels"),
    Harm("MXNET_CUDNN_AUTOTUNE_DEFAULT", _OFF, "warning", "convolutions are not tuned"),
    Harm("MKL_VERBOSE", _ON, "severe", "MKL logs every call"),
    Harm("MKL_ENABLE_INSTRUCTIONS", ".+", "warning", "MKL leaves out newer instructions of the CPU"),
    Harm("MKL_DEBUG_CPU_TYPE", ".+", "warning", "MKL takes the kernels of another CPU"),
    Harm("MKL_CBWR", "(?!(auto|off)$).+", "warning", "MKL takes kernels that give the same bits on every CPU"),
    Harm("MKL_DISABLE_FAST_MM", _ON, "warning", "MKL allocates anew for every call"),
    Harm("ONEDNN_VERBOSE", _LOGS, "severe", "oneDNN logs every operation"),
    Harm("DNNL_VERBOSE", _LOGS, "severe", "oneDNN logs every operation"),
    Harm("MKLDNN_VERBOSE", _LOGS, "severe", "oneDNN logs every operation"),
    Harm("ONEDNN_MAX_CPU_ISA", _OLDER, "warning", "oneDNN leaves out newer instructions of the CPU"),
    Harm("DNNL_MAX_CPU_ISA", _OLDER, "warning", "oneDNN leaves out newer instructions of the CPU"),
    Harm("ATEN_CPU_CAPABILITY", ".+", "warning", "PyTorch's own kernels leave out newer instructions of the CPU"),
    Harm("OPENBLAS_CORETYPE", ".+", "warning", "OpenBLAS takes the kernels that are named, not those of this CPU"),
    Harm("TF_DISABLE_JIT_KERNELS", _ON, "warning", "TensorFlow leaves out compiled kernels"),
    Harm("TF_CUDNN_USE_AUTOTUNE", _OFF, "warning", "convolutions are not tuned"),
    Harm("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "(?!100$).+", "warning", "only a part of each GPU may be used"),
    Harm("CUDA_FORCE_PTX_JIT", _ON, "warning", "kernels that are made for this GPU are left out"),
    Harm("GOMP_DEBUG", _ON, "warning", "the thread library logs what it does"),
    Harm("MALLOC_PERTURB_", "(?!0$).+", "warning", "the allocator fills all memory that it gives"),
    Harm("MALLOC_CHECK_", "(?!0$).+", "warning", "the allocator checks its memory"),
    Harm("LD_DEBUG", ".+", "severe", "the loader logs every symbol"),
    Harm("KINETO_USE_DAEMON", _ON, "warning", "PyTorch's profiler may be started from outside"),
    Harm("LD_PRELOAD", _SANITIZER, "severe", "a memory checker is loaded into the process"),
    Harm("LD_PRELOAD", ".+", "warning", "a library is put before all others"),
    Harm("PYTHONMALLOC", ".*debug", "warning", "Python checks its memory"),
    Harm("PYTHONDEVMODE", _ON, "warning", "Python runs in development mode"),
    Harm("PYTHONTRACEMALLOC", _ON, "warning", "Python traces its memory"),
)


def harmful(environment: Mapping[str, str]) -> dict[str, Harm]:
    """The variables that are set to something that does harm."""
    found: dict[str, Harm] = {}
    for harm in HARMS:
        if harm.variable not in environment:
            continue
        value = environment[harm.variable].strip()
        if value and re.fullmatch(harm.values, value, re.IGNORECASE | re.DOTALL):
            found.setdefault(harm.variable, harm)  # of two for one variable the worse stands first
    return found


def _debug_environment(record: RunRecord) -> Iterator[Check]:
    if found := harmful(record.environment):
        told = [f"{name}={record.environment[name][:60]} ({harm.effect})" for name, harm in found.items()]
        yield Check(
            name="debug_environment",
            severity="severe" if any(harm.severity == "severe" for harm in found.values()) else "warning",
            message="; ".join(told),
            remedy=f"unset {', '.join(found)} in the shell that starts the run, or say why the machine needs it",
        )


def _debug_build(record: RunRecord) -> Iterator[Check]:
    found = [f"{package} {version}" for package, version in record.software.items() if "debug" in version]
    if found:
        yield Check(
            name="debug_build",
            severity="severe",
            message=f"{', '.join(found)}: every operation is checked",
            remedy="measure with the release build",
        )


DOUBTS: tuple[Callable[[RunRecord], Iterator[Check]], ...] = (_debug_environment, _debug_build)
