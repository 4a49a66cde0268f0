"""How long a run with `until` takes: told before it from an earlier run, and after each block from what was seen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

from gpubench.analysis import precision
from gpubench.analysis.stats import FEWEST_TO_STOP
from gpubench.files import store
from gpubench.files.finding import JOURNAL, files_in
from gpubench.harness.plan import Cases, Plan, arranged
from gpubench.spec.case import Case
from gpubench.spec.errors import GpubenchError
from gpubench.spec.identity import identity
from gpubench.spec.record import Machine, RunRecord
from gpubench.spec.until import Until

NEWEST = 5  # so many earlier runs are looked at
LARGEST_BYTES = 10_000_000  # of a journal: a look must not take long


@dataclass(frozen=True)
class Block:
    """What runs between two looks at the widths: a launch of each case, or a pair of each gang and its baseline."""

    until: Until
    cases: tuple[Case, ...]
    paired: bool

    def words(self, low: int, high: int | None, seconds: float, more: str = "") -> str:
        """So many blocks, each so long; `high` is None where only the fewest are known."""
        n, (one, many) = len(self.cases), ("pair", "pairs") if self.paired else ("launch", "launches")
        unit = f"blocks of {n} {many}" if n > 1 else one if (high or low) == 1 else many
        times, numbers = ([low * seconds, (high or low) * seconds], [low, high or low])
        span = " to ".join(dict.fromkeys(map(_time, times)))
        count = " to ".join(dict.fromkeys(map(str, numbers)))
        least = " at least" if high is None else ""
        return f"{str(self.until).capitalize()}: about {span}{more}{least} ({count} {unit} of {seconds:.0f} s)"


def block_of(plan: Plan, cases: Cases) -> Block | None:
    """None where the number of launches alone ends the run."""
    if plan.until is None:
        return None
    alone, paired = arranged(cases, plan)
    return Block(plan.until, tuple(one.case for one in (*alone, *paired)), bool(paired))


def before(plan: Plan, cases: Cases, machine: Machine, results: Path) -> str | None:
    """The words before the first launch, from the newest run of the same cases on this machine, which they name.

    None where the number of launches alone ends the run.
    """
    block = block_of(plan, cases)
    if block is None:
        return None
    for name, records in _earlier(results):
        mine = [record for record in records if identity(record.machine) == identity(machine)]
        seconds = block_seconds(mine, block)
        needed = precision.blocks_needed(mine, block.until, {case.id for case in block.cases})
        if seconds is not None and needed is not None:
            low, high = (max(FEWEST_TO_STOP, plan.launches, each) for each in needed)
            return f"{block.words(low, high, seconds)}, by {name}."
    first = "pairs" if block.paired else "launches"
    return f"{str(block.until).capitalize()}: how long it takes is told after the first {first}."


def after(block: Block, records: Sequence[RunRecord], wanted: set[str], done: int, fewest: int, seconds: float) -> str:
    """The words after `done` blocks, of which the last took `seconds`, for the cases that are still `wanted`."""
    left = Block(block.until, tuple(case for case in block.cases if case.id in wanted), block.paired)
    needed = precision.blocks_needed(records, block.until, wanted)
    low = max(fewest, done + 1, needed[0] if needed else 0)
    high = max(low, needed[1]) - done if needed else None
    return f"{left.words(low - done, high, seconds, ' more')}, by what was measured so far."


def block_seconds(records: Sequence[RunRecord], block: Block) -> float | None:
    """How long a block took in an earlier run, from start to start; None where one of its cases has no such time."""
    starts: dict[str, list[tuple[datetime, Case | None]]] = {}
    for record in records:
        half = record.schedule is not None and record.schedule.paired_as == "baseline"
        wanted = bool(record.schedule and record.schedule.paired_as == "gang") == block.paired
        if not half:
            began = datetime.fromisoformat(record.started_at)
            starts.setdefault(record.run_id, []).append((began, record.case if wanted else None))
    took: dict[Case, list[float]] = {case: [] for case in block.cases}
    for run in starts.values():
        for (began, case), (next_began, _) in pairwise(sorted(run, key=lambda each: each[0])):
            if case in took:
                took[case].append((next_began - began).total_seconds())
    return sum(map(median, took.values())) if all(took.values()) else None


def _earlier(results: Path) -> Iterator[tuple[str, Sequence[RunRecord]]]:
    """The newest runs, the newest first, with their names. One that cannot be read is no basis, and no mistake here."""
    found = []
    for path in files_in(results, JOURNAL):
        with contextlib.suppress(OSError):
            status = path.stat()
            if status.st_size <= LARGEST_BYTES:
                found.append((status.st_mtime, path))
    for _, path in sorted(found, reverse=True)[:NEWEST]:
        with contextlib.suppress(GpubenchError):
            yield path.stem, store.load(path).records


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
