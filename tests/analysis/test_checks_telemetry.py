"""A device of which nothing was read in a round is named, with the cause of that device and of that round."""

from dataclasses import replace

import pytest

from gpubench.analysis.checks import doubts
from gpubench.spec.record import METRICS
from tests.builders import make_case, make_record

LASTING = {"power_watts": "the kernel shows no RAPL energy counter for these cores", "energy_joules": "no counter"}


def unread(kind: str, unavailable: dict[str, str], in_round: dict[str, str]):
    """The doubts where the second of three rounds has no figure of the first device."""
    record = make_record(make_case("ddp", 2, device_kind=kind))
    [first, *others] = record.telemetry.devices
    blind = replace(first.rounds[1], **dict.fromkeys(METRICS), unavailable={**unavailable, **in_round})
    first = replace(first, rounds=[first.rounds[0], blind, first.rounds[2]], unavailable=unavailable)
    record = replace(record, telemetry=replace(record.telemetry, devices=[first, *others]))
    return first.id, [check for check in doubts(record) if check.name == "device_unread"]


def test_what_a_device_never_has_is_not_why_nothing_else_was_read():
    id, [check] = unread("cpu", LASTING, {"utilization_percent": "the sampler was late"})
    assert check.message == f"nothing was read of {id} in round 1 of 3 (the sampler was late)"
    assert check.severity == "warning"


def test_a_device_that_has_nothing_at_all_is_named_with_its_own_reason():
    _, [check] = unread("gpu", dict.fromkeys(METRICS, "NVML: GPU is lost (error 15)"), {})
    assert "(NVML: GPU is lost (error 15))" in check.message


@pytest.mark.parametrize(("kind", "tool"), [("gpu", True), ("cpu", False)])
def test_only_a_gpu_is_looked_for_with_the_tool_for_gpus(kind, tool):
    _, [check] = unread(kind, {}, {})
    assert ("nvidia-smi" in check.remedy) == tool
    assert "no sample fell into it" in check.message
