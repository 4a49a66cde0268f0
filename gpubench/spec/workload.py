"""What a workload is: a model with its input, the same in every framework.

Parameters and FLOPs are worked out from the layers, so that each framework's own count can be checked against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

GIB = 1024**3


@dataclass(frozen=True)
class Layer:
    """One layer that has parameters: how many, and how many multiply-adds it takes for one sample."""

    name: str
    parameters: int
    macs: int


def dense(name: str, inputs: int, outputs: int) -> Layer:
    return Layer(name, inputs * outputs + outputs, inputs * outputs)


def conv(name: str, kernel: int, inputs: int, outputs: int, size: int) -> Layer:
    """A square convolution without bias, giving `size` x `size` outputs, with batch norm behind it.

    The batch norm adds a scale and a shift for each channel; its arithmetic is not counted, as is customary.
    """
    weights = kernel * kernel * inputs * outputs
    return Layer(name, weights + 2 * outputs, weights * size * size)


@dataclass(frozen=True)
class Workload:
    """A model with its input.

    `input_shape_HWC` is one sample's shape, channels last, whatever layout a framework prefers.
    `cpu_batch_per_core` gives a one-core CPU share steps of 50 ms and more; shorter ones measure wake-ups.
    `gpu_batches` are (device memory in GiB, per-device batch) pairs, largest first: the first that fits is taken.
    """

    name: str
    summary: str
    sample_unit: str
    input_shape_HWC: tuple[int, ...]
    classes: int
    optimizer: str
    learning_rate: float
    layers: tuple[Layer, ...]
    cpu_batch_per_core: int
    gpu_batches: tuple[tuple[int, int], ...]

    @cached_property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @cached_property
    def macs_per_sample(self) -> int:
        """Multiply-adds of one forward pass over one sample."""
        return sum(layer.macs for layer in self.layers)

    @cached_property
    def training_flops_per_sample(self) -> int:
        """FLOPs of forward and backward: 2 a multiply-add, and backward costs twice forward (PaLM, appendix B)."""
        return 3 * 2 * self.macs_per_sample

    def default_batch(self, device_kind: str, cores_per_device: int, memory_bytes: int | None) -> int:
        """The per-device batch where the user names none."""
        if device_kind == "cpu":
            return self.cpu_batch_per_core * max(1, cores_per_device)
        memory_gib = (memory_bytes or 0) / GIB
        fitting = [batch for gib, batch in self.gpu_batches if memory_gib >= gib]
        return fitting[0] if fitting else self.gpu_batches[-1][1]


def _resnet20() -> Sequence[Layer]:
    """CIFAR-10 ResNet-20 (He et al. 2015, arXiv 1512.03385, section 4.2), 1x1 projection where the shape changes."""
    layers = [conv("stem", 3, 3, 16, 32)]
    inputs = 16
    for stage, (width, size) in enumerate([(16, 32), (32, 16), (64, 8)]):
        for block in range(3):
            layers.append(conv(f"stage{stage}.{block}.conv1", 3, inputs, width, size))
            layers.append(conv(f"stage{stage}.{block}.conv2", 3, width, width, size))
            if inputs != width:
                layers.append(conv(f"stage{stage}.{block}.shortcut", 1, inputs, width, size))
            inputs = width
    return [*layers, dense("head", 64, 10)]


def _resnet50() -> Sequence[Layer]:
    """ResNet-50 v1.5: as He et al. 2015, table 1, with the stride in the 3x3 convolution of a bottleneck."""
    layers = [conv("stem", 7, 3, 64, 112)]
    inputs, size_in = 64, 56
    for stage, (width, blocks, size) in enumerate([(64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7)]):
        for block in range(blocks):
            layers.append(conv(f"stage{stage}.{block}.conv1", 1, inputs, width, size_in))
            layers.append(conv(f"stage{stage}.{block}.conv2", 3, width, width, size))
            layers.append(conv(f"stage{stage}.{block}.conv3", 1, width, 4 * width, size))
            if block == 0:
                layers.append(conv(f"stage{stage}.{block}.shortcut", 1, inputs, 4 * width, size))
            inputs, size_in = 4 * width, size
    return [*layers, dense("head", 2048, 1000)]


WORKLOADS = {
    workload.name: workload
    for workload in [
        Workload(
            name="mlp",
            summary="784-128-10 perceptron, ReLU, softmax cross-entropy: the classic two-layer net",
            sample_unit="image",
            input_shape_HWC=(784,),
            classes=10,
            optimizer="adam",
            learning_rate=0.001,
            layers=(dense("hidden", 784, 128), dense("head", 128, 10)),
            cpu_batch_per_core=16384,
            gpu_batches=((0, 65536),),
        ),
        Workload(
            name="resnet20",
            summary="ResNet-20 at CIFAR-10's 32x32: small enough for a CPU",
            sample_unit="image",
            input_shape_HWC=(32, 32, 3),
            classes=10,
            optimizer="sgd",
            learning_rate=0.1,
            layers=tuple(_resnet20()),
            cpu_batch_per_core=32,
            gpu_batches=((0, 1024),),
        ),
        Workload(
            name="resnet50",
            summary="ResNet-50 v1.5 at 224x224, stride in the 3x3",
            sample_unit="image",
            input_shape_HWC=(224, 224, 3),
            classes=1000,
            optimizer="sgd",
            learning_rate=0.1,
            layers=tuple(_resnet50()),
            cpu_batch_per_core=4,
            gpu_batches=((70, 256), (38, 192), (22, 96), (14, 64), (10, 48), (0, 32)),
        ),
    ]
}
