"""What several checks ask of one record is worked out once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from gpubench.spec.record import RunRecord

T = TypeVar("T")


def once_for_a_record(work: Callable[[RunRecord], T]) -> Callable[[RunRecord], T]:
    """`work`, whose answer is kept until another record is asked about. Nobody may change the answer, or the record."""
    kept: tuple[RunRecord, T] | None = None

    @wraps(work)
    def asked(record: RunRecord) -> T:
        nonlocal kept
        known = kept  # another thread may ask about another record meanwhile
        if known is None or known[0] is not record:
            known = kept = record, work(record)
        return known[1]

    return asked
