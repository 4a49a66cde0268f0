"""Bugs that people write with MirroredStrategy and in-graph replication, planted in their files, on CPU shares."""

import pytest

from gpubench.frameworks.tensorflow import FRAMEWORK
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.machine import physical_cores
from tests.verify.planting import Bug, failed, planted, verify

pytestmark = [
    pytest.mark.skipif(len(physical_cores()) < 2, reason="needs two cores, for two CPU shares"),
    pytest.mark.skipif(Interpreters().find(FRAMEWORK) is None, reason=Interpreters().lacking(FRAMEWORK)),
]

BUGS = {
    "averages over its own batch": Bug(
        "mirrored", {"global_batch_size=case.global_batch": "global_batch_size=case.per_device_batch"}
    ),
    "reports one replica's loss": Bug(
        "mirrored",
        {
            "strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)": "case.n_devices * "
            "strategy.experimental_local_results(losses)[0]"
        },
    ),
    "same slice": Bug("in_graph", {"outputs.append(model(part, ": "outputs.append(model(inputs[: len(part)], "}),
}


@pytest.fixture(scope="module")
def perceptron(tmp_path_factory):
    return verify(planted(FRAMEWORK, BUGS, tmp_path_factory.mktemp("planted") / "tensorflow"), "mlp")


@pytest.mark.parametrize("strategy", ["mirrored", "in_graph"])
def test_a_sound_strategy_takes_the_steps_of_one_device(perceptron, strategy):
    assert failed(perceptron[strategy]) == set()


@pytest.mark.parametrize(
    ("bug", "by"),
    [
        ("averages over its own batch", {"first loss", "weights"}),
        ("reports one replica's loss", {"first loss"}),
        ("same slice", {"first loss", "weights"}),
    ],
)
def test_a_planted_bug_is_caught(perceptron, bug, by):
    assert failed(perceptron[bug]) == by


def test_a_model_run_over_the_whole_batch_on_one_device_is_caught_by_its_batch_norm(tmp_path):
    slices = "zip(devices(place), tf.split(inputs, case.n_devices), strict=True)"
    whole = Bug("in_graph", {slices: "[(devices(place)[0], inputs)]"})
    found = verify(planted(FRAMEWORK, {"only looks parallel": whole}, tmp_path / "tensorflow"), "resnet20")
    assert failed(found["in_graph"]) == set()
    assert failed(found["only looks parallel"]) == {"world size", "first loss", "weights"}
