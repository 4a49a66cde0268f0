"""784-128-10 perceptron, ReLU, softmax cross-entropy, Adam."""

import keras
import tensorflow as tf
from keras import layers


def model() -> keras.Model:
    return keras.Sequential([keras.Input((784,)), layers.Dense(128, activation="relu"), layers.Dense(10)])


def optimizer() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(0.001, epsilon=1e-8)


def batch(samples: int, seed: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Inputs of shape (N, 784) and labels of shape (N,), made on the device."""
    images_NF = tf.random.stateless_normal((samples, 784), seed=(seed, 0))
    return images_NF, tf.random.stateless_uniform((samples,), seed=(seed, 1), maxval=10, dtype=tf.int32)
