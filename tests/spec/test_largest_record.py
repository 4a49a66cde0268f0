"""The largest launch that may be asked for leaves a record that is read again."""

from dataclasses import fields, replace

from gpubench.files.line import decode
from gpubench.harness.settings import MOST_DEVICE_ROUNDS
from gpubench.spec.record import EVENT_REASONS, DeviceTelemetry, RoundTelemetry, to_json
from tests.builders import make_record


def full_round(index: int) -> RoundTelemetry:
    """Every figure in as many digits as it may have."""
    figures = {
        each.name: 123456789.12345678 if "float" in str(each.type) else 123456789012
        for each in fields(RoundTelemetry)
        if str(each.type) in ("float | None", "int | None")
    }
    return replace(
        RoundTelemetry(index=index, samples=1000),
        **figures,
        utilization_source="driver's buffer",
        energy_source="integrated power",
        throttle_ns=dict.fromkeys(["power", "thermal", "sync_boost", "board_limit", "reliability"], 10**10),
        clock_event_reasons=list(EVENT_REASONS.values())[:2],
        gpm={f"some_gpm_metric_{i}": 12.345678901234567 for i in range(12)},
    )


def test_the_most_rounds_that_a_plan_may_ask_for_fit_into_a_line():
    n_devices = 8
    record = make_record()
    rounds = [full_round(index) for index in range(MOST_DEVICE_ROUNDS // n_devices)]
    devices = [DeviceTelemetry(id=f"GPU-{i}", name="GPU", rounds=rounds) for i in range(n_devices)]
    line = to_json(replace(record, telemetry=replace(record.telemetry, devices=devices)))
    assert len(decode(line).telemetry.devices[7].rounds) == len(rounds)
