"""What someone would write without gpubench, a bare PyTorch loop timed by hand, beside gpubench's own rounds.

Started by overhead.py in torch's Python, on one core. For each line on standard input, `hand 20` or `gpubench 20`, it
runs that many steps that way and prints the samples/s. Both ways train the same model on the same batch: two processes
would differ by where their memory happens to lie, which is more than what is being looked for.
"""

import importlib.util
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

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


def by_hand(steps):
    start = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return steps * batch / (time.perf_counter() - start)


def gpubench_package():
    """Makes gpubench importable from where it lies, as a worker does it."""
    folder = Path(__file__).resolve().parents[2] / "gpubench"
    spec = importlib.util.spec_from_file_location(
        "gpubench", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    sys.modules["gpubench"] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)


class OneOrder:
    """A channel whose harness orders one round, then ends."""

    def __init__(self, steps):
        self.orders = [RunSteps(steps=steps, phase="round"), Finish()]

    def receive(self):
        return self.orders.pop(0)

    def send(self, message):
        self.done = message


gpubench_package()
from gpubench.frameworks.torch import device, single
from gpubench.spec.case import Case, Device, Place
from gpubench.spec.messages import Finish, RunSteps
from gpubench.worker.loop import Worker

share = Device(kind="cpu", id="core", name="share", cores=(int(sys.argv[3]),))
place = Place(rank=0, world_size=1, devices=(share,), all_devices=(share,))
case = Case(
    workload=name,
    framework="torch",
    strategy="single",
    device_kind="cpu",
    n_devices=1,
    per_device_batch=batch,
    global_batch=batch,
)
same = SimpleNamespace(model=lambda: model, optimizer=lambda _: optimizer, batch=lambda *_, seed: (x, y))

with single.training(case, place, same) as training:

    def with_gpubench(steps):
        channel = OneOrder(steps)
        Worker(channel).rounds(training, device)
        return channel.done.samples / ((channel.done.end_ns - channel.done.start_ns) / 1e9)

    for line in sys.stdin:
        way, steps = line.split()
        print((by_hand if way == "hand" else with_gpubench)(int(steps)), flush=True)
