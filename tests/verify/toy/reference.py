"""One device takes the batches of n devices one after another."""

from contextlib import contextmanager

import numpy as np

from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    model = workload.model()
    optimizer = workload.Optimizer(model)
    batches = [workload.batch(case.per_device_batch, seed=case.seed + index) for index in range(case.n_devices)]

    def step():
        results = [workload.loss_and_gradients(model, *batch) for batch in batches]
        losses, gradients = zip(*results, strict=True)
        means = [sum(parts) / np.float32(len(parts)) for parts in zip(*gradients, strict=True)]
        optimizer.step(means)
        return sum(losses) / len(losses), means

    yield Training(
        step=step,
        loss=lambda result: float(result[0]),
        world_size=lambda: 1,
        replicas=lambda: [model],
        samples_per_step=sum(len(labels_N) for _, labels_N in batches),
        macs=lambda: sum(parameter.size for parameter in model if parameter.ndim == 2),
        gradient_norm=lambda result: float(np.sqrt(sum((mean.astype(float) ** 2).sum() for mean in result[1]))),
    )
