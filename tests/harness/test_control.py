"""The control round: one more round in a case's first launch, while nothing is sampled."""

import pytest

from gpubench.analysis.sampling import sampler_effect
from gpubench.files import reducing, store

WORDS = ("run", "--frameworks", "fake", "--strategies", "ranks", "--devices", "2", "--launches", "2")


@pytest.mark.parametrize("paired", ["--paired", "--no-paired"])
def test_the_first_launch_of_a_case_has_a_round_in_its_middle_that_is_not_sampled(gpubench, fake, tmp_path, paired):
    fake(step_seconds=0.05, real_time=True)
    done = gpubench(*WORDS, paired)
    assert done.returncode == 0, done.stderr
    run = reducing.with_traces(reducing.load(store.find("last", tmp_path / "results")))
    effect = sampler_effect(run.records)
    assert effect is not None
    assert effect.control_rounds == sum(record.launch == 1 for record in run.records)
    for record in (each.whole() for each in run.records):
        control = record.telemetry.control
        assert (control is not None) == (record.launch == 1)
        if control is None:
            continue
        assert [one.end_ns <= control.start_ns for one in record.rounds] == [True, True, True, False, False]
        assert control.steps == record.rounds[0].steps
        assert len(record.rounds) == 5
        for device in record.telemetry.devices:
            inside = [t for t in device.time_ns if control.start_ns + 50_000_000 < t < control.end_ns]
            assert inside == [], "but for a sweep that was under way"
            assert [each.samples > 5 for each in device.rounds] == [True] * 5
        assert record.telemetry.cost is not None
        assert record.telemetry.cost.dropped_ticks < 5, "the pause drops none"
