"""Bugs that people write with gluon.Trainer, planted in its file and run on CPU shares."""

import pytest

from gpubench.frameworks.mxnet import FRAMEWORK
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.machine import physical_cores
from tests.verify.planting import Bug, failed, planted, verify

pytestmark = [
    pytest.mark.skipif(len(physical_cores()) < 2, reason="needs two cores, for two CPU shares"),
    pytest.mark.skipif(Interpreters().find(FRAMEWORK) is None, reason=Interpreters().lacking(FRAMEWORK)),
]

BATCH = "inputs, labels_N = workload.batch(case.global_batch, mx.cpu(), seed=case.seed)"
BUGS = {
    "no kvstore": Bug("trainer", {"kvstore = kvstore_type(place)": "kvstore = None"}),
    "divides by its own batch": Bug("trainer", {"trainer.step(samples)": "trainer.step(case.per_device_batch)"}),
    "divides twice": Bug("trainer", {"trainer.step(samples)": "trainer.step(samples * len(devices))"}),
    "same data": Bug(
        "trainer",
        {
            BATCH: "parts = workload.batch(case.per_device_batch, mx.cpu(), seed=case.seed)\n"
            "    inputs, labels_N = [mx.nd.concat(*[part] * len(devices), dim=0) for part in parts]"
        },
    ),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return verify(planted(FRAMEWORK, BUGS, tmp_path_factory.mktemp("planted") / "mxnet"), "mlp")


def test_the_trainer_itself_takes_the_steps_of_one_device(found):
    assert failed(found["trainer"]) == set()


@pytest.mark.parametrize(
    ("bug", "by"),
    [
        ("no kvstore", {"world size", "replicas", "weights"}),
        ("divides by its own batch", {"weights"}),
        ("divides twice", {"weights"}),
        ("same data", {"first loss", "weights"}),
    ],
)
def test_a_planted_bug_is_caught(found, bug, by):
    assert failed(found[bug]) == by
