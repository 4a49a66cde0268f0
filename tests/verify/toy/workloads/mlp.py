"""784-128-10 perceptron, ReLU, softmax cross-entropy, SGD with momentum."""

import numpy as np


def model():
    """Kernel and bias of each layer, in neutral layout."""
    generator = np.random.default_rng(0)
    shapes = [(784, 128), (128,), (128, 10), (10,)]
    return [0.05 * generator.standard_normal(shape, dtype=np.float32) for shape in shapes]


def batch(samples, seed):
    generator = np.random.default_rng(seed)
    return generator.standard_normal((samples, 784), dtype=np.float32), generator.integers(10, size=samples)


def loss_and_gradients(parameters, inputs, labels_N):
    """The mean loss of a batch, and the gradient of each parameter, by hand."""
    kernel1, bias1, kernel2, bias2 = parameters
    hidden = np.maximum(inputs @ kernel1 + bias1, 0)
    logits = hidden @ kernel2 + bias2
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = shifted / shifted.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels_N))
    loss = -np.log(probabilities[rows, labels_N]).mean()
    probabilities[rows, labels_N] -= 1
    of_logits = probabilities / np.float32(len(labels_N))
    of_hidden = (of_logits @ kernel2.T) * (hidden > 0)
    return loss, [inputs.T @ of_hidden, of_hidden.sum(0), hidden.T @ of_logits, of_logits.sum(0)]


class Optimizer:
    """SGD with momentum, for one replica."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.momenta = [np.zeros_like(parameter) for parameter in parameters]

    def step(self, gradients):
        for parameter, momentum, gradient in zip(self.parameters, self.momenta, gradients, strict=True):
            momentum *= np.float32(0.9)
            momentum += gradient
            parameter -= np.float32(0.1) * momentum
