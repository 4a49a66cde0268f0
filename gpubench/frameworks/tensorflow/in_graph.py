"""In-graph replication: what `keras.utils.multi_gpu_model` did until TensorFlow 2.4 removed it.

As with its defaults, the model has one set of variables, on the first device. Each step splits the batch, runs each
slice through the model on a device of its own, concatenates the outputs on the host and takes one loss over them;
its gradients flow back through the concatenation to each slice's device. What a device needs of the variables
is copied to it in every step, and the gradients back.
"""

from contextlib import contextmanager

import keras
import tensorflow as tf

from gpubench.frameworks.tensorflow.device import devices
from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    keras.utils.set_random_seed(case.seed)
    model = workload.model()
    optimizer = workload.optimizer()
    optimizer.build(model.trainable_variables)
    inputs, labels_N = workload.batch(case.global_batch, seed=case.seed)

    def run_slices(inputs, training):
        outputs = []
        for device, part in zip(devices(place), tf.split(inputs, case.n_devices), strict=True):
            with tf.device(device):
                outputs.append(model(part, training=training))
        return outputs

    @tf.function
    def train_step(inputs, labels_N):
        outputs = run_slices(inputs, training=True)
        with tf.device("/CPU:0"):
            logits_NC = tf.concat(outputs, axis=0)
        losses_N = tf.nn.sparse_softmax_cross_entropy_with_logits(labels_N, tf.cast(logits_NC, tf.float32))
        loss = tf.reduce_mean(losses_N)
        # Not a GradientTape: tf.gradients puts each backward operation on the device of its forward one.
        variables = [variable.value for variable in model.trainable_variables]
        optimizer.apply_gradients(zip(tf.gradients(loss, variables), model.trainable_variables, strict=True))
        return loss

    def devices_that_run():
        forward = tf.function(run_slices)
        return {output.backing_device for output in forward(inputs, training=False)}

    yield Training(
        step=lambda: train_step(inputs, labels_N),
        loss=float,
        world_size=lambda: len(devices_that_run()),
        replicas=lambda: [[variable.numpy() for variable in model.trainable_variables]],  # they stand once
        samples_per_step=len(labels_N),
    )
