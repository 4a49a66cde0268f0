from dataclasses import replace

import pytest

from gpubench.analysis.reduced import reduced
from gpubench.analysis.sampling import SamplerEffect, sampler_effect
from gpubench.spec.record import DeviceTelemetry, Round, RoundTelemetry, RunRecord, SamplerCost, Telemetry
from tests.builders import make_record

COST = SamplerCost(cpu_seconds=0.02, sweeps=100, seconds=10.0, sweep_seconds_p50=0.001, dropped_ticks=1)


def a_round(start: float, seconds: float, steps: int = 10) -> Round:
    return Round(
        index=round(start),
        start_ns=round(start * 1e9),
        end_ns=round((start + seconds) * 1e9),
        steps=steps,
        samples=steps,
        rank_seconds=[seconds],
        rank_cpu_seconds=[seconds],
    )


def sampled(rounds: list[Round], control: Round | None) -> RunRecord:
    summaries = [RoundTelemetry(index=each.index, samples=10) for each in rounds]
    devices = [DeviceTelemetry(id="core 0", name="Test CPU", rounds=summaries)]
    telemetry = Telemetry(source="cpu", cost=COST, control=control, devices=devices)
    return replace(make_record(), rounds=rounds, telemetry=telemetry)


def effect_of(records: list[RunRecord]) -> SamplerEffect | None:
    return sampler_effect([reduced(record) for record in records])


def test_the_control_round_is_compared_with_its_neighbours_so_that_drift_falls_out():
    # Each round is 1 % slower than the one before it, the far ones by much; the sampler costs 2 %.
    drifting = [a_round(0, 5.0), a_round(10, 1.02), a_round(14, 1.02 * 1.01**2), a_round(20, 5.0)]
    effect = effect_of([sampled(drifting, a_round(12, 1.01))])
    assert effect is not None
    assert effect.control_rounds == 1
    assert effect.slowdown == pytest.approx(0.02)
    assert effect.interval is None, "one round tells nothing about its noise"


def test_the_effect_is_the_median_over_control_rounds_with_an_interval_from_three_on():
    records = [sampled([a_round(0, seconds)], a_round(2, 1.0)) for seconds in (1.00, 1.01, 1.02)]
    effect = effect_of(records)
    assert effect is not None
    assert effect.slowdown == pytest.approx(0.01)
    assert effect.interval is not None
    assert effect.interval.low < 0.01 < effect.interval.high


def test_steps_are_compared_and_not_rounds():
    effect = effect_of([sampled([a_round(0, 1.0, steps=10)], a_round(2, 0.5, steps=5))])
    assert effect is not None
    assert effect.slowdown == pytest.approx(0)


def test_a_control_round_beside_rounds_that_were_not_sampled_either_tells_nothing():
    record = sampled([a_round(0, 1.0), a_round(4, 1.0)], a_round(2, 1.0))
    (device,) = record.telemetry.devices
    for samples in ((0, 0), (10, 0), (0, 10)):
        rounds = [replace(one, samples=n) for one, n in zip(device.rounds, samples, strict=True)]
        ended = replace(record, telemetry=replace(record.telemetry, devices=[replace(device, rounds=rounds)]))
        effect = effect_of([record, ended])
        assert effect is not None
        assert effect.control_rounds == 1


def test_what_was_not_sampled_has_no_effect_and_what_had_no_control_round_no_slowdown():
    assert effect_of([replace(make_record(), telemetry=Telemetry(reason="not sampled"))]) is None
    effect = effect_of([sampled([a_round(0, 1.0)], None)] * 2)
    assert effect is not None
    assert effect.slowdown is None
    assert effect.core_share == pytest.approx(0.002)
    assert effect.dropped_ticks == 2
