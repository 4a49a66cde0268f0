"""Whether anything became slower than is allowed: for CI, which must never take "not known" for "no".

Every case of the reference is judged on every other side, whatever became of it there. A case that only another side
has is new: there is nothing to judge it by, so it is named and decides nothing. What is slower on the launches that are
there stays so; nothing is "not slower" where a launch of it is lost, as that may have been the slow one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from gpubench.analysis import stats
from gpubench.analysis.checks.together import INCOMPLETE, LOST_ANYWHERE
from gpubench.analysis.compare import Comparison, Pair, Side, same_launches
from gpubench.analysis.shortfall import why_failed
from gpubench.analysis.stats import Interval

Kind = Literal["slower", "not_slower", "not_resolved"]


@dataclass(frozen=True)
class Judged:
    """One case of the reference on one side: `slower` or `not_slower` only where the whole interval says so.

    `interval` is of the side's throughput over the reference's; `reason` says why it is not resolved, and what to do.
    """

    side: str
    case: str
    kind: Kind
    interval: Interval | None = None
    reason: str = ""


@dataclass(frozen=True)
class Gate:
    """What was judged at a `limit`, a fraction of the reference's throughput; and the cases that are `new`."""

    limit: float
    judged: tuple[Judged, ...]
    new: tuple[tuple[str, str], ...]  # side and case

    def of(self, kind: Kind) -> list[Judged]:
        return [each for each in self.judged if each.kind == kind]

    @property
    def kind(self) -> Kind:
        """Slower where any case is; not slower only where every case is not, and where there is one."""
        if self.of("slower"):
            return "slower"
        return "not_slower" if self.judged and not self.of("not_resolved") else "not_resolved"


def gate(comparison: Comparison, limit: float) -> Gate:
    """Judges every side against the reference; `limit` is the loss that is allowed, 0.03 for 3 %."""
    return Gate(limit, tuple(_judged(comparison, limit)), tuple(_new(comparison)))


def _judged(comparison: Comparison, limit: float) -> Iterator[Judged]:
    for side in comparison.sides[1:]:
        pairs = {id(pair.reference): pair for pair in comparison.pairs if pair.side is side}
        for summary in comparison.reference.summaries:
            pair = pairs.get(id(summary))
            if pair is None:
                reason = f"not measured on {side.name}, or not told apart there: measure the same cases on both"
                yield Judged(side.name, summary.case.id, "not_resolved", None, reason)
            else:
                yield _one(pair, (comparison.reference, side), limit)


def _one(pair: Pair, sides: Sequence[Side], limit: float) -> Judged:
    side, case, interval, allowed = pair.side.name, pair.reference.case.id, pair.interval, 1 - limit
    if why := _unfit(pair):
        return Judged(side, case, "not_resolved", None, why)
    assert interval is not None
    if interval.high < allowed:
        return Judged(side, case, "slower", interval)
    if interval.low >= allowed:
        why = _lost(pair, sides)
        return Judged(side, case, "not_resolved" if why else "not_slower", interval, why)
    return Judged(side, case, "not_resolved", interval, _what_would_resolve(pair, allowed))


def _unfit(pair: Pair) -> str:
    """Why a pair cannot be judged at all; nothing where it can."""
    if pair.unlike:
        return f"the work differs in {', '.join(pair.unlike)}: measure the same work on both"
    if same_launches(pair.reference, pair.other):
        return "these are the same launches on both sides: name two runs"
    return "" if pair.interval is not None else pair.reason


def _lost(pair: Pair, sides: Sequence[Side]) -> str:
    """Which launches may be lacking, on either side; empty where none is known to be.

    What could not be read may be of any case of its side, also of one whose records could all be read.
    """
    for side, own in zip(sides, (pair.reference, pair.other), strict=True):
        for summary in (own, *side.summaries):
            wanted = INCOMPLETE if summary is own else LOST_ANYWHERE
            if check := next((each for each in summary.checks if each.name in wanted), None):
                return f"{side.name}: {check.message}: {check.remedy}"
        if why := why_failed(own):
            return f"{side.name} {why}: run it again"
    return ""


def _what_would_resolve(pair: Pair, allowed: float) -> str:
    """How many launches would settle the question of this limit, where the noise that was seen allows to say so."""
    assert pair.ratio is not None
    assert pair.interval is not None
    spans = f"the ratio is {pair.ratio:.3f}, between {pair.interval.low:.3f} and {pair.interval.high:.3f}"
    noise = math.hypot(*(stats.noise(summary.launches) or 0.0 for summary in (pair.reference, pair.other)))
    distance = abs(math.log(pair.ratio / allowed))
    needed = stats.launches_needed(noise, distance) if distance else None
    if needed is None:
        return f"{spans}: launches differ too much for more of them to settle it, so look for other load"
    had = min(len(pair.reference.launches), len(pair.other.launches))
    return f"{spans}: about {max(needed, had + 1)} launches on each side would settle it at this noise"


def _new(comparison: Comparison) -> Iterator[tuple[str, str]]:
    for each in comparison.unmatched:
        if each.side is not comparison.reference:
            yield each.side.name, each.summary.case.id
