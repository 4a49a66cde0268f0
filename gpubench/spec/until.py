"""What a run is to find out, and how well: the figure that it narrows, and to which half-width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Quantity = Literal["efficiency", "throughput"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)


@dataclass(frozen=True)
class Until:
    """`within` is half the interval's width as a fraction of the figure; `of` says which figure.

    `efficiency` is the scaling efficiency of every case that has a baseline, `throughput` that of every case.
    """

    within: float
    of: Quantity = "efficiency"

    def __str__(self) -> str:
        """As a message has it: `efficiency to ± 2 %`."""
        return f"{self.of} to ± {100 * self.within:g} %"

    def in_a_plan(self) -> float | str:
        """As a plan file has it: `0.02`, or `"throughput=0.02"`."""
        return self.within if self.of == "efficiency" else f"{self.of}={self.within!r}"


def quantity(word: str) -> Quantity:
    """The figure of that name. ValueError where there is none."""
    for known in QUANTITIES:
        if word == known:
            return known
    raise ValueError(word)
