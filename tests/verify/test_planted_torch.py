"""Bugs that people write with DistributedDataParallel, planted in its file and run on CPU shares with gloo."""

import re
from dataclasses import replace

import pytest

from gpubench.frameworks.torch import FRAMEWORK
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.machine import physical_cores
from tests.verify.planting import Bug, failed, planted, verify, verify_all

pytestmark = [
    pytest.mark.skipif(len(physical_cores()) < 2, reason="needs two cores, for two CPU shares"),
    pytest.mark.skipif(Interpreters().find(FRAMEWORK) is None, reason=Interpreters().lacking(FRAMEWORK)),
]

FORWARD = "with autocast(case, device):"
BACKWARD = "        loss.backward()\n"
BATCH = "case.per_device_batch, device, seed=case.seed + place.rank"
BUGS = {
    "no_sync": Bug(
        "ddp",
        {FORWARD: "with replica.no_sync(), autocast(case, device):", "replica.parameters()": "model.parameters()"},
    ),
    "sums": Bug(
        "ddp", {BACKWARD: BACKWARD + "        for p in model.parameters():\n            p.grad *= place.world_size\n"}
    ),
    "scales the loss": Bug("ddp", {BACKWARD: "        (loss / place.world_size).backward()\n"}),
    "same data": Bug("ddp", {BATCH: "case.per_device_batch, device, seed=case.seed"}),
    "steps before the exchange": Bug(
        "ddp",
        {
            FORWARD: "with replica.no_sync(), autocast(case, device):",
            "        optimizer.step()\n": "        optimizer.step()\n"
            "        for p in model.parameters():\n            dist.all_reduce(p.grad)\n",
        },
    ),
    # Each rank does all the work and none of it together.
    "only looks parallel": Bug(
        "ddp",
        {
            BATCH: "case.global_batch, device, seed=case.seed",
            "samples_per_step=len(labels_N)": "samples_per_step=len(labels_N) // place.world_size",
        },
    ),
}


@pytest.fixture(scope="module")
def perceptron(tmp_path_factory):
    bugs = {name: bug for name, bug in BUGS.items() if name != "only looks parallel"}
    return verify(planted(FRAMEWORK, bugs, tmp_path_factory.mktemp("planted") / "torch"), "mlp")


@pytest.fixture(scope="module")
def residual_net(tmp_path_factory):
    bugs = {"only looks parallel": BUGS["only looks parallel"]}
    return verify(planted(FRAMEWORK, bugs, tmp_path_factory.mktemp("planted") / "torch"), "resnet20")


def test_ddp_itself_takes_the_steps_of_one_device(perceptron, residual_net):
    assert failed(perceptron["ddp"]) == failed(residual_net["ddp"]) == set()


@pytest.mark.parametrize(
    ("bug", "by"),
    [
        ("no_sync", {"replicas", "weights"}),
        ("sums", {"weights"}),
        ("scales the loss", {"weights"}),
        ("same data", {"first loss", "weights"}),
        ("steps before the exchange", {"replicas", "weights"}),
    ],
)
def test_a_planted_bug_is_caught(perceptron, bug, by):
    assert failed(perceptron[bug]) == by


def test_a_strategy_that_only_looks_parallel_is_caught_by_its_batch_norm(residual_net):
    # Over the global batch, a batch norm gives another loss than over each device's own.
    assert failed(residual_net["only looks parallel"]) == {"first loss", "weights"}


def test_a_batch_norm_of_another_epsilon_makes_another_model(tmp_path):
    other = planted(FRAMEWORK, {}, tmp_path / "torch")
    net = tmp_path / "torch" / "workloads" / "resnet20.py"
    net.write_text(re.sub(r"BatchNorm2d\((\w+)\)", r"BatchNorm2d(\1, eps=1e-3)", net.read_text()))  # Keras' default
    two = [
        replace(one, name=name, strategies=FRAMEWORK.strategies[:1])
        for name, one in {"torch": FRAMEWORK, "other": other}.items()
    ]
    python = Interpreters().find(FRAMEWORK)
    models = [one for one in verify_all(two, "resnet20", 1, {"torch": python, "other": python}) if not one.strategy]
    assert [failed(one) for one in models] == [{"loss", "gradient norm"}] * 2
