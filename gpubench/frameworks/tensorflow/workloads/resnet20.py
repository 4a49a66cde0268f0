"""ResNet-20 for 32x32 images (He et al. 2015, section 4.2), 1x1 projection where the shape changes; SGD, momentum."""

import keras
import tensorflow as tf
from keras import layers


class Block(layers.Layer):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv(width, 3, stride)
        self.norm1 = norm()
        self.conv2 = conv(width, 3)
        self.norm2 = norm()
        self.shortcut = layers.Identity()
        if inputs != width:
            self.shortcut = keras.Sequential([conv(width, 1, stride), norm()])

    def call(self, x_NHWC):
        y_NHWC = tf.nn.relu(self.norm1(self.conv1(x_NHWC)))
        y_NHWC = self.norm2(self.conv2(y_NHWC))
        return tf.nn.relu(y_NHWC + self.shortcut(x_NHWC))


def conv(width: int, kernel: int, stride: int = 1) -> layers.Layer:
    """A convolution padded alike on all sides; Keras' "same" pads a strided one on two of them only."""
    same = "same" if stride == 1 else "valid"
    plain = layers.Conv2D(width, kernel, stride, same, use_bias=False, kernel_initializer="he_normal")
    return plain if stride == 1 or kernel == 1 else keras.Sequential([layers.ZeroPadding2D(kernel // 2), plain])


def norm() -> layers.Layer:
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)


def model() -> keras.Model:
    stem = [keras.Input((32, 32, 3)), conv(16, 3), norm(), layers.ReLU()]
    stages = [
        Block(inputs if block == 0 else width, width, stride if block == 0 else 1)
        for inputs, width, stride in [(16, 16, 1), (16, 32, 2), (32, 64, 2)]
        for block in range(3)
    ]
    return keras.Sequential([*stem, *stages, layers.GlobalAveragePooling2D(), layers.Dense(10)])


def optimizer() -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(0.1, momentum=0.9)


def batch(samples: int, seed: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Inputs of shape (N, 32, 32, 3) and labels of shape (N,), made on the device."""
    images_NHWC = tf.random.stateless_normal((samples, 32, 32, 3), seed=(seed, 0))
    return images_NHWC, tf.random.stateless_uniform((samples,), seed=(seed, 1), maxval=10, dtype=tf.int32)
