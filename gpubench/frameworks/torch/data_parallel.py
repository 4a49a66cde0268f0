"""nn.DataParallel: one process; each step copies the model to every GPU, splits the batch and gathers the outputs."""

from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import nn

from gpubench.frameworks.torch.device import Autocast, autocast, devices, parameters_of
from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    torch.manual_seed(case.seed)
    device = devices(place)[0]
    model = workload.model().to(device)
    parallel = nn.DataParallel(Autocast(model, case, device), device_ids=devices(place))
    optimizer = workload.optimizer(model.parameters())
    inputs, labels_N = workload.batch(case.global_batch, device, seed=case.seed)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast(case, device):
            loss = F.cross_entropy(parallel(inputs), labels_N)
        loss.backward()
        optimizer.step()
        return loss.detach()

    yield Training(
        step=step,
        loss=float,
        world_size=lambda: len(devices_that_run(parallel, inputs)),
        replicas=lambda: [parameters_of(model)],  # the copies live for one step; the parameters stand once
        samples_per_step=len(labels_N),
    )


def devices_that_run(parallel: nn.DataParallel, inputs: torch.Tensor) -> set[torch.device]:
    """The devices on which a forward pass really computes: on a CPU, DataParallel uses one and does not say so."""
    seen = set()
    hook = parallel.module.register_forward_pre_hook(lambda module, args: seen.add(args[0].device))
    parallel.eval()  # batch norm's running statistics stay as they are
    with torch.no_grad():
        parallel(inputs)
    parallel.train()
    hook.remove()
    return seen
