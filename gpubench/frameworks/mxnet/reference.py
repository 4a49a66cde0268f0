"""What every strategy is verified against: one device takes the batches of n devices one after another.

Their gradients add up over the global batch before the optimizer's one step, and a batch norm sees each device's batch
by itself, as it does on n devices. The model is not hybridized: this is also a proof that hybridizing changes nothing.
"""

from contextlib import contextmanager

from gpubench.frameworks.mxnet.compat import autograd, gluon, mx
from gpubench.frameworks.mxnet.device import contexts, initializer, parameters_of
from gpubench.frameworks.mxnet.verification import count_macs
from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    mx.random.seed(case.seed)
    (context,) = contexts(place)
    model = workload.model()
    model.initialize(initializer(), ctx=context)
    trainable = [p for p in model.collect_params().values() if p.grad_req != "null"]
    for parameter in trainable:
        parameter.grad_req = "add"
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(model.collect_params(), workload.optimizer())
    batches = [workload.batch(case.per_device_batch, context, case.seed + index) for index in range(case.n_devices)]
    samples = sum(len(labels_N) for _, labels_N in batches)

    def step():
        model.collect_params().zero_grad()
        total = 0.0
        for inputs, labels_N in batches:
            with autograd.record():
                loss_N = loss_function(model(inputs), labels_N)
            loss_N.backward()  # adds to the gradients, summed over the samples
            total = total + loss_N.sum() / samples
        trainer.step(samples)  # divides by them
        return total

    def gradient_norm(_):
        squares = [(parameter.grad(context) / samples).square().sum() for parameter in trainable]
        return float(mx.nd.add_n(*squares).sqrt().asscalar())

    yield Training(
        step=step,
        loss=lambda loss: float(loss.asscalar()),
        world_size=lambda: 1,
        replicas=lambda: [parameters_of(model, context)],
        samples_per_step=samples,
        macs=lambda: count_macs(workload, case),
        gradient_norm=gradient_norm,
    )
