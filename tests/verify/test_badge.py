"""What a record may say of its verification."""

from dataclasses import replace

import pytest

from gpubench.analysis.badge import badge
from gpubench.spec.verification import Finding, Verification
from tests.builders import make_case, make_findings, make_record

RECORD = make_record(make_case("ddp", 2))
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


MODEL, STRATEGY = verification(None, *make_findings(None)), verification("ddp", *make_findings("ddp"))
WEIGHTS = Finding(name="weights", passed=True, message="0.1 % off", error=0.001, tolerance=0.02)


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
    failed = verification("ddp", WEIGHTS, BAD)
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


def with_weights(**changes):
    """A strategy's verification in which the finding on weights says so."""
    rest = [each for each in make_findings("ddp") if each.name != "weights"]
    return verification("ddp", *rest, replace(WEIGHTS, **changes))


def test_a_finding_within_its_tolerance_proves_it():
    assert badge(RECORD, [MODEL, with_weights()]) == "verified"
    assert badge(RECORD, [MODEL, with_weights(error=0.03, passed=False)]) == "failed: weights: 0.1 % off"


@pytest.mark.parametrize(
    "wrong",
    [
        with_weights(error=0.03),
        with_weights(error=0.03, tolerance=5.0),
        with_weights(error=-0.001),
        with_weights(error=float("nan")),
        with_weights(error=None),
        with_weights(tolerance=None),
        with_weights(passed=False),
        with_weights(name="first loss"),
        verification("ddp", WEIGHTS),
        replace(STRATEGY, software={}),
        replace(STRATEGY, software={"python": "3.11.0"}),
        replace(STRATEGY, software={"torch": "1.2.3"}),
        replace(STRATEGY, findings=[*STRATEGY.findings, *STRATEGY.findings]),
    ],
)
def test_a_verification_that_contradicts_itself_or_names_no_software_covers_nothing(wrong):
    assert badge(RECORD, [MODEL, wrong]) == "not verified"
    assert wrong.proves_nothing
