"""One device: the baseline that every efficiency is measured against."""

from contextlib import contextmanager

from gpubench.frameworks.mxnet.compat import autograd, gluon, mx
from gpubench.frameworks.mxnet.device import contexts, initializer, parameters_of
from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    mx.random.seed(case.seed)
    (context,) = contexts(place)
    model = workload.model()
    model.initialize(initializer(), ctx=context)
    model.hybridize(static_alloc=True, static_shape=True)
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(model.collect_params(), workload.optimizer())
    inputs, labels_N = workload.batch(case.per_device_batch, context, seed=case.seed)

    def step():
        with autograd.record():
            loss_N = loss_function(model(inputs), labels_N)
        loss_N.backward()
        trainer.step(len(labels_N))  # backward sums over the samples; this divides by them
        return loss_N  # stays on the device: asnumpy() here would wait for it every step

    yield Training(
        step=step,
        loss=lambda loss_N: float(loss_N.mean().asscalar()),
        world_size=lambda: 1,
        replicas=lambda: [parameters_of(model, context)],
        samples_per_step=len(labels_N),
    )
