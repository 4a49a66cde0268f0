"""MirroredStrategy, custom loop: a replica of the variables on each device, gradients all-reduced in every step."""

from contextlib import contextmanager

import keras
import tensorflow as tf

from gpubench.frameworks.tensorflow.device import devices, mirrors_of, replicas_that_run
from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    keras.utils.set_random_seed(case.seed)
    strategy = tf.distribute.MirroredStrategy(devices(place))
    with strategy.scope():
        model = workload.model()
        optimizer = workload.optimizer()
        optimizer.build(model.trainable_variables)
    with tf.device("/CPU:0"):
        dataset = tf.data.Dataset.from_tensors(workload.batch(case.global_batch, seed=case.seed))
    # One batch, each replica's part on its device, serves every step: a copy a step would time the host.
    inputs, labels_N = next(iter(strategy.experimental_distribute_dataset(dataset)))

    def replica_step(inputs, labels_N):
        with tf.GradientTape() as tape:
            logits_NC = tf.cast(model(inputs, training=True), tf.float32)
            losses_N = tf.nn.sparse_softmax_cross_entropy_with_logits(labels_N, logits_NC)
            loss = tf.nn.compute_average_loss(losses_N, global_batch_size=case.global_batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))  # sums over the replicas
        return loss

    @tf.function
    def train_step(inputs, labels_N):
        losses = strategy.run(replica_step, args=(inputs, labels_N))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    yield Training(
        step=lambda: train_step(inputs, labels_N),
        loss=float,
        world_size=lambda: len(replicas_that_run(strategy)),
        replicas=lambda: mirrors_of(model, strategy),
        samples_per_step=sum(len(part) for part in strategy.experimental_local_results(labels_N)),
    )
