"""The utilisation trace: rounds where they were, values where they were, gaps left out."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from gpubench.report.trace import HEIGHT, LEFT, MOST_POINTS, RIGHT, TOP, WIDTH, utilization_trace
from gpubench.spec.record import DeviceTelemetry, RunRecord, Telemetry
from tests.builders import SECOND_NS, make_case, make_record

ZERO_NS = 100 * SECOND_NS


def traced(times: list[float], values: list[float | None], rounds: list[tuple[float, float]]) -> ElementTree.Element:
    record = make_record()
    device = DeviceTelemetry(
        id="core 0",
        name="Test CPU",
        time_ns=[ZERO_NS + round(time * SECOND_NS) for time in times],
        series={"utilization_percent": values},
    )
    made = [
        replace(record.rounds[0], start_ns=ZERO_NS + round(a * SECOND_NS), end_ns=ZERO_NS + round(b * SECOND_NS))
        for a, b in rounds
    ]
    svg = utilization_trace(replace(record, rounds=made, telemetry=Telemetry(source="cpu", devices=[device])))
    assert svg is not None
    return ElementTree.fromstring(svg)


def points(svg: ElementTree.Element) -> list[tuple[float, ...]]:
    [line] = svg.iter("polyline")
    return [tuple(float(part) for part in pair.split(",")) for pair in line.attrib["points"].split()]


def test_rounds_are_shaded_where_they_were():
    svg = traced([0, 10], [50, 50], [(0, 2.5), (5, 10)])
    across = WIDTH - LEFT - RIGHT
    spans = [(float(rect.attrib["x"]), float(rect.attrib["width"])) for rect in svg.iter("rect")]
    assert spans == [
        (pytest.approx(LEFT), pytest.approx(across / 4, abs=0.1)),
        (pytest.approx(LEFT + across / 2, abs=0.1), pytest.approx(across / 2, abs=0.1)),
    ]


def test_full_is_at_the_top_and_values_outside_are_held_at_the_edges():
    (_, top), (_, over), (_, idle) = points(traced([0, 5, 10], [100, 130, 0], [(0, 10)]))
    assert top == over == TOP
    assert TOP < idle < HEIGHT


def test_samples_that_could_not_be_read_are_left_out():
    assert len(points(traced([0, 5, 10], [100, None, 0], [(0, 10)]))) == 2


def test_a_long_series_is_thinned_to_means():
    n = 10 * MOST_POINTS
    drawn = points(traced([i / 100 for i in range(n)], [0, 100] * (n // 2), [(0, n / 100)]))
    middle = sum(points(traced([0, 1], [50, 50], [(0, 1)]))[0][1:])
    assert len(drawn) <= MOST_POINTS
    assert all(y == pytest.approx(middle) for _, y in drawn)


def test_a_long_start_does_not_squeeze_the_rounds():
    svg = traced([-1000, 0, 10], [0, 100, 100], [(0, 10)])
    [rect] = svg.iter("rect")
    assert float(rect.attrib["width"]) > 0.7 * (WIDTH - LEFT - RIGHT)


@pytest.mark.parametrize(
    "record",
    [
        make_record(utilization_percent=None),
        replace(make_record(), telemetry=Telemetry(reason="no NVML")),
        replace(make_record(), rounds=[]),
    ],
)
def test_without_samples_or_rounds_there_is_no_trace(record: RunRecord):
    assert utilization_trace(record) is None


def test_each_device_has_a_curve():
    svg = utilization_trace(make_record(make_case("ddp", 8, device_kind="gpu")))
    assert svg is not None
    assert svg.count("<polyline") == 8
