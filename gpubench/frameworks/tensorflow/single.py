"""One device: the baseline that every efficiency is measured against."""

from contextlib import contextmanager

import keras
import tensorflow as tf

from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    keras.utils.set_random_seed(case.seed)
    model = workload.model()
    optimizer = workload.optimizer()
    optimizer.build(model.trainable_variables)
    inputs, labels_N = workload.batch(case.per_device_batch, seed=case.seed)

    @tf.function
    def train_step(inputs, labels_N):
        with tf.GradientTape() as tape:
            logits_NC = tf.cast(model(inputs, training=True), tf.float32)
            losses_N = tf.nn.sparse_softmax_cross_entropy_with_logits(labels_N, logits_NC)
            loss = tf.reduce_mean(losses_N)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss  # stays on the device: float(loss) here would wait for it every step

    yield Training(
        step=lambda: train_step(inputs, labels_N),
        loss=float,
        world_size=lambda: 1,
        replicas=lambda: [[variable.numpy() for variable in model.trainable_variables]],
        samples_per_step=len(labels_N),
    )
