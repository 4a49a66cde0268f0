"""What a record may say of its verification."""

from dataclasses import replace

import pytest

from gpubench.analysis.badge import badge
from gpubench.spec.verification import Finding, Verification
from tests.builders import make_case, make_record

RECORD = make_record(make_case("ddp", 2))
GOOD = Finding(name="weights", passed=True, message="0 % off")
BAD = Finding(name="first loss", passed=False, message="9, the reference 3")


def verification(strategy, *findings, **changes):
    one = Verification(
        workload="resnet20",
        framework="torch",
        strategy=strategy,
        device_kind="cpu",
        n_devices=2 if strategy else 1,
        software=dict(RECORD.software),
        verified_at="2026-01-01T00:00:00+00:00",
        findings=list(findings),
    )
    return replace(one, **changes)


MODEL, STRATEGY = verification(None, GOOD), verification("ddp", GOOD)


def test_a_record_is_verified_by_its_model_and_its_strategy_together():
    assert badge(RECORD, [MODEL, STRATEGY]) == "verified"
    assert badge(RECORD, [MODEL]) == "not verified"
    assert badge(RECORD, [STRATEGY]) == "not verified"
    assert badge(RECORD, []) == "not verified"


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": "mlp"},
        {"framework": "mxnet"},
        {"strategy": "single"},
        {"device_kind": "gpu"},
        {"n_devices": 4},
        {"software": {**RECORD.software, "torch": "9.9"}},
        {"software": {**RECORD.software, "source": "another"}},
    ],
)
def test_a_verification_of_something_else_says_nothing(changes):
    assert badge(RECORD, [MODEL, replace(STRATEGY, **changes)]) == "not verified"
    assert badge(RECORD, [MODEL, replace(STRATEGY, findings=[BAD], **changes)]) == "not verified"


def test_a_failure_of_either_part_is_named():
    failed = verification("ddp", GOOD, BAD)
    assert badge(RECORD, [MODEL, failed]) == "failed: first loss: 9, the reference 3"
    assert badge(RECORD, [verification(None, BAD), STRATEGY]) == "failed: first loss: 9, the reference 3"


def test_a_verification_that_compared_nothing_is_no_proof():
    assert badge(RECORD, [MODEL, verification("ddp")]) == "failed: nothing was compared"


def test_reduced_precision_is_not_covered():
    assert badge(make_record(make_case("ddp", 2, precision="bf16")), [MODEL, STRATEGY]) == "not verified"


def test_the_fingerprint_is_of_the_subject_and_its_environment():
    assert STRATEGY.fingerprint == verification("ddp", BAD, verified_at="later").fingerprint
    others = [MODEL, replace(STRATEGY, n_devices=4), replace(STRATEGY, software={"torch": "9.9"})]
    assert len({one.fingerprint for one in [STRATEGY, *others]}) == 4
