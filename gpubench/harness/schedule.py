"""In which order launches run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def interleaved(cases: Sequence[T], launches: int, seed: int) -> Iterator[tuple[T, int]]:
    """Each case once in a shuffled order, then all again, `launches` times; the order comes from the seed alone.

    So a machine that drifts falls on all cases alike.
    """
    shuffle = random.Random(seed).shuffle
    for launch in range(1, launches + 1):
        block = list(cases)
        shuffle(block)
        for case in block:
            yield case, launch
