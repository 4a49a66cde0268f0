"""The weights and samples that every framework is given, in PyTorch's layout; and PyTorch's weights in everyone's."""

from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from gpubench.frameworks.neutral import ADAM_EPSILON, Samples, fitted, write_replicas
from gpubench.spec.case import Case
from gpubench.spec.workload import WORKLOADS


class Given:
    """Stands in for a workload: its model starts from given weights, and its batches hold given samples."""

    def __init__(self, workload: ModuleType, case: Case, file: str) -> None:
        self.workload = workload
        self.samples = Samples(case, file)

    def model(self) -> nn.Module:
        model = self.workload.model()
        parameters = list(model.parameters())
        shapes = [to_neutral(parameter.detach().numpy()).shape for parameter in parameters]
        with torch.no_grad():
            for parameter, weight in zip(parameters, fitted(self.samples.weights, shapes), strict=True):
                parameter.copy_(torch.from_numpy(from_neutral(weight)))
        return model

    def optimizer(self, parameters) -> torch.optim.Optimizer:
        optimizer = self.workload.optimizer(parameters)
        for group in optimizer.param_groups:
            if "eps" in group:
                group["eps"] = ADAM_EPSILON
        return optimizer

    def batch(self, samples: int, device: torch.device, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, labels_N = self.samples.batch(samples, seed)
        if inputs.ndim == 4:
            inputs = np.ascontiguousarray(inputs.transpose(0, 3, 1, 2))
        return torch.from_numpy(inputs).to(device), torch.from_numpy(labels_N).long().to(device)


def to_neutral(array: np.ndarray) -> np.ndarray:
    """Dense (out, in) to (in, out); convolution (out, in, height, width) to (height, width, in, out)."""
    return array.transpose({1: (0,), 2: (1, 0), 4: (2, 3, 1, 0)}[array.ndim])


def from_neutral(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.transpose({1: (0,), 2: (1, 0), 4: (3, 2, 0, 1)}[array.ndim]))


def export(replicas: list, file: Path) -> None:
    write_replicas(file, [[to_neutral(array) for array in replica] for replica in replicas])


def count_macs(workload: Given, case: Case) -> int:
    """Multiply-adds of a forward pass over one sample, by PyTorch's own counter of what is really called."""
    height_width_channels = WORKLOADS[case.workload].input_shape_HWC
    model = workload.model().eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, *height_width_channels[-1:], *height_width_channels[:-1]))
    return counter.get_total_flops() // 2
