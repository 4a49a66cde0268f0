"""ResNet-50 v1.5 (He et al. 2015, with the stride in the 3x3 convolution) for 224x224 images; SGD with momentum."""

import torch
import torch.nn.functional as F
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(4 * width)
        self.shortcut = nn.Sequential()
        if inputs != 4 * width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        y_NCHW = F.relu(self.norm1(self.conv1(x_NCHW)))
        y_NCHW = F.relu(self.norm2(self.conv2(y_NCHW)))
        y_NCHW = self.norm3(self.conv3(y_NCHW))
        return F.relu(y_NCHW + self.shortcut(x_NCHW))


def model() -> nn.Module:
    layers = [
        nn.Conv2d(3, 64, 7, 2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    inputs = 64
    for width, blocks, stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def optimizer(parameters) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def batch(samples: int, device: torch.device, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs of shape (N, 3, 224, 224) and labels of shape (N,), made on the device."""
    generator = torch.Generator(device).manual_seed(seed)
    images_NCHW = torch.randn(samples, 3, 224, 224, device=device, generator=generator)
    return images_NCHW, torch.randint(1000, (samples,), device=device, generator=generator)
