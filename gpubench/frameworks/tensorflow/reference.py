"""What every strategy is verified against: one device takes the batches of n devices one after another.

Their gradients add up to the mean over the global batch before the optimizer's one step, and a batch norm sees each
device's batch by itself, as it does on n devices.
"""

from contextlib import contextmanager

import keras
import tensorflow as tf

from gpubench.frameworks.tensorflow.verification import count_macs
from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    keras.utils.set_random_seed(case.seed)
    model = workload.model()
    optimizer = workload.optimizer()
    optimizer.build(model.trainable_variables)
    batches = [workload.batch(case.per_device_batch, seed=case.seed + index) for index in range(case.n_devices)]

    @tf.function
    def gradients_of(inputs, labels_N):
        with tf.GradientTape() as tape:
            logits_NC = tf.cast(model(inputs, training=True), tf.float32)
            losses_N = tf.nn.sparse_softmax_cross_entropy_with_logits(labels_N, logits_NC)
            loss = tf.reduce_mean(losses_N) / len(batches)
        return loss, tape.gradient(loss, model.trainable_variables)

    def step():
        losses, gradients = zip(*[gradients_of(inputs, labels_N) for inputs, labels_N in batches], strict=True)
        sums = [tf.add_n(parts) for parts in zip(*gradients, strict=True)]
        optimizer.apply_gradients(zip(sums, model.trainable_variables, strict=True))
        return tf.add_n(losses), tf.linalg.global_norm(sums)

    yield Training(
        step=step,
        loss=lambda loss_and_norm: float(loss_and_norm[0]),
        world_size=lambda: 1,
        replicas=lambda: [[variable.numpy() for variable in model.trainable_variables]],
        samples_per_step=sum(len(labels_N) for _, labels_N in batches),
        macs=lambda: count_macs(model),
        gradient_norm=lambda loss_and_norm: float(loss_and_norm[1]),
    )
