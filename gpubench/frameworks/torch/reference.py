"""What every strategy is verified against: one device takes the batches of n devices one after another.

Their gradients add up to the mean over the global batch before the optimizer's one step, and a batch norm sees each
device's batch by itself, as it does on n devices.
"""

from contextlib import contextmanager

import torch
import torch.nn.functional as F

from gpubench.frameworks.torch.device import autocast, devices, parameters_of
from gpubench.frameworks.torch.verification import count_macs
from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    torch.manual_seed(case.seed)
    (device,) = devices(place)
    model = workload.model().to(device)
    optimizer = workload.optimizer(model.parameters())
    batches = [workload.batch(case.per_device_batch, device, case.seed + index) for index in range(case.n_devices)]

    def step():
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for inputs, labels_N in batches:
            with autocast(case, device):
                loss = F.cross_entropy(model(inputs), labels_N) / len(batches)
            loss.backward()  # adds to the gradients
            total += loss.detach()
        optimizer.step()
        return total

    yield Training(
        step=step,
        loss=float,
        world_size=lambda: 1,
        replicas=lambda: [parameters_of(model)],
        samples_per_step=sum(len(labels_N) for _, labels_N in batches),
        macs=lambda: count_macs(workload, case),
        gradient_norm=lambda _: float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])),
    )
