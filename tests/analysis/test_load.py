"""Foreign load and stolen time, by hand: busy core-seconds of the cores less the CPU seconds of the ranks."""

from dataclasses import replace

import pytest

from gpubench.analysis.load import mean_load, round_loads
from gpubench.spec.record import Round, RunRecord
from tests.builders import make_case, make_record

SECOND_NS = 10**9


def loaded(
    percents: list[list[float | None]],
    cpu_seconds: list[list[float]],
    *,
    seconds: list[float] | None = None,
    steal: list[float | None] | None = None,
    kind: str = "cpu",
) -> RunRecord:
    """`percents[device][round]` busy, `cpu_seconds[round][rank]` ours; rounds of 2 s unless said."""
    record = make_record(make_case("ddp", len(percents), device_kind=kind))  # type: ignore[arg-type]
    lengths = seconds or [2.0] * len(cpu_seconds)
    rounds = [
        Round(
            index=i,
            start_ns=10 * i * SECOND_NS,
            end_ns=10 * i * SECOND_NS + round(length * SECOND_NS),
            steps=1,
            samples=record.case.global_batch,
            rank_seconds=[length] * len(ours),
            rank_cpu_seconds=ours,
        )
        for i, (length, ours) in enumerate(zip(lengths, cpu_seconds, strict=True))
    ]
    pattern = record.telemetry.devices[0].rounds[0]
    steals = steal or [None] * len(rounds)
    devices = [
        replace(
            device,
            rounds=[
                replace(pattern, index=i, utilization_percent=percent, steal_percent=stolen)
                for i, (percent, stolen) in enumerate(zip(percents[n], steals, strict=True))
            ],
        )
        for n, device in enumerate(record.telemetry.devices)
    ]
    return replace(record, rounds=rounds, telemetry=replace(record.telemetry, devices=devices))


def test_foreign_load_is_busy_time_that_is_not_ours():
    # one core, 2 s: 90 % busy is 1.8 s, of which 1.2 s are ours: 0.6 of 2 s are others'
    [load] = round_loads(loaded([[90.0]], [[1.2]]))
    assert load.foreign == pytest.approx(0.3)


def test_with_a_rank_on_each_device_the_worst_device_counts():
    # 2 s: 1.9 s busy less 1.9 s ours is none; 1.9 s less 0.9 s is half of the time
    [load] = round_loads(loaded([[95.0], [95.0]], [[1.9, 0.9]]))
    assert load.foreign == pytest.approx(0.5)


def test_with_one_rank_for_all_devices_they_count_together():
    # 2 cores x 2 s: 3.8 s busy less 2.8 s ours is 1 of 4 s
    [load] = round_loads(loaded([[95.0], [95.0]], [[2.8]]))
    assert load.foreign == pytest.approx(0.25)


def test_what_the_timer_lost_is_no_negative_load():
    [load] = round_loads(loaded([[95.0]], [[1.99]]))
    assert load.foreign == 0


def test_where_a_device_was_not_sampled_the_load_is_not_known():
    [load] = round_loads(loaded([[95.0], [None]], [[1.9, 1.9]]))
    assert load.foreign is None
    assert mean_load([load], "foreign") is None


def test_the_mean_is_over_time_as_a_loaded_round_takes_longer():
    # 1 s without and 3 s with two thirds of foreign load: 2 of 4 s
    loads = round_loads(loaded([[90.0, 90.0]], [[0.9], [0.7]], seconds=[1.0, 3.0]))
    assert loads[1].foreign == pytest.approx(0.9 - 0.7 / 3)
    assert mean_load(loads, "foreign") == pytest.approx((0.9 - 0.7 / 3) * 3 / 4)


def test_stolen_time_is_the_rounds_own_figure():
    [load] = round_loads(loaded([[60.0]], [[1.2]], steal=[30.0]))
    assert (load.foreign, load.stolen) == (0, pytest.approx(0.3))


def test_stolen_time_comes_from_the_series_where_the_round_has_none():
    record = loaded([[60.0]], [[1.2]])
    [device] = record.telemetry.devices
    times = [-1, SECOND_NS, 2 * SECOND_NS, 3 * SECOND_NS]  # the round is from 0 to 2 s
    device = replace(device, time_ns=times, series={"steal_percent": [99.0, 10.0, 20.0, 99.0]})
    [load] = round_loads(replace(record, telemetry=replace(record.telemetry, devices=[device])))
    assert load.stolen == pytest.approx(0.15)


def test_gpus_have_no_load_of_cores():
    assert round_loads(loaded([[95.0]], [[0.1]], kind="gpu")) == []
