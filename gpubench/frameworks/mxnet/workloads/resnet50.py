"""ResNet-50 v1.5 (He et al. 2015, with the stride in the 3x3 convolution) for 224x224 images; SGD with momentum."""

from gpubench.frameworks.mxnet.compat import gluon, mx

nn = gluon.nn


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2D:
    return nn.Conv2D(outputs, kernel, stride, padding=kernel // 2, use_bias=False, in_channels=inputs)


class Bottleneck(gluon.HybridBlock):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv(inputs, width, 1)
        self.norm1 = nn.BatchNorm(in_channels=width)
        self.conv2 = conv(width, width, 3, stride)
        self.norm2 = nn.BatchNorm(in_channels=width)
        self.conv3 = conv(width, 4 * width, 1)
        self.norm3 = nn.BatchNorm(in_channels=4 * width)
        self.shortcut = nn.HybridSequential()
        if inputs != 4 * width:
            self.shortcut.add(conv(inputs, 4 * width, 1, stride), nn.BatchNorm(in_channels=4 * width))

    def hybrid_forward(self, F, x_NCHW):
        y_NCHW = F.relu(self.norm1(self.conv1(x_NCHW)))
        y_NCHW = F.relu(self.norm2(self.conv2(y_NCHW)))
        y_NCHW = self.norm3(self.conv3(y_NCHW))
        return F.relu(y_NCHW + self.shortcut(x_NCHW))


def model() -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(
        conv(3, 64, 7, stride=2),
        nn.BatchNorm(in_channels=64),
        nn.Activation("relu"),
        nn.MaxPool2D(3, 2, padding=1),
    )
    inputs = 64
    for width, blocks, stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for block in range(blocks):
            net.add(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    net.add(nn.GlobalAvgPool2D(), nn.Dense(1000, in_units=2048))
    return net


def optimizer() -> mx.optimizer.Optimizer:
    return mx.optimizer.SGD(learning_rate=0.1, momentum=0.9)


def batch(samples: int, context: mx.Context, seed: int) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
    """Inputs of shape (N, 3, 224, 224) and labels of shape (N,), made on the device."""
    mx.random.seed(seed, ctx=context)
    images_NCHW = mx.nd.random.normal(shape=(samples, 3, 224, 224), ctx=context)
    return images_NCHW, mx.nd.random.randint(0, 1000, shape=(samples,), ctx=context)
