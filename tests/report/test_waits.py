"""What a table says of the time that launches waited for quiet devices."""

from dataclasses import replace

import pytest

from gpubench.analysis.scaling import summarize
from gpubench.progress import LineProgress, Quiet
from gpubench.report.notes import notes
from gpubench.spec.record import Schedule
from tests.builders import make_case, make_record


def waited(*waits):
    """A launch for each (seconds, whether its devices became quiet)."""
    schedule = Schedule(order="interleaved", seed=0, launches=len(waits), position=0)
    return [
        replace(
            make_record(make_case(), launch=i),
            schedule=replace(schedule, waited_for_quiet_seconds=seconds, quiet=quiet),
        )
        for i, (seconds, quiet) in enumerate(waits)
    ]


@pytest.mark.parametrize(
    ("waits", "told"),
    [
        ([(1.5, True), (12.0, True)], "1.5 to 12.0 s before each launch; of 2, 2 began quiet"),
        ([(1.5, True), (60.0, False)], "1.5 to 60.0 s before each launch; of 2, 1 began quiet, 1 began without quiet"),
        ([(1.5, None)], "1.5 s before each launch; of 1, 1 not known"),
    ],
)
def test_the_notes_say_how_long_was_waited_and_how_many_launches_began_quiet(waits, told):
    (summary,) = summarize(waited(*waits))
    assert f"waited for quiet devices: {told}" in notes(summary)


def test_nothing_is_said_where_nothing_was_waited_for():
    (summary,) = summarize(waited((None, None)))
    assert not [note for note in notes(summary) if "quiet" in note]


def test_a_launch_that_began_without_quiet_is_a_warning_and_counts():
    (summary,) = summarize(waited((1.5, True), (60.0, False), (2.0, True)))
    (check,) = [check for check in summary.checks if check.name == "not_quiet"]
    assert check.severity == "warning"
    assert check.message.endswith("had not become quiet within 60 s (in 1 of 3 launches)")
    assert len(summary.launches) == 3


def test_progress_says_it_of_each_launch_and_quiet_progress_where_it_went_wrong():
    lines = {LineProgress: [], Quiet: []}
    for kind, told in lines.items():
        progress = kind(total=3, write=told.append)
        for record in waited((1.5, True), (60.0, False), (2.0, None)):
            progress.finished(record)
    whole = lines[LineProgress]
    assert "; waited 1.5 s until quiet" in whole[0]
    assert "; began after 60.0 s without quiet" in whole[1]
    assert "; waited 2.0 s, and whether the devices were quiet cannot be read" in whole[2]
    assert len(lines[Quiet]) == 1
    assert "without quiet" in lines[Quiet][0]
