"""What a record may say of the proof that it is the same work. Standard library only: tables load it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from gpubench.spec.case import Case
from gpubench.spec.verification import Verification


class Launched(Protocol):
    """A launch, as far as it is asked for here."""

    @property
    def case(self) -> Case: ...
    @property
    def software(self) -> Mapping[str, str]: ...


def badge(record: Launched, verifications: Iterable[Verification]) -> str:
    """`verified`, `not verified`, or `failed: ` and why.

    Verified takes two proofs in the record's own software, code and kind of device: that the framework's model of the
    workload is every framework's, and that the strategy on so many devices takes the steps of one device. One that
    contradicts itself proves nothing.
    """
    covering = [one for one in verifications if _covers(one, record)]
    for one in covering:
        if not one.passed:
            failure = one.failures[0] if one.failures else None
            return f"failed: {failure.name}: {failure.message}" if failure else "failed: nothing was compared"
    parts = {one.strategy is None for one in covering}
    return "verified" if parts == {True, False} else "not verified"


def _covers(verification: Verification, record: Launched) -> bool:
    if record.case.precision != "fp32" or not verification.is_of(record.case, record.software):
        return False
    return verification.proves_nothing is None
