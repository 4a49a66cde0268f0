"""The workloads are what the literature says they are."""

import pytest

from gpubench.spec.workload import GIB, WORKLOADS


@pytest.mark.parametrize(
    ("name", "parameters", "macs"),
    [
        ("mlp", 784 * 128 + 128 + 128 * 10 + 10, 784 * 128 + 128 * 10),
        ("resnet20", 272_474, 40.8e6),  # He et al. 2015 say 0.27 M; about 41 M multiply-adds
        ("resnet50", 25_557_032, 4.09e9),  # torchvision's count; about 4.1 G multiply-adds at 224x224
    ],
)
def test_parameters_and_multiply_adds_are_the_well_known_ones(name, parameters, macs):
    assert WORKLOADS[name].parameters == parameters
    assert WORKLOADS[name].macs_per_sample == pytest.approx(macs, rel=0.003)


def test_training_takes_three_forward_passes_of_two_flops_a_multiply_add():
    assert WORKLOADS["mlp"].training_flops_per_sample == 3 * 2 * 101_632


def test_a_larger_memory_gets_a_larger_batch_and_a_larger_share_too():
    resnet50 = WORKLOADS["resnet50"]
    batches = [resnet50.default_batch("gpu", 0, gib * GIB) for gib in (8, 12, 16, 24, 40, 80, 141)]
    assert batches == sorted(batches)
    assert batches[0] < batches[-1]
    assert resnet50.default_batch("gpu", 0, None) == batches[0]  # memory that is not known is taken to be small
    assert resnet50.default_batch("cpu", 4, None) == 4 * resnet50.default_batch("cpu", 1, None)
