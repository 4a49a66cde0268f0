"""Weights and samples that every framework is given."""

import numpy as np
import pytest

from gpubench.frameworks import neutral
from tests.builders import make_case

SHAPES = [(3, 3, 3, 16), (16,), (16,), (64, 10), (10,)]


@pytest.fixture
def samples(tmp_path):
    inputs, labels_N = neutral.random_samples(6, (4,), 10, seed=3)
    neutral.write_given(tmp_path / "given.npz", neutral.random_weights(SHAPES, seed=3), inputs, labels_N)
    return neutral.Samples(make_case(seed=100), str(tmp_path / "given.npz")), inputs, labels_N


def test_a_seed_names_the_batch_of_that_number(samples):
    given, inputs, labels_N = samples
    for index in range(3):
        part, labels = given.batch(2, seed=100 + index)
        assert np.array_equal(part, inputs[2 * index : 2 * index + 2])
        assert np.array_equal(labels, labels_N[2 * index : 2 * index + 2])


@pytest.mark.parametrize(("count", "seed"), [(2, 103), (7, 100), (2, 99)])
def test_samples_that_are_not_there_are_not_made_up(samples, count, seed):
    with pytest.raises(IndexError, match="the global batch has 6"):
        samples[0].batch(count, seed)


def test_weights_are_read_as_they_were_written(samples):
    for read, made in zip(samples[0].weights, neutral.random_weights(SHAPES, seed=3), strict=True):
        assert np.array_equal(read, made)


def test_kernels_follow_their_fan_in_and_scales_stand_where_they_are_put():
    kernel, scale, shift, head, bias = neutral.random_weights(SHAPES, 3, convolution=0.1, scale=0.3, shift=1.0)
    assert kernel.std() == pytest.approx(0.1 * (2 / 27) ** 0.5, rel=0.15)
    assert head.std() == pytest.approx((2 / 64) ** 0.5, rel=0.15)
    assert [round(float(array.mean()), 0) for array in (scale, shift, bias)] == [0.0, 1.0, 1.0]
    assert scale.mean() == pytest.approx(0.3, abs=0.1)


def test_a_model_of_another_shape_is_refused_and_the_array_is_named():
    weights = neutral.random_weights(SHAPES, seed=3)
    assert neutral.fitted(weights, SHAPES) is weights
    with pytest.raises(ValueError, match=r"array 3 is \[\(64, 10\)\], the model's \[\(10, 64\)\]"):
        neutral.fitted(weights, [*SHAPES[:3], (10, 64), (10,)])
    with pytest.raises(ValueError, match="5 arrays for 4"):
        neutral.fitted(weights, SHAPES[:4])


def test_replicas_are_read_as_they_were_written(tmp_path):
    replicas = [neutral.random_weights(SHAPES, seed) for seed in range(12)]
    neutral.write_replicas(tmp_path / "rank0.npz", replicas)
    read = neutral.read_replicas(tmp_path / "rank0.npz")
    assert len(read) == 12
    for one, other in zip(replicas, read, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
