"""DistributedDataParallel: a process a device, gradients all-reduced in buckets while backward goes on."""

from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from gpubench.frameworks.torch.device import autocast, devices, meeting_place, parameters_of
from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    torch.manual_seed(case.seed)
    (device,) = devices(place)
    dist.init_process_group(
        backend="nccl" if device.type == "cuda" else "gloo",
        store=meeting_place(place),
        rank=place.rank,
        world_size=place.world_size,
        timeout=timedelta(seconds=place.collective_timeout_seconds),
    )
    model = workload.model().to(device)
    replica = DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)
    optimizer = workload.optimizer(replica.parameters())
    inputs, labels_N = workload.batch(case.per_device_batch, device, seed=case.seed + place.rank)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast(case, device):
            loss = F.cross_entropy(replica(inputs), labels_N)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def world_size():
        ones = torch.ones((), device=device)
        dist.all_reduce(ones)
        return int(ones)

    yield Training(
        step=step,
        loss=float,
        world_size=world_size,
        replicas=lambda: [parameters_of(model)],
        samples_per_step=len(labels_N),
    )
    dist.destroy_process_group()
