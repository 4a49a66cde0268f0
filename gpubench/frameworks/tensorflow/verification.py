"""The weights and samples that every framework is given, in TensorFlow's layout, which is everyone's."""

from pathlib import Path
from types import ModuleType

import keras
import tensorflow as tf
from tensorflow.python.framework.ops import get_stats_for_node_def

from gpubench.frameworks.neutral import ADAM_EPSILON, Samples, fitted, write_replicas
from gpubench.spec.case import Case


class Given:
    """Stands in for a workload: its model starts from given weights, and its batches hold given samples."""

    def __init__(self, workload: ModuleType, case: Case, file: str) -> None:
        self.workload = workload
        self.samples = Samples(case, file)

    def model(self) -> keras.Model:
        model = self.workload.model()
        shapes = [tuple(variable.shape) for variable in model.trainable_variables]
        for variable, weight in zip(model.trainable_variables, fitted(self.samples.weights, shapes), strict=True):
            variable.assign(weight)
        return model

    def optimizer(self) -> keras.optimizers.Optimizer:
        optimizer = self.workload.optimizer()
        if isinstance(optimizer, keras.optimizers.Adam):
            optimizer.epsilon = ADAM_EPSILON
        return optimizer

    def batch(self, samples: int, seed: int) -> tuple[tf.Tensor, tf.Tensor]:
        inputs, labels_N = self.samples.batch(samples, seed)
        return tf.constant(inputs), tf.constant(labels_N)


def export(replicas: list, file: Path) -> None:
    write_replicas(file, replicas)


def count_macs(model: keras.Model) -> int:
    """Multiply-adds of a forward pass over one sample: TensorFlow's own count for the operations of the graph."""
    forward = tf.function(lambda inputs: model(inputs, training=False))
    graph = forward.get_concrete_function(tf.TensorSpec((1, *model.input_shape[1:]))).graph
    nodes = [node for node in graph.as_graph_def().node if node.op in ("Conv2D", "MatMul")]
    return sum(int(get_stats_for_node_def(graph, node, "flops").value) for node in nodes) // 2
