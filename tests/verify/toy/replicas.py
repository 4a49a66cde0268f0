"""One process drives a replica on each device, and averages their gradients."""

from contextlib import contextmanager

import numpy as np

from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    replicas = [workload.model() for _ in place.devices]
    optimizers = [workload.Optimizer(replica) for replica in replicas]
    batches = [workload.batch(case.per_device_batch, seed=case.seed + index) for index in range(len(replicas))]

    def step():
        results = [
            workload.loss_and_gradients(replica, *batch) for replica, batch in zip(replicas, batches, strict=True)
        ]
        losses, gradients = zip(*results, strict=True)
        means = [sum(parts) / np.float32(len(parts)) for parts in zip(*gradients, strict=True)]
        for optimizer in optimizers:
            optimizer.step(means)
        return sum(losses) / len(losses)

    yield Training(
        step=step,
        loss=float,
        world_size=lambda: len(replicas),
        replicas=lambda: replicas,
        samples_per_step=sum(len(labels_N) for _, labels_N in batches),
    )
