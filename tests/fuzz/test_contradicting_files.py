"""Old files in which one number was changed: refused, or every figure is as it was, gone or marked."""

import random
from collections import defaultdict

import pytest

from gpubench.files import store
from tests.fuzz.hostile import GOLDEN
from tests.harness.test_contradictions import HELD, assert_marked, changed_at, named, other, places

# What older records do not hold twice.
LACKING = {"WarmUp.first_step_seconds", "WarmUp.seconds", "WarmUp.steps", "RoundTelemetry.power_watts"}


def sessions():
    """The launches of each case that was launched three times."""
    found = defaultdict(list)
    for record in store.load(GOLDEN).records:
        found[record.case, record.run_id].append(record)
    return [each for each in found.values() if len(each) == 3 and all(r.outcome.status == "ok" for r in each)]


@pytest.mark.parametrize("batch", range(2))
def test_an_old_record_in_which_one_number_was_changed_gives_no_unmarked_number(batch):
    launches = sessions()
    assert len(launches) > 4
    for seed in range(batch * 60, batch * 60 + 60):
        picked = random.Random(seed)
        records = picked.choice(launches)
        place = picked.choice(places(records[1], set(named(HELD)) - LACKING))
        factor = picked.choice([0.01, 0.5, 1 / 1.4, 1.4, 2.0, 100.0])
        which = picked.randrange(9)
        assert_marked(records, changed_at(records[1], place, lambda value, f=factor, w=which: other(value, f, w)))
