"""784-128-10 perceptron, ReLU, softmax cross-entropy, Adam."""

from gpubench.frameworks.mxnet.compat import gluon, mx

nn = gluon.nn


def model() -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(nn.Dense(128, activation="relu", in_units=784), nn.Dense(10, in_units=128))
    return net


def optimizer() -> mx.optimizer.Optimizer:
    return mx.optimizer.Adam(learning_rate=0.001)


def batch(samples: int, context: mx.Context, seed: int) -> tuple[mx.nd.NDArray, mx.nd.NDArray]:
    """Inputs of shape (N, 784) and labels of shape (N,), made on the device."""
    mx.random.seed(seed, ctx=context)
    images_NF = mx.nd.random.normal(shape=(samples, 784), ctx=context)
    return images_NF, mx.nd.random.randint(0, 10, shape=(samples,), ctx=context)
