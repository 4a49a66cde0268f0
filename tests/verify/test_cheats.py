"""Steps that stop to train, planted in PyTorch's own strategy: none of them gets a number."""

import pytest

from gpubench.analysis.checks import doubts
from gpubench.frameworks.torch import FRAMEWORK
from gpubench.harness import machine, registry
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.plan import Cases, Plan, cases
from gpubench.harness.runner import Timing
from gpubench.harness.session import Session
from tests.verify.planting import Bug, planted

pytestmark = pytest.mark.skipif(Interpreters().find(FRAMEWORK) is None, reason=Interpreters().lacking(FRAMEWORK))

STEP = "    def step():\n"
COUNTED = "    calls = []\n\n    def step():\n        calls.append(1)\n"
UPDATE = "        optimizer.step()\n"
CHEATS = {
    "does nothing after five steps": Bug(
        "single", {STEP: COUNTED + "        if len(calls) > 5:\n            return torch.zeros(())\n"}
    ),
    "updates in the warm-up only": Bug(
        "single", {STEP: COUNTED, UPDATE: "        if len(calls) < 11:\n            optimizer.step()\n"}
    ),
}


class Silent:
    def phase(self, launch, phase, samples_per_second=None):
        pass


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`run("name of a cheat")`: one launch of it."""
    framework = planted(FRAMEWORK, CHEATS, tmp_path / "torch")
    monkeypatch.setattr(registry, "frameworks", lambda: {"torch": framework})

    def launch(strategy):
        this = machine.describe()
        python = Interpreters().find(FRAMEWORK)
        plan = Plan(
            workloads=("mlp",), frameworks=("torch",), strategies=(strategy,), devices=(1,), device_kind="cpu",
            per_device_batch=(2048,),
        )  # fmt: skip
        found = cases(plan, this, Interpreters({"torch": python}), strict_devices=True)
        timing = Timing(rounds=3, round_seconds=0.2)
        with Session(this, Cases([], []), timing, Silent(), doubts, logs=tmp_path) as session:
            return session.launch(next(one for one in found.runnable if one.strategy.name == strategy), 1)

    return launch


def test_a_sound_step_moves_parameters(run):
    record = run("single")
    assert record.outcome.status == "ok"
    assert "parameters_did_not_move" not in {check.name for check in record.checks}
    assert record.observed.product_types == ["float32"]


def test_a_step_that_does_nothing_after_five_is_refused_or_doubted_by_name(run):
    record = run("does nothing after five steps")
    said = [record.outcome.message, *(c.message for c in record.checks if c.name == "parameters_did_not_move")]
    assert any("does nothing after five steps" in text for text in said), record.outcome


def test_a_step_that_updates_in_the_warm_up_only_has_no_number(run):
    record = run("updates in the warm-up only")
    assert record.outcome.status == "ok"
    assert {"parameters_did_not_move"} <= {check.name for check in record.checks if check.severity == "severe"}
