"""One device: the baseline that every efficiency is measured against."""

from contextlib import contextmanager

import torch
import torch.nn.functional as F

from gpubench.frameworks.torch.device import autocast, devices, parameters_of
from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    torch.manual_seed(case.seed)
    (device,) = devices(place)
    model = workload.model().to(device)
    optimizer = workload.optimizer(model.parameters())
    inputs, labels_N = workload.batch(case.per_device_batch, device, seed=case.seed)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast(case, device):
            loss = F.cross_entropy(model(inputs), labels_N)
        loss.backward()
        optimizer.step()
        return loss.detach()  # stays on the device: float(loss) here would wait for it every step

    yield Training(
        step=step,
        loss=float,
        world_size=lambda: 1,
        replicas=lambda: [parameters_of(model)],
        samples_per_step=len(labels_N),
    )
