"""The doubts that show where records are seen together: those of one session, and those of one file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gpubench.spec.invariants import together, whole
from gpubench.spec.record import Check

LOST_ANYWHERE = frozenset({"records_lost"})  # of whichever case of its run
INCOMPLETE = LOST_ANYWHERE | {"launches_missing"}


def contradictions(records: Sequence[together.Launched]) -> dict[str, list[Check]]:
    """By record id, of launches that ended well."""
    return {
        record_id: [
            Check(
                name="contradiction",
                severity="severe",
                message=problem,
                remedy="a record was edited or copied: take the files as they were written, or measure again",
            )
        ]
        for record_id, problem in together.problems(records).items()
    }


def losses(records: Sequence[together.Launched], unread: int) -> dict[str, list[Check]]:
    """What the file of a run lacks, by record id; `unread` lines of it could not be read."""
    found: dict[str, list[Check]] = defaultdict(list)
    if words := lost_in_words(records, unread):
        lost = Check(
            name="records_lost",
            severity="warning",
            message=f"{words}: a launch of this case may be among them",
            remedy="take the file as it was written, or measure again",
        )
        for record in records:
            found[record.record_id].append(lost)
    for record_id, words in whole.missing_launches(records).items():
        found[record_id].append(
            Check(
                name="launches_missing",
                severity="note",
                message=words,
                remedy="the run was interrupted or is going on, or lines were taken out of its file: continue it with "
                "--resume, or take the file as it was written",
            )
        )
    return found


def lost_in_words(records: Sequence[together.Launched], unread: int) -> str:
    """What of a run's file cannot be read, or is not there; empty where nothing is known to be lost."""
    absent = whole.absent(records)
    if unread >= absent:
        return f"{unread} line{'s' if unread > 1 else ''} of its run could not be read" if unread else ""
    return f"{absent} record{'s' if absent > 1 else ''} of its run {'are' if absent > 1 else 'is'} missing"
