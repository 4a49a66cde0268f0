"""What someone would write without gpubench: the same models and batches in a bare PyTorch loop, timed by hand.

Started by overhead.py in torch's Python. For each line on standard input, a number of steps, it runs that many and
prints the seconds that they took.
"""

import os
import sys
import time

os.sched_setaffinity(0, {int(sys.argv[3])})
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import torch
import torch.nn.functional as F
from torch import nn


def mlp():
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


class Block(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.short = nn.Sequential()
        if inputs != width:
            self.short = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


def resnet20():
    blocks = [(16, 16, 1), (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2)]
    blocks += [(64, 64, 1), (64, 64, 1)]
    stem = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*stem, *(Block(*b) for b in blocks), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


torch.set_num_threads(1)
torch.manual_seed(0)
name, batch = sys.argv[1], int(sys.argv[2])
model = mlp() if name == "mlp" else resnet20()
x = torch.randn(batch, 784) if name == "mlp" else torch.randn(batch, 3, 32, 32)
y = torch.randint(10, (batch,))
if name == "mlp":
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
else:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(time.perf_counter() - start, flush=True)
