"""`gpubench verify` on a toy framework: sound strategies pass, and each planted bug is caught for what it is."""

import json
from dataclasses import replace

import pytest

from gpubench.cli import verifying
from gpubench.files import verified
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.machine import physical_cores
from gpubench.spec.errors import NothingToRunError
from tests.verify.planting import Bug, failed, planted, verify, verify_all
from tests.verify.toy import FRAMEWORK

pytestmark = pytest.mark.skipif(len(physical_cores()) < 2, reason="needs two cores, for two CPU shares")

MEANS = "means = [sum(parts) / np.float32(len(parts)) for parts in zip(*gradients, strict=True)]"
FOR_ALL = "        for optimizer in optimizers:\n            optimizer.step(means)\n"
BUGS = {
    "sums": Bug("replicas", {MEANS: "means = [sum(parts) for parts in zip(*gradients, strict=True)]"}),
    "divides twice": Bug("replicas", {"np.float32(len(parts))": "np.float32(len(parts) ** 2)"}),
    "same data": Bug("replicas", {"seed=case.seed + index": "seed=case.seed"}),
    "no exchange": Bug(
        "replicas",
        {FOR_ALL: "        for optimizer, own in zip(optimizers, gradients):\n            optimizer.step(own)\n"},
    ),
    "forgets a bias": Bug("replicas", {FOR_ALL: "        means[3] = gradients[0][3]\n" + FOR_ALL}),
    "one device": Bug("replicas", {"for _ in place.devices": "for _ in place.devices[:1]"}),
    "steps before the exchange": Bug(
        "replicas",
        {
            FOR_ALL: "        for optimizer in optimizers:\n            optimizer.step(late or gradients[0])\n"
            "        late[:] = means\n",
            "    def step():": "    late = []\n\n    def step():",
        },
    ),
    "half a batch": Bug("replicas", {"case.per_device_batch": "case.per_device_batch // 2"}),
    "not finite": Bug("replicas", {MEANS: MEANS + "\n        means[0] = means[0] * np.nan"}),
    "raises": Bug("replicas", {MEANS: 'raise RuntimeError("the moon is full")'}),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return verify(planted(FRAMEWORK, BUGS, tmp_path_factory.mktemp("planted") / "toy"), "mlp")


def test_sound_strategies_and_their_model_are_verified(found):
    assert found["replicas"].passed
    assert found[None].passed
    assert found["replicas"].proves_nothing is found[None].proves_nothing is None
    assert {finding.name: finding.message for finding in found[None].findings} == {
        "parameters": "101770, as the workload's layers say",
        "multiply-adds": "101632, as the workload's layers say",
        "loss": found[None].findings[-1].message,
    }


@pytest.mark.parametrize(
    ("bug", "by"),
    [
        ("sums", {"weights"}),
        ("divides twice", {"weights"}),
        ("same data", {"first loss", "weights"}),
        ("no exchange", {"replicas", "weights"}),
        ("forgets a bias", {"weights"}),
        ("one device", {"world size", "samples a step", "first loss", "weights"}),
        ("steps before the exchange", {"weights"}),
        ("half a batch", {"samples a step", "first loss", "weights"}),
        ("not finite", {"weights"}),
        ("raises", {"training"}),
    ],
)
def test_a_planted_bug_is_caught(found, bug, by):
    assert failed(found[bug]) == by
    assert found[bug].proves_nothing is None  # so that a record of it says how it failed


def test_a_failure_says_what_it_looks_like(found):
    def message(bug):
        return found[bug].failures[-1].message

    assert "times as far" in message("sums")
    assert "% off in head bias" in message("forgets a bias")
    assert message("not finite") == "replica 0, hidden kernel: not a finite number"
    assert "the moon is full" in message("raises")


def test_the_text_names_the_device_kind_and_what_failed(found):
    text = verifying.as_text(list(found.values()))
    assert text.startswith("On CPU shares, not GPUs.")
    assert "FAILED    mlp-toy-sums-2" in text
    assert text.endswith(f"2 verified, {len(BUGS)} failed.")


def test_a_failed_training_is_stored_with_its_environment(found):
    assert found["raises"].software == found["replicas"].software
    assert set(found["replicas"].software) == {"gpubench", "source", "python", "toy", "numpy"}


def test_a_framework_without_a_reference_is_named_and_not_verified():
    said = []
    request = verifying.Request(frameworks=("fake",), device_kind="cpu")
    with pytest.raises(NothingToRunError):
        verifying.run(request, Interpreters(), None, said.append)
    assert "not verified: fake: it has no reference.py and verification.py" in said


def test_two_frameworks_that_differ_are_both_doubted_and_three_tell_which(tmp_path):
    def variant(name, old, new):
        one = planted(FRAMEWORK, {}, tmp_path / name)
        file = tmp_path / name / "workloads" / "mlp.py"
        file.write_text(file.read_text().replace(old, new))
        return replace(one, name=name, package=f"planted_{name}", strategies=FRAMEWORK.strategies[:1])

    sound = [variant("one", "", ""), variant("two", "", "")]
    without_relu = variant("three", "np.maximum(inputs @ kernel1 + bias1, 0)", "inputs @ kernel1 + bias1")

    def passed(*frameworks):
        return {one.framework: one.passed for one in verify_all(frameworks, "mlp", 1) if one.strategy is None}

    assert passed(*sound) == {"one": True, "two": True}
    assert [one.proves_nothing for one in verify_all(sound, "mlp", 1) if one.strategy is None] == [None, None]
    assert passed(sound[0], without_relu) == {"one": False, "three": False}
    assert passed(*sound, without_relu) == {"one": True, "two": True, "three": False}


def test_a_verification_is_stored_replaced_and_read_back(found, tmp_path):
    one = found["replicas"]
    path = verified.save(one, tmp_path)
    assert verified.save(one, tmp_path) == path
    verified.save(found["sums"], tmp_path)
    assert sorted(verified.load(tmp_path), key=str) == sorted([one, found["sums"]], key=str)
    assert [file.name for file in (tmp_path / "verified").iterdir() if file.name[0] == "."] == []


@pytest.mark.parametrize("damage", ["", "{", "[1]", '{"schema": 2}', "[" * 100_000, " " * (2 << 20)])
def test_a_damaged_file_proves_nothing(found, tmp_path, damage):
    path = verified.save(found["replicas"], tmp_path)
    path.write_text(damage)
    assert verified.load(tmp_path) == []


def test_a_file_of_a_later_version_proves_nothing(found, tmp_path):
    path = verified.save(found["replicas"], tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 2}))
    assert verified.load(tmp_path) == []


def test_a_file_that_says_one_thing_twice_proves_nothing(found, tmp_path):
    path = verified.save(found["replicas"], tmp_path)
    text = path.read_text()
    path.write_text(text.replace('"passed": true', '"passed": false, "passed": true', 1))
    assert path.read_text() != text
    assert verified.load(tmp_path) == []
