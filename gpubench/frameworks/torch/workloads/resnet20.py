"""ResNet-20 for 32x32 images (He et al. 2015, section 4.2), 1x1 projection where the shape changes; SGD, momentum."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Sequential()
        if inputs != width:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        y_NCHW = F.relu(self.norm1(self.conv1(x_NCHW)))
        y_NCHW = self.norm2(self.conv2(y_NCHW))
        return F.relu(y_NCHW + self.shortcut(x_NCHW))


def model() -> nn.Module:
    stem = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    stages = [
        Block(inputs if block == 0 else width, width, stride if block == 0 else 1)
        for inputs, width, stride in [(16, 16, 1), (16, 32, 2), (32, 64, 2)]
        for block in range(3)
    ]
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def optimizer(parameters) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def batch(samples: int, device: torch.device, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs of shape (N, 3, 32, 32) and labels of shape (N,), made on the device."""
    generator = torch.Generator(device).manual_seed(seed)
    images_NCHW = torch.randn(samples, 3, 32, 32, device=device, generator=generator)
    return images_NCHW, torch.randint(10, (samples,), device=device, generator=generator)
