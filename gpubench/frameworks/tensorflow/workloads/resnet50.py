"""ResNet-50 v1.5 (He et al. 2015, with the stride in the 3x3 convolution) for 224x224 images; SGD with momentum."""

import keras
import tensorflow as tf
from keras import layers


class Bottleneck(layers.Layer):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv(width, 1)
        self.norm1 = norm()
        self.conv2 = conv(width, 3, stride)
        self.norm2 = norm()
        self.conv3 = conv(4 * width, 1)
        self.norm3 = norm()
        self.shortcut = layers.Identity()
        if inputs != 4 * width:
            self.shortcut = keras.Sequential([conv(4 * width, 1, stride), norm()])

    def call(self, x_NHWC):
        y_NHWC = tf.nn.relu(self.norm1(self.conv1(x_NHWC)))
        y_NHWC = tf.nn.relu(self.norm2(self.conv2(y_NHWC)))
        y_NHWC = self.norm3(self.conv3(y_NHWC))
        return tf.nn.relu(y_NHWC + self.shortcut(x_NHWC))


def conv(width: int, kernel: int, stride: int = 1) -> layers.Layer:
    """A convolution padded alike on all sides; Keras' "same" pads a strided one on two of them only."""
    same = "same" if stride == 1 else "valid"
    plain = layers.Conv2D(width, kernel, stride, same, use_bias=False, kernel_initializer="he_normal")
    return plain if stride == 1 or kernel == 1 else keras.Sequential([layers.ZeroPadding2D(kernel // 2), plain])


def norm() -> layers.Layer:
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)


def model() -> keras.Model:
    stack = [keras.Input((224, 224, 3)), conv(64, 7, 2), norm(), layers.ReLU()]
    stack += [layers.ZeroPadding2D(1), layers.MaxPooling2D(3, 2)]  # zeros never win over what ReLU lets through
    inputs = 64
    for width, blocks, stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for block in range(blocks):
            stack.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return keras.Sequential([*stack, layers.GlobalAveragePooling2D(), layers.Dense(1000)])


def optimizer() -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(0.1, momentum=0.9)


def batch(samples: int, seed: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Inputs of shape (N, 224, 224, 3) and labels of shape (N,), made on the device."""
    images_NHWC = tf.random.stateless_normal((samples, 224, 224, 3), seed=(seed, 0))
    return images_NHWC, tf.random.stateless_uniform((samples,), seed=(seed, 1), maxval=1000, dtype=tf.int32)
