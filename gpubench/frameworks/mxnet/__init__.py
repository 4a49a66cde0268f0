"""Apache MXNet 1.9.1, its last release."""

from pathlib import Path

from gpubench.spec.case import Place
from gpubench.spec.framework import Framework, Pythons, Strategy


def environment(place: Place) -> dict[str, str]:
    if place.device_kind == "gpu":
        return {"NVIDIA_TF32_OVERRIDE": "0"}  # fp32 is fp32: cuDNN 8 would round convolutions to TF32 unasked
    threads = str(len(place.cores) // len(place.devices))  # each cpu(i) has a worker thread with its own OpenMP team
    return {
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        # All cpu(i) share this many workspaces for convolutions (4 unless set), and wait for each other to use them:
        # the contexts of one process then run one after another, and scaling measures the queue.
        "MXNET_CPU_TEMP_COPY": "64",
        "CUDA_VISIBLE_DEVICES": "",
    }


FRAMEWORK = Framework(
    name="mxnet",
    summary="Apache MXNet",
    package=__name__,
    folder=Path(__file__).parent,
    distribution="mxnet",
    environment=environment,
    pythons=Pythons(
        newest=(3, 12),
        why="MXNet 1.9.1 needs NumPy 1, and the last release of NumPy 1 has no build for Python 3.13",
    ),
    workloads={name: f"workloads.{name}" for name in ("mlp", "resnet20", "resnet50")},
    strategies=(
        Strategy(name="single", summary="one device", module="single", max_devices=1),
        Strategy(
            name="trainer",
            summary="Gluon Trainer: one process, the batch split over contexts, gradients summed by a kvstore",
            module="trainer",
            aliases=("gluon.Trainer", "kvstore"),
        ),
    ),
)
