"""The doubts that show where the records of one session are seen together."""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.spec.invariants import together
from gpubench.spec.record import Check


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
