"""784-128-10 perceptron, ReLU, softmax cross-entropy, Adam."""

import torch
from torch import nn


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def optimizer(parameters) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.001)


def batch(samples: int, device: torch.device, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs of shape (N, 784) and labels of shape (N,), made on the device."""
    generator = torch.Generator(device).manual_seed(seed)
    images_NF = torch.randn(samples, 784, device=device, generator=generator)
    return images_NF, torch.randint(10, (samples,), device=device, generator=generator)
