"""The traces: readings where they were, rounds shaded, throttling marked, and devices apart where they are many."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from gpubench.report.trace import ACROSS, MOST_PANELS, MOST_POINTS, MOST_ROUNDS, UP, Panel, Trace, trace, why_not
from gpubench.spec.record import DeviceTelemetry, Round, RoundTelemetry, RunRecord, Telemetry
from tests.builders import SECOND_NS, make_case, make_record

ZERO_NS = 100 * SECOND_NS
TEN_SECONDS = [(0.0, 10.0)]
Spans = list[tuple[float, float]]


def at(seconds: float) -> int:
    return ZERO_NS + round(seconds * SECOND_NS)


def make_round(index: int, start: float, end: float) -> Round:
    return replace(make_record().rounds[0], index=index, start_ns=at(start), end_ns=at(end))


def launch(
    times: list[float], timed: Spans, *devices: dict[str, list], control: tuple[float, float] | None = None, **of_device
) -> RunRecord:
    """A launch on GPUs, each with these series at the same times."""
    telemetry = Telemetry(
        source="nvml",
        devices=[
            DeviceTelemetry(
                id=f"GPU-{i}-x", name="Test GPU", time_ns=[at(t) for t in times], series=series, **of_device
            )
            for i, series in enumerate(devices)
        ],
        control=make_round(9, *control) if control else None,
    )
    made = [make_round(index, *span) for index, span in enumerate(timed)]
    return replace(make_record(make_case("ddp", 2, device_kind="gpu")), rounds=made, telemetry=telemetry)


def launch_with_every_mark() -> RunRecord:
    """Eight GPUs: heat and the power limit, a process that joins in round 1, and a control round."""
    series = {
        "utilization_percent": [100.0] * 4,
        "power_watts": [700.0] * 4,
        "sm_clock_mhz": [1980.0] * 4,
        "throttle_thermal_ns": [0, 5, 5, 5],
        "throttle_power_ns": [0, 5, 5, 9],
    }
    summaries = [RoundTelemetry(index=i, samples=2, processes=1 + i) for i in range(2)]
    return launch([0, 4, 6, 10], [(0, 4), (6, 10)], *[series] * 8, control=(4, 6), rounds=summaries)


def drawn(record: RunRecord) -> Trace:
    made = trace(record)
    assert made is not None
    return made


def elements(panel: Panel, tag: str, of_class: str) -> list[ElementTree.Element]:
    return [each for each in ElementTree.fromstring(panel.svg).iter(tag) if each.get("class") == of_class]


def spans(panel: Panel, of_class: str) -> Spans:
    """Where marks of a kind begin and end, in units across."""
    marks = [(float(r.attrib["x"]), float(r.attrib["width"])) for r in elements(panel, "rect", of_class)]
    return [(x, x + width) for x, width in marks]


def curves(panel: Panel, of_class: str = "device device0", tag: str = "polyline") -> list[Spans]:
    lines = [line.attrib["points"].split() for line in elements(panel, tag, of_class)]
    return [[(float(pair.split(",")[0]), float(pair.split(",")[1])) for pair in line] for line in lines]


def labels(panel: Panel, of_class: str) -> list[str]:
    return [text.text or "" for text in elements(panel, "text", of_class)]


def utilization(times: list[float], values: list[float | None], rounds: Spans) -> Panel:
    [row] = drawn(launch(times, rounds, {"utilization_percent": values})).rows
    return row


def test_rounds_are_shaded_where_they_were():
    assert spans(utilization([0, 10], [50, 50], [(0, 2.5), (5, 10)]), "round") == [(0, 250), (500, 1000)]


def test_full_is_at_the_top_and_values_outside_are_held_at_the_edges():
    assert curves(utilization([0, 5, 10], [100, 130, 0], TEN_SECONDS)) == [[(0, 0), (500, 0), (ACROSS, UP)]]


def test_samples_that_could_not_be_read_are_left_out():
    assert curves(utilization([0, 5, 10], [100, None, 0], TEN_SECONDS)) == [[(0, 0), (ACROSS, UP)]]


def test_a_long_series_is_thinned_to_means():
    n = 10 * MOST_POINTS
    [curve] = curves(utilization([i / 100 for i in range(n)], [0, 100] * (n // 2), [(0, n / 100)]))
    assert len(curve) == MOST_POINTS
    assert {y for _, y in curve} == {UP / 2}


def test_a_long_start_or_end_does_not_squeeze_the_rounds():
    [(start, end)] = spans(utilization([-1000, 0, 10, 1000], [0, 100, 100, 0], TEN_SECONDS), "round")
    assert (start, end) == (pytest.approx(200, abs=0.2), pytest.approx(800, abs=0.2))


def test_the_seconds_count_from_the_first_round():
    row = utilization([-2, 10], [0, 0], [(0, 4), (6, 10)])
    assert labels(row, "second") == ["-2 s", "0 s", "2 s", "4 s", "6 s", "8 s", "10 s"]
    assert elements(row, "text", "second")[1].attrib["x"] == "16.67%"


def test_too_many_rounds_are_shaded_together():
    rounds = [(i / 100, (i + 0.9) / 100) for i in range(10 * MOST_ROUNDS)]
    assert spans(utilization([0, 1], [1, 1], rounds), "round") == [(0, pytest.approx(ACROSS, abs=0.1))]


GPU_SERIES = {
    "utilization_percent": [90.0, 100.0, 95.0],
    "power_watts": [300.0, 700.0, 640.0],
    "sm_clock_mhz": [1980.0, 1700.0, 1980.0],
}


def test_utilisation_power_and_clock_stand_in_rows_with_the_time_below_the_last():
    rows = drawn(launch([0, 5, 10], TEN_SECONDS, GPU_SERIES)).rows
    assert [row.title for row in rows] == ["Utilisation, %", "Power, W", "SM clock, MHz"]
    assert [labels(row, "level") for row in rows] == [["0", "50", "100"], ["0", "400", "800"], ["0", "1,000", "2,000"]]
    assert [bool(labels(row, "second")) for row in rows] == [False, False, True]
    assert curves(rows[1]) == [[(0, 62.5), (500, 12.5), (1000, 20)]]
    assert all(spans(row, "round") == [(0, ACROSS)] for row in rows)


def test_a_metric_that_nobody_could_read_has_no_row_and_cores_have_a_frequency():
    series = {"utilization_percent": [1.0, 1.0], "power_watts": [None, None], "sm_clock_mhz": [2500.0, 2400.0]}
    record = launch([0, 10], TEN_SECONDS, series)
    assert [row.title for row in drawn(replace(record, case=make_case("ddp", 2))).rows] == [
        "Utilisation, %",
        "Frequency of the cores, MHz",
    ]


def test_a_metric_that_no_device_tells_has_its_reason():
    made = drawn(launch([0, 10], TEN_SECONDS, {"sm_clock_mhz": [1.0, 1.0]}, unavailable={"power_watts": "denied"}))
    assert made.missing == {"Power": "denied"}


def test_a_curve_is_interrupted_where_nothing_was_read():
    times = [0, 1, 2, 8, 9, 10]
    assert [len(piece) for piece in curves(utilization(times, [50] * 6, TEN_SECONDS))] == [3, 3]


def test_the_control_round_is_marked_and_no_curve_runs_through_it():
    record = launch([0, 4, 6, 10], [(0, 4), (6, 10)], {"utilization_percent": [50] * 4}, control=(4, 6))
    made = drawn(record)
    assert spans(made.rows[0], "control") == [(400, 600)]
    assert spans(made.rows[0], "round") == [(0, 400), (600, 1000)]
    assert [[x for x, _ in piece] for piece in curves(made.rows[0])] == [[0, 400], [600, 1000]]
    assert made.marks == {"round", "control"}


def test_a_clock_that_heat_held_down_is_marked_in_its_row_while_the_counter_grew():
    series = {
        "utilization_percent": [100.0] * 6,
        "sm_clock_mhz": [1980.0] * 6,
        "throttle_thermal_ns": [7, 7, 9, 12, 12, 12],
    }
    made = drawn(launch([0, 2, 4, 6, 8, 10], [(0, 5), (5, 10)], series))
    busy, clock = made.rows
    assert spans(clock, "held") == [(200, 600)]
    assert spans(busy, "held") == []
    assert made.marks == {"round", "held"}
    assert made.notes == ["Clock held down (thermal): GPU-0, in every round."]


def test_the_power_limit_is_marked_more_quietly_than_heat():
    series = {"sm_clock_mhz": [1980.0] * 3, "throttle_power_ns": [0, 0, 5], "throttle_thermal_ns": [0, 5, 5]}
    made = drawn(launch([0, 5, 10], TEN_SECONDS, series))
    [held] = elements(made.rows[0], "rect", "held")
    [capped] = elements(made.rows[0], "rect", "capped")
    assert (held.attrib["x"], held.attrib["height"]) == ("0.0", str(UP))
    assert (capped.attrib["x"], capped.attrib["height"]) == ("500.0", "6")
    assert made.notes[1].startswith("At the power limit")


def test_what_only_the_drivers_reasons_tell_is_marked_until_the_next_reading():
    series = {"sm_clock_mhz": [1980.0] * 4, "clock_event_reasons": [0x1, 0x8 | 0x1, 0x1, 0x40]}
    made = drawn(launch([0, 2, 4, 10], [(0, 3), (3, 10)], series))
    assert spans(made.rows[0], "held") == [(200, 400)]
    assert made.notes == ["Clock held down (hardware slowdown): GPU-0, in every round."]


def test_the_power_limit_is_marked_by_its_counter_where_there_is_one_and_never_over_the_control_round():
    series = {
        "sm_clock_mhz": [1980.0] * 5,
        "throttle_power_ns": [0, 5, 5, 9, 9],
        "clock_event_reasons": [0x4, 0x4, 0x4, 0x4, 0x4],
    }
    made = drawn(launch([0, 1, 3.9, 6.1, 10], [(0, 4), (6, 10)], series, control=(4, 6)))
    assert spans(made.rows[0], "capped") == [(0, 100)]


@pytest.mark.parametrize(
    ("summary", "cause"),
    [({"throttle_ns": {"thermal": 1}}, "thermal"), ({"clock_event_reasons": ["power brake"]}, "power brake")],
)
def test_a_round_of_which_only_the_summary_tells_is_marked_whole(summary, cause):
    rounds = [RoundTelemetry(index=0, samples=2), RoundTelemetry(index=1, samples=2, **summary)]
    made = drawn(launch([0, 10], [(0, 4), (5, 10)], {"sm_clock_mhz": [1980.0, 1980.0]}, rounds=rounds))
    assert spans(made.rows[0], "held") == [(500, 1000)]
    assert made.notes == [f"Clock held down ({cause}): GPU-0, in round 1 of 0 to 1."]


def test_counters_that_stand_still_and_an_idle_gpu_are_no_finding():
    series = {"sm_clock_mhz": [210.0] * 3, "throttle_thermal_ns": [5, 5, 5], "clock_event_reasons": [0x1, 0x1, 0x2]}
    made = drawn(launch([0, 5, 10], TEN_SECONDS, series))
    assert made.marks == {"round"}
    assert made.notes == []


def test_up_to_four_devices_share_a_plot_in_colours_of_their_own():
    made = drawn(launch([0, 10], TEN_SECONDS, *[{"utilization_percent": [10.0 * i, 0.0]} for i in range(4)]))
    assert made.panels == []
    assert made.devices == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]
    assert [curves(made.rows[0], f"device device{i}")[0][0][1] for i in range(4)] == [100, 90, 80, 70]


def test_a_device_that_lacks_a_metric_takes_no_others_colour():
    one, other = {"utilization_percent": [50.0, 50.0]}, {"utilization_percent": [50.0, 50.0], "power_watts": [9.0, 9.0]}
    power = drawn(launch([0, 10], TEN_SECONDS, one, other)).rows[1]
    assert curves(power, "device device0") == []
    assert len(curves(power, "device device1")) == 1


def test_eight_devices_have_a_panel_each_and_a_band_for_power_and_clock():
    devices = [
        {
            "utilization_percent": [10.0 * i, 10.0 * i],
            "power_watts": [100.0 * i, 100.0 * i],
            "sm_clock_mhz": [500.0] * 2,
        }
        for i in range(8)
    ]
    made = drawn(launch([0, 10], TEN_SECONDS, *devices))
    assert [panel.title for panel in made.panels] == [f"GPU-{i}" for i in range(8)]
    assert [curves(panel)[0][0][1] for panel in made.panels] == [100 - 10 * i for i in range(8)]
    assert all(spans(panel, "round") == [(0, ACROSS)] for panel in made.panels)
    power, clock = made.rows
    # 0 to 700 W on a scale to 800 W, the median 350 W.
    assert curves(power, "middle") == [[(0, 56.2), (1000, 56.2)]]
    assert curves(power, "band", "polygon") == [[(0, 12.5), (1000, 12.5), (1000, 100), (0, 100)]]
    assert clock.title == "SM clock, MHz"


def test_in_panels_each_device_shows_its_own_throttling_and_the_clock_that_of_all():
    still, hot = {"throttle_thermal_ns": [0, 0, 0]}, {"throttle_thermal_ns": [0, 0, 5]}
    common = {"utilization_percent": [100.0] * 3, "sm_clock_mhz": [1980.0] * 3}
    made = drawn(launch([0, 5, 10], TEN_SECONDS, *[common | (hot if i == 3 else still) for i in range(8)]))
    assert [i for i, panel in enumerate(made.panels) if spans(panel, "held")] == [3]
    assert spans(made.rows[-1], "held") == [(500, 1000)]
    assert made.notes == ["Clock held down (thermal): GPU-3, in every round."]


def test_of_very_many_devices_only_the_first_have_panels_and_that_is_said():
    made = drawn(launch([0, 10], TEN_SECONDS, *[{"utilization_percent": [1.0, 1.0]}] * 100))
    assert len(made.panels) == MOST_PANELS
    assert made.notes == [f"The first {MOST_PANELS} of 100 devices."]


def test_rounds_that_other_processes_disturbed_are_shaded_differently():
    record = make_record(make_case("ddp", 2), utilization_percent=99.0)
    disturbed = replace(record.rounds[1], rank_cpu_seconds=[1.0, 1.0])
    made = drawn(replace(record, rounds=[record.rounds[0], disturbed, record.rounds[2]]))
    assert len(spans(made.rows[0], "round")) == 2
    [(start, _)] = spans(made.rows[0], "loaded")
    first, last = spans(made.rows[0], "round")
    assert first[1] < start < last[0]
    assert made.notes == ["Other processes took over 5 % of the cores' time in round 1 of 0 to 2."]


def test_a_round_in_which_a_process_joined_the_gpu_is_shaded_differently():
    rounds = [RoundTelemetry(index=i, samples=2, processes=1 + i) for i in range(2)]
    made = drawn(launch([0, 10], [(0, 4), (5, 10)], {"utilization_percent": [1.0, 1.0]}, rounds=rounds))
    assert spans(made.rows[0], "loaded") == [(500, 1000)]
    assert made.notes == ["Another process came to the GPU in round 1 of 0 to 1."]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (make_record(utilization_percent=None), "the record has no readings of utilisation, power or clock"),
        (replace(make_record(), telemetry=Telemetry(reason="no NVML")), "no NVML"),
        (replace(make_record(), telemetry=Telemetry()), "no device was sampled"),
        (
            replace(
                make_record(), telemetry=Telemetry(devices=[DeviceTelemetry(id="0", name="0")], series_file="a.pq")
            ),
            "its readings are in a.pq, which was not there to be read",
        ),
        (launch([], TEN_SECONDS, {}, unavailable={"utilization_percent": "denied"}), "denied"),
    ],
)
def test_without_readings_there_is_no_trace_but_a_reason(record: RunRecord, reason: str):
    assert trace(record) is None
    assert why_not(record) == reason


def test_without_rounds_there_is_no_trace():
    assert trace(replace(make_record(), rounds=[])) is None


@pytest.mark.parametrize("values", [[1e24, 0.0, 1e24], [5e-324, 0.0, 0.0]])
def test_what_a_record_may_hold_at_worst_is_drawn(values):
    """Times out of order, all at once or far away, devices of one name, a round without length."""
    for times in ([10, 0, 5], [3, 3, 3], [-9e9, 0, 9e9]):
        series = {"power_watts": values, "utilization_percent": values, "clock_event_reasons": values}
        for rounds in ([(0, 0)], [(5, 10), (0, 4)]):
            record = launch(times, rounds, *[series] * 6, control=(0, 0))
            telemetry = record.telemetry
            same = [replace(device, id="<&>") for device in telemetry.devices]
            made = drawn(replace(record, telemetry=replace(telemetry, devices=same)))
            for panel in [*made.panels, *made.rows]:
                assert "nan" not in panel.svg
                assert "inf" not in panel.svg
                ElementTree.fromstring(panel.svg)
