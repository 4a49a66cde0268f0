"""The weights and samples that every framework is given, in MXNet's layout; and MXNet's weights in everyone's."""

from math import prod
from pathlib import Path
from types import ModuleType

import numpy as np

from gpubench.frameworks.mxnet.compat import gluon, mx
from gpubench.frameworks.neutral import ADAM_EPSILON, Samples, fitted, write_replicas
from gpubench.spec.case import Case
from gpubench.spec.workload import WORKLOADS


class Given:
    """Stands in for a workload: its model starts from given weights, and its batches hold given samples."""

    def __init__(self, workload: ModuleType, case: Case, file: str) -> None:
        self.workload = workload
        self.samples = Samples(case, file)

    def model(self) -> gluon.HybridBlock:
        """A model that takes the given weights when it is initialized: before that, it has no arrays."""
        model = self.workload.model()
        initialize = model.initialize

        def initialize_as_given(*args, **kwargs):
            initialize(*args, **kwargs)
            parameters = [p for p in model.collect_params().values() if p.grad_req != "null"]
            shapes = [neutral_shape(parameter.shape) for parameter in parameters]
            for parameter, weight in zip(parameters, fitted(self.samples.weights, shapes), strict=True):
                parameter.set_data(mx.nd.array(from_neutral(weight)))

        model.initialize = initialize_as_given
        return model

    def optimizer(self) -> mx.optimizer.Optimizer:
        optimizer = self.workload.optimizer()
        if isinstance(optimizer, mx.optimizer.Adam):
            optimizer.epsilon = ADAM_EPSILON
        return optimizer

    def batch(self, samples: int, context: mx.Context, seed: int) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
        inputs, labels_N = self.samples.batch(samples, seed)
        if inputs.ndim == 4:
            inputs = inputs.transpose(0, 3, 1, 2)
        return mx.nd.array(inputs, ctx=context), mx.nd.array(labels_N, ctx=context, dtype="int32")


def to_neutral(array: np.ndarray) -> np.ndarray:
    """Dense (out, in) to (in, out); convolution (out, in, height, width) to (height, width, in, out)."""
    return array.transpose({1: (0,), 2: (1, 0), 4: (2, 3, 1, 0)}[array.ndim])


def from_neutral(array: np.ndarray) -> np.ndarray:
    return array.transpose({1: (0,), 2: (1, 0), 4: (3, 2, 0, 1)}[array.ndim])


def neutral_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return to_neutral(np.broadcast_to(np.float32(0), shape)).shape


def export(replicas: list, file: Path) -> None:
    write_replicas(file, [[to_neutral(array) for array in replica] for replica in replicas])


def count_macs(workload: Given, case: Case) -> int:
    """Multiply-adds of a forward pass over one sample, from the arrays that really went through each layer.

    MXNet has no counter of its own. Each value that a convolution or a dense layer gives takes one row of its weights.
    """
    height_width_channels = WORKLOADS[case.workload].input_shape_HWC
    macs = []

    def count(layer, inputs, output_NC):
        macs.append(prod(output_NC.shape) * prod(layer.weight.shape[1:]))

    def watch(layer):
        if isinstance(layer, (gluon.nn.Conv2D, gluon.nn.Dense)):
            layer.register_forward_hook(count)

    model = workload.model()
    model.initialize(mx.init.Zero(), ctx=mx.cpu())
    model.apply(watch)
    model(mx.nd.zeros((1, *height_width_channels[-1:], *height_width_channels[:-1])))
    return sum(macs)
