"""The weights and samples that every framework is given: NumPy's layout is everyone's."""

from gpubench.frameworks.neutral import Samples, fitted, write_replicas


class Given:
    def __init__(self, workload, case, file):
        self.samples = Samples(case, file)
        self.batch = self.samples.batch
        self.plain = workload
        self.Optimizer = workload.Optimizer
        self.loss_and_gradients = workload.loss_and_gradients

    def model(self):
        shapes = [parameter.shape for parameter in self.plain.model()]
        return [weight.copy() for weight in fitted(self.samples.weights, shapes)]


def export(replicas, file):
    write_replicas(file, replicas)
