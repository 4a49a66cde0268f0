"""Comparisons whose answer is known beforehand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpubench.analysis import equality
from gpubench.spec.workload import WORKLOADS


def arrays(*values):
    return [np.array(value, dtype=np.float32) for value in values]


NAMES = ["head kernel", "head bias"]
START = arrays([[0.0, 0.0]], [1.0])
REFERENCE = arrays([[3.0, 4.0]], [3.0])  # went 5, and 2


def test_the_error_of_a_parameter_is_relative_to_the_way_that_the_reference_went():
    found = arrays([[3.0, 4.5]], [3.1])  # 0.5 of 5, and 0.1 of 2
    finding = equality.weights([found], REFERENCE, START, NAMES, tolerance=0.2)
    assert finding.error == pytest.approx(0.1)
    assert finding.passed
    assert "head kernel" in finding.message
    assert not equality.weights([found], REFERENCE, START, NAMES, tolerance=0.09).passed


def test_the_worst_replica_counts():
    found = arrays([[3.0, 4.0]], [4.0])  # 1 of 2
    finding = equality.weights([REFERENCE, found], REFERENCE, START, NAMES, tolerance=0.1)
    assert finding.error == pytest.approx(0.5)
    assert "head bias of replica 1" in finding.message


def test_a_net_that_went_twice_as_far_is_said_to():
    found = arrays([[6.0, 8.0]], [5.0])
    finding = equality.weights([found], REFERENCE, START, NAMES, tolerance=0.1)
    assert finding.message.endswith("2.00 times as far")


def test_a_net_that_stood_still_is_not_equal_to_one_that_moved():
    finding = equality.weights([START], REFERENCE, START, NAMES, tolerance=0.5)
    assert not finding.passed
    assert finding.error == pytest.approx(1.0)


def test_rounding_of_a_parameter_that_hardly_moved_is_forgiven():
    start, reference = arrays([[1.0, 1.0]], [1.0]), arrays([[1.0, 1.0 + 1e-6]], [1.0])
    found = arrays([[1.0, 1.0]], [1.0])
    assert equality.weights([found], reference, start, NAMES, tolerance=0.001).passed


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_never_equal(bad):
    found = arrays([[bad, 4.0]], [3.0])
    for pair in ((found, REFERENCE), (REFERENCE, found), (found, found)):
        assert not equality.weights([pair[0]], pair[1], START, NAMES, tolerance=1.0).passed


def test_other_shapes_or_no_replica_at_all_do_not_pass():
    assert not equality.weights([], REFERENCE, START, NAMES, tolerance=1.0).passed
    assert not equality.weights([REFERENCE[:1]], REFERENCE, START, NAMES, tolerance=1.0).passed
    assert not equality.weights([arrays([[3.0], [4.0]], [3.0])], REFERENCE, START, NAMES, tolerance=1.0).passed


def test_of_three_the_one_that_differs_from_the_median_fails():
    findings = equality.agreement("loss", {"a": 2.0, "b": 2.00001, "c": 2.1}, tolerance=1e-4)
    assert {name for name, finding in findings.items() if not finding.passed} == {"c"}
    assert findings["c"].error == pytest.approx(0.05, rel=1e-3)
    assert findings["c"].message == "2.1; a 2, b 2.00001"


def test_of_two_that_differ_neither_is_right():
    findings = equality.agreement("loss", {"a": 2.0, "b": 2.1}, tolerance=1e-4)
    assert not any(finding.passed for finding in findings.values())


def test_a_number_that_is_missing_fails_and_does_not_shift_the_median():
    findings = equality.agreement("loss", {"a": 2.0, "b": None, "c": 2.0}, tolerance=1e-4)
    assert [finding.passed for finding in findings.values()] == [True, False, True]
    assert not equality.close("first loss", None, 2.0, 1.0).passed
    assert not equality.close("first loss", 2.0, None, 1.0).passed


@given(
    st.floats(0.001, 1000),
    st.floats(1.01, 10) | st.floats(0.1, 0.99),
)
def test_an_update_of_another_scale_never_passes(size, factor):
    reference = [start + np.float32(size) for start in START]
    found = [start + np.float32(size * factor) for start in START]
    assert not equality.weights([found], reference, START, NAMES, tolerance=0.005).passed


@pytest.mark.parametrize("workload", WORKLOADS)
def test_parameters_are_named_by_layer(workload):
    layers = WORKLOADS[workload].layers
    shapes = []
    for layer in layers:
        dense = layer.name in ("hidden", "head")
        shapes += [(2, 2), (2,)] if dense else [(1, 1, 2, 2), (2,), (2,)]
    names = equality.parameter_names(layers, shapes)
    assert len(names) == len(set(names)) == len(shapes)
    assert names[-2:] == ["head kernel", "head bias"]
    if workload != "mlp":
        assert names[:3] == ["stem kernel", "stem scale", "stem shift"]
