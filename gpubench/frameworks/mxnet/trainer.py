"""Gluon Trainer: a replica on each context, the batch split over them, gradients summed by a kvstore every step."""

from contextlib import contextmanager

from gpubench.frameworks.mxnet.compat import autograd, gluon, mx
from gpubench.frameworks.mxnet.device import contexts, has, initializer, parameters_of
from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    mx.random.seed(case.seed)
    devices = contexts(place)
    model = workload.model()
    model.initialize(initializer(), ctx=devices)
    model.hybridize(static_alloc=True, static_shape=True)
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    kvstore = kvstore_type(place)
    trainer = gluon.Trainer(model.collect_params(), workload.optimizer(), kvstore=kvstore)
    inputs, labels_N = workload.batch(case.global_batch, mx.cpu(), seed=case.seed)
    slices = list(
        zip(
            gluon.utils.split_and_load(inputs, devices),
            gluon.utils.split_and_load(labels_N, devices),
            strict=True,
        )
    )
    samples = sum(len(labels_N) for _, labels_N in slices)

    def step():
        with autograd.record():
            losses_N = [loss_function(model(inputs), labels_N) for inputs, labels_N in slices]
        for loss_N in losses_N:
            loss_N.backward()
        trainer.step(samples)  # backward sums over the samples of all slices; this divides by them
        return losses_N  # stay on their devices: asnumpy() here would wait for them every step

    yield Training(
        step=step,
        loss=lambda losses_N: sum(float(loss_N.mean().asscalar()) for loss_N in losses_N) / len(losses_N),
        world_size=lambda: devices_that_add_up(kvstore, devices),
        replicas=lambda: [parameters_of(model, device) for device in devices],
        samples_per_step=samples,
    )


def kvstore_type(place) -> str | None:
    """NCCL where MXNet was built with it; else "device", which copies between devices by itself."""
    return "nccl" if place.device_kind == "gpu" and has("NCCL") else "device"


def devices_that_add_up(kvstore: str | None, devices: list[mx.Context]) -> int:
    """Push a one from each device through a kvstore of the trainer's type, and read their sum back on each.

    Without a kvstore nothing is summed: each replica trains alone, and the Trainer does not say so.
    The trainer's own kvstore would not do: it runs the optimizer on whatever is pushed.
    """
    if kvstore is None:
        return 1
    store = mx.kv.create(kvstore)
    store.init(0, mx.nd.zeros(1, ctx=devices[0]))
    sums = [mx.nd.zeros(1, ctx=device) for device in devices]
    store.pushpull(0, [mx.nd.ones(1, ctx=device) for device in devices], out=sums)
    return min(int(total.asscalar()) for total in sums)
