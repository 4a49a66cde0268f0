"""The doubts of several launches as they stand beside one case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpubench.analysis.checks import sets_aside
from gpubench.spec.record import Check, Severity

ORDER: tuple[Severity, ...] = ("severe", "warning", "note")


def unique(checks: Iterable[Check]) -> list[Check]:
    """The first check of each name: what is worked out now stands before what was written then."""
    return list({check.name: check for check in reversed(list(checks))}.values())[::-1]


def merged(launches: Sequence[Sequence[Check]]) -> list[Check]:
    """One list: each name once, at its worst, with how many launches it is of where not of all; the worst first."""
    by_name: dict[str, list[Check]] = defaultdict(list)
    for checks in launches:
        for check in checks:
            by_name[check.name].append(check)
    found = []
    for same in by_name.values():
        worst = min(same, key=lambda check: ORDER.index(check.severity))
        count = f" (in {len(same)} of {len(launches)} launches)" if len(same) < len(launches) else ""
        found.append(replace(worst, message=worst.message + count))
    return sorted(found, key=lambda check: ORDER.index(check.severity))


def beside_a_number(checks: Iterable[Check], set_aside: Sequence[tuple[int, Check]], n_launches: int) -> list[Check]:
    """The doubts where a number stands although launches were set aside: how many count comes first.

    What took those launches away is a warning about the case, as it did not take its number.
    """
    if not set_aside:
        return list(checks)
    why = "; ".join(f"launch {launch} for {check.name.replace('_', ' ')}" for launch, check in set_aside)
    count = Check(
        name="launches_set_aside",
        severity="warning",
        message=f"{n_launches - len(set_aside)} of {n_launches} launches count; set aside: {why}",
        remedy="more launches on a quiet machine bring the interval back to its width",
    )
    return [count, *(replace(check, severity="warning") if sets_aside(check) else check for check in checks)]
