"""ResNet-20 for 32x32 images (He et al. 2015, section 4.2), 1x1 projection where the shape changes; SGD, momentum."""

from gpubench.frameworks.mxnet.compat import gluon, mx

nn = gluon.nn


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2D:
    return nn.Conv2D(outputs, kernel, stride, padding=kernel // 2, use_bias=False, in_channels=inputs)


class Block(gluon.HybridBlock):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv(inputs, width, 3, stride)
        self.norm1 = nn.BatchNorm(in_channels=width)
        self.conv2 = conv(width, width, 3)
        self.norm2 = nn.BatchNorm(in_channels=width)
        self.shortcut = nn.HybridSequential()
        if inputs != width:
            self.shortcut.add(conv(inputs, width, 1, stride), nn.BatchNorm(in_channels=width))

    def hybrid_forward(self, F, x_NCHW):
        y_NCHW = F.relu(self.norm1(self.conv1(x_NCHW)))
        y_NCHW = self.norm2(self.conv2(y_NCHW))
        return F.relu(y_NCHW + self.shortcut(x_NCHW))


def model() -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(conv(3, 16, 3), nn.BatchNorm(in_channels=16), nn.Activation("relu"))
    for inputs, width, stride in [(16, 16, 1), (16, 32, 2), (32, 64, 2)]:
        for block in range(3):
            net.add(Block(inputs if block == 0 else width, width, stride if block == 0 else 1))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(10, in_units=64))
    return net


def optimizer() -> mx.optimizer.Optimizer:
    return mx.optimizer.SGD(learning_rate=0.1, momentum=0.9)


def batch(samples: int, context: mx.Context, seed: int) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
    """Inputs of shape (N, 3, 32, 32) and labels of shape (N,), made on the device."""
    mx.random.seed(seed, ctx=context)
    images_NCHW = mx.nd.random.normal(shape=(samples, 3, 32, 32), ctx=context)
    return images_NCHW, mx.nd.random.randint(0, 10, shape=(samples,), ctx=context)
