"""Every kind of hostile file in every place that takes one: a verdict or one message, in little memory and time."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fuzz.inert import assert_plain
from tests.fuzz.places import Command, Places
from tests.fuzz.watchdog import MEMORY, Ended, run

FOR_EVERY_CHANGE = 24  # places, of some 250
SLOW = re.compile("bomb|many|million|rounds|zeros as|row group|another id|200 MiB|terabytes|deep|megabytes|expands")


def wrong(ended: Ended) -> str | None:
    """What is wrong with how a command ended; None where nothing is."""
    if ended.code not in (0, 1, 2, 3, 4):
        return f"exit code {ended.code} after {ended.cpu_seconds:.1f} s of CPU time"
    if ended.mebibytes > MEMORY >> 20:
        return f"{ended.mebibytes} MiB"
    if "Traceback" in ended.err:
        return "a traceback"
    if ended.code == 2 and not 0 < len(ended.err) < 4000:
        return f"a message of {len(ended.err)} characters"
    if ended.code == 2 and len(re.findall("^(?:gpubench: [A-Z/]|Error: )", ended.err, re.MULTILINE)) != 1:
        return "not one message"
    try:
        assert_plain(ended.out + ended.err)
    except AssertionError as error:
        return f"characters that a terminal obeys: {error}"
    return None


def assert_all_end_well(commands: Sequence[Command], folder: Path) -> None:
    found = run([words for _, words in commands], folder)
    assert len(found) == len(commands)
    told = [
        f"{kind}: gpubench {' '.join(ended.words)}\n  {why}\n  {ended.err[-600:]}"
        for (kind, _), ended in zip(commands, found, strict=True)
        if (why := wrong(ended))
    ]
    assert not told, "\n".join(told)


def test_a_sample_of_hostile_files_in_all_places_ends_in_a_verdict_or_one_message(tmp_path):
    places = Places(tmp_path)
    every = [(kind, make, place) for kind, make, names in places.everywhere() for place in names]
    quick = [one for one in every if not SLOW.search(one[0])]
    picked = random.Random(0).sample(quick, FOR_EVERY_CHANGE)
    assert {place for _, _, place in picked} >= {"journal", "bundle", "toml", "plan", "verified", "series"}
    commands = [random.Random(0).choice(places.commands(*one)) for one in picked]
    assert_all_end_well(commands, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["journal", "bundle", "toml", "plan", "verified", "series", "trials"])
def test_every_hostile_file_in_every_place_ends_in_a_verdict_or_one_message(tmp_path, place):
    places = Places(tmp_path)
    for kind, make, names in places.everywhere():
        if place in names:
            assert_all_end_well(places.commands(kind, make, place), tmp_path)
