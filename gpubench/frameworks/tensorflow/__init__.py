"""TensorFlow, with Keras 3."""

from pathlib import Path

from gpubench.spec.case import Place
from gpubench.spec.framework import Framework, Pythons, Strategy


def environment(place: Place) -> dict[str, str]:
    variables = {"TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"}
    if place.device_kind == "cpu":
        variables |= {"CUDA_VISIBLE_DEVICES": ""}  # threads are set in device.py: TensorFlow reads no variable for them
    return variables


FRAMEWORK = Framework(
    name="tensorflow",
    summary="TensorFlow",
    package=__name__,
    folder=Path(__file__).parent,
    distribution="tensorflow",
    environment=environment,
    pythons=Pythons(newest=(3, 13), why="TensorFlow 2.21.0 has no build for Python 3.14"),
    precisions={"cpu": ("fp32", "bf16"), "gpu": ("fp32", "tf32", "bf16")},
    workloads={name: f"workloads.{name}" for name in ("mlp", "resnet20", "resnet50")},
    strategies=(
        Strategy(name="single", summary="one device", module="single", max_devices=1),
        Strategy(
            name="mirrored",
            summary="MirroredStrategy, custom loop: a replica a device, gradients all-reduced (NCCL on GPUs)",
            module="mirrored",
            aliases=("MirroredStrategy",),
        ),
        Strategy(
            name="mirrored_fit",
            summary="MirroredStrategy with Keras compile and fit",
            module="mirrored_fit",
            aliases=("fit", "keras_fit"),
        ),
        Strategy(
            name="in_graph",
            summary="the batch split in the graph, a slice a device, one set of variables: multi_gpu_model's way",
            module="in_graph",
            aliases=("multi_gpu_model", "keras.utils.multi_gpu_model"),
        ),
    ),
)
