"""MirroredStrategy with Keras: `compile`, then one long `fit`, whose batches are the steps.

`fit` runs in a thread of its own and is held before each batch until the next step is asked for, so that a step costs
what a batch of `fit` costs: the next batch of the dataset copied to the devices, and the loss read back for the
callbacks, which makes `fit` wait for the devices after every batch.
"""

import sys
from contextlib import contextmanager
from threading import Semaphore, Thread

import keras
import tensorflow as tf

from gpubench.frameworks.tensorflow.device import devices, mirrors_of, replicas_that_run
from gpubench.spec.framework import Training


@contextmanager
def training(case, place, workload):
    keras.utils.set_random_seed(case.seed)
    strategy = tf.distribute.MirroredStrategy(devices(place))
    with strategy.scope():
        plain = workload.model()
        model = LossOfEachBatch(plain.inputs, plain.outputs)
        model.compile(workload.optimizer(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with tf.device("/CPU:0"):
        dataset = tf.data.Dataset.from_tensors(workload.batch(case.global_batch, seed=case.seed))
    fit = HeldFit(model, dataset.repeat())

    yield Training(
        step=fit.step,
        loss=float,
        world_size=lambda: len(replicas_that_run(strategy)),
        replicas=lambda: mirrors_of(model, strategy),
        samples_per_step=sum(len(labels_N) for _, labels_N in dataset),
    )
    fit.end()


class LossOfEachBatch(keras.Model):
    """`fit` reports the mean loss since the epoch began; forgetting it at each batch gives each batch's own."""

    def train_step(self, data):
        self.reset_metrics()
        return super().train_step(data)


class HeldFit(keras.callbacks.Callback):
    """A `fit` that goes on by one batch at each `step()`."""

    def __init__(self, model: keras.Model, dataset: tf.data.Dataset) -> None:
        super().__init__()
        self.may_go, self.is_held = Semaphore(0), Semaphore(0)
        self.loss, self.error, self.ending = None, None, False
        self.thread = Thread(target=self.run, args=(model, dataset), daemon=True)
        self.thread.start()
        self.await_hold()

    def run(self, model, dataset):
        try:
            model.fit(dataset, steps_per_epoch=sys.maxsize, shuffle=False, verbose=0, callbacks=[self])
        except BaseException as error:
            self.error = error  # raised where it is waited for
        self.is_held.release()

    def on_train_batch_begin(self, batch, logs=None):
        self.is_held.release()
        self.may_go.acquire()

    def on_train_batch_end(self, batch, logs=None):
        self.loss = logs["loss"]
        self.model.stop_training = self.ending

    def await_hold(self):
        self.is_held.acquire()
        if self.error:
            raise self.error

    def step(self):
        self.may_go.release()
        self.await_hold()
        return self.loss

    def end(self):
        """Let `fit` end after one more batch: it can only be stopped at a batch's end."""
        self.ending = True
        self.step()
        self.thread.join()
