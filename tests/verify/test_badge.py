"""What a record may say of its verification."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

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
        compared_with=["reference"] if strategy else [],
        verified_at="2026-01-01T00:00:00+00:00",
        findings=list(findings),
    )
    return replace(one, **changes)


MODEL, STRATEGY = verification(None, *make_findings(None)), verification("ddp", *make_findings("ddp"))


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
    failed = verification("ddp", *STRATEGY.findings[1:], BAD)
    assert badge(RECORD, [MODEL, failed]) == "failed: first loss: 9, the reference 3"
    assert badge(RECORD, [verification(None, BAD), STRATEGY]) == "failed: first loss: 9, the reference 3"


def test_a_verification_that_compared_nothing_is_no_proof():
    assert badge(RECORD, [MODEL, verification("ddp")]) == "not verified"


def test_reduced_precision_is_not_covered():
    assert badge(make_record(make_case("ddp", 2, precision="bf16")), [MODEL, STRATEGY]) == "not verified"


def test_the_fingerprint_is_of_the_subject_and_its_environment():
    assert STRATEGY.fingerprint == verification("ddp", BAD, verified_at="later").fingerprint
    others = [MODEL, replace(STRATEGY, n_devices=4), replace(STRATEGY, software={"torch": "9.9"})]
    assert len({one.fingerprint for one in [STRATEGY, *others]}) == 4


def with_finding(name, /, **changes):
    """A strategy's verification in which that finding says so."""
    changed = [replace(each, **changes) if each.name == name else each for each in make_findings("ddp")]
    return verification("ddp", *changed)


def with_weights(**changes):
    return with_finding("weights", **{"error": 0.001, "message": "0.1 % off", **changes})


def test_a_finding_within_its_tolerance_proves_it():
    assert badge(RECORD, [MODEL, with_weights()]) == "verified"
    assert badge(RECORD, [MODEL, with_weights(error=0.03, passed=False)]) == "failed: weights: 0.1 % off"


def test_what_is_not_finite_has_no_error_and_has_failed():
    assert badge(RECORD, [MODEL, with_weights(error=None, passed=False)]) == "failed: weights: 0.1 % off"


def test_the_numbers_decide_and_not_the_messages():
    assert badge(RECORD, [MODEL, with_finding("replicas", message="differ by 80 %")]) == "verified"


COMPARED = dict(error=0.0, passed=True, message="2.3; mxnet 2.3")
LOSS = Finding(name="loss", tolerance=1e-4, **COMPARED)
NORM = Finding(name="gradient norm", tolerance=5e-3, **COMPARED)
EXACT = [each for each in MODEL.findings if each.name != "loss"]


def test_a_model_that_is_compared_with_others_is_compared_in_its_loss_and_gradient():
    def of_model(*findings, compared_with=("mxnet",)):
        return badge(RECORD, [verification(None, *findings, compared_with=list(compared_with)), STRATEGY])

    assert of_model(*EXACT, LOSS, NORM) == "verified"
    assert of_model(*EXACT, LOSS) == "not verified"
    assert of_model(*EXACT, LOSS, NORM, compared_with=()) == "not verified"
    assert of_model(*EXACT, LOSS, NORM, compared_with=("torch",)) == "not verified"
    assert of_model(*EXACT, replace(LOSS, error=0.4, tolerance=0.5), NORM) == "not verified"
    assert of_model(*MODEL.findings) == "not verified"


def test_a_model_of_a_workload_with_published_figures_is_held_against_them():
    assert "published parameters" in replace(MODEL, workload="resnet50").proves_nothing


def test_each_workload_has_its_own_limit_of_weights():
    assert with_weights(error=0.019).proves_nothing is None
    assert replace(with_weights(error=0.019), workload="mlp").proves_nothing
    assert replace(with_weights(error=0.0009, tolerance=0.001), workload="mlp").proves_nothing is None


@pytest.mark.parametrize(
    "wrong",
    [
        with_weights(error=0.03),
        with_weights(error=0.03, tolerance=5.0),
        with_weights(error=0.98, tolerance=0.99),
        with_weights(error=0.001, tolerance=0.021),
        with_weights(error=-0.001),
        with_weights(error=-0.001, passed=False),
        with_weights(error=float("nan")),
        with_weights(tolerance=float("nan")),
        with_weights(error=None),
        with_weights(tolerance=None),
        with_weights(error=None, tolerance=None),
        with_weights(passed=False),
        with_weights(name="first loss"),
        with_finding("first loss", error=0.4, tolerance=0.5),
        with_finding("first loss", error=None, tolerance=None),
        *(
            with_finding(name, error=error, tolerance=0.9)
            for name in ("replicas", "world size", "samples a step")
            for error in (0.5, 0.0, None)
        ),
        verification("ddp"),
        verification("ddp", *STRATEGY.findings[1:]),
        replace(STRATEGY, software={}),
        replace(STRATEGY, software={"python": "3.11.0"}),
        replace(STRATEGY, software={"torch": "1.2.3"}),
        replace(STRATEGY, findings=[*STRATEGY.findings, *STRATEGY.findings]),
        *(replace(STRATEGY, compared_with=others) for others in ([], ["my uncle"], ["reference", "my uncle"])),
        *(replace(STRATEGY, verified_at=date) for date in ("2999-01-01T00:00:00+00:00", "2026-01-01T00:00:00")),
        *(replace(STRATEGY, verified_at=date) for date in ("", "yesterday", "9999-12-31T23:59:59-14:00")),
    ],
)
def test_a_verification_that_contradicts_itself_or_the_harness_covers_nothing(wrong):
    assert badge(RECORD, [MODEL, wrong]) == "not verified"
    assert wrong.proves_nothing


def test_a_clock_that_is_half_a_day_ahead_spoils_no_verification():
    ahead = (datetime.now(UTC) + timedelta(hours=12)).isoformat()
    assert badge(RECORD, [MODEL, replace(STRATEGY, verified_at=ahead)]) == "verified"
