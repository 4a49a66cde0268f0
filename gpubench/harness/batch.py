"""Finding a per-device batch: the largest that fits, or the smallest that is nearly as fast as any.

Each try is a launch of its own, so that one that ran out of memory leaves nothing behind for the next. The batch that
is found is then the same for the whole series; it is searched on one device and tried on every strategy's largest
gang, which holds more (gradient buckets, gathered outputs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gpubench.harness.plan import Runnable
from gpubench.spec.case import Case
from gpubench.spec.errors import GpubenchError
from gpubench.spec.record import RunRecord

SLOWEST_STEP_SECONDS = 10.0  # a CPU's memory would hold batches that take minutes
MEMORY_SHARE = 0.8  # of the host, that all CPU shares together may take
KNEE = 0.95  # of the best throughput seen
FINEST = 8  # the search ends at an eighth of the batch


@dataclass(frozen=True)
class Trial:
    """One batch that was tried. `samples_per_second` is None where it did not fit."""

    batch: int
    samples_per_second: float | None
    why_not: str = ""


def largest(try_batch: Callable[[int], Trial], start: int) -> list[Trial]:
    """Double from `start` (or halve, where that does not fit) until one fits and its double does not; then bisect.

    Returns all trials, in the order in which they were made; the largest that fits is the answer.
    """
    trials = [try_batch(start)]
    fits, too_large = (start, None) if trials[0].samples_per_second else (0, start)
    while too_large is None:
        trials.append(try_batch(fits * 2))
        fits, too_large = (fits * 2, None) if trials[-1].samples_per_second else (fits, fits * 2)
    while not fits and too_large > 1:
        trials.append(try_batch(too_large // 2))
        fits, too_large = (too_large // 2, too_large) if trials[-1].samples_per_second else (0, too_large // 2)
    while fits and too_large - fits > max(1, fits // FINEST):
        middle = (fits + too_large) // 2
        trials.append(try_batch(middle))
        fits, too_large = (middle, too_large) if trials[-1].samples_per_second else (fits, middle)
    return trials


def knee(trials: Sequence[Trial]) -> int:
    """The smallest batch tried that is nearly as fast as the fastest."""
    rates = {trial.batch: trial.samples_per_second for trial in trials if trial.samples_per_second}
    return min(batch for batch, rate in rates.items() if rate >= KNEE * max(rates.values()))


class Search:
    """Finds the batch of each workload, framework and precision among `runnable`.

    `launch` runs a short launch of a case; `tell` is told of each trial. What `tried` has of an earlier search is not
    run again: the same trials lead to the same batch. One that failed is, as its cause may have been mended.
    """

    def __init__(
        self,
        launch: Callable[[Runnable], RunRecord],
        memory_bytes: int,
        tell: Callable[[str], None],
        for_knee: bool,
        tried: Iterable[RunRecord] = (),
    ) -> None:
        self._launch = launch
        self._memory_bytes = memory_bytes
        self._tell = tell
        self._for_knee = for_knee
        self._tried = {(r.case, tuple(r.devices)): r for r in tried if r.outcome.status in ("ok", "oom")}
        self._peaks: dict[int, int] = {}

    def run(self, runnable: Sequence[Runnable]) -> dict[tuple[str, str, str], int]:
        groups: dict[tuple[str, str, str], list[Runnable]] = {}
        for one in runnable:
            groups.setdefault(series(one.case), []).append(one)
        return {key: self._of_group(members) for key, members in groups.items()}

    def _of_group(self, members: Sequence[Runnable]) -> int:
        alone = min(members, key=lambda one: (one.case.n_devices, one.strategy.name != "single"))
        self._peaks = {}
        largest_count = max(one.case.n_devices for one in members)
        trials = largest(lambda batch: self._try(alone, batch, largest_count), alone.case.per_device_batch)
        fitting = [trial.batch for trial in trials if trial.samples_per_second]
        if not fitting:
            raise GpubenchError(f"No per-device batch fits for {alone.case.id}: {trials[-1].why_not}")
        batch = knee(trials) if self._for_knee else max(fitting)
        for one in members:
            strategy_sizes = [m.case.n_devices for m in members if m.strategy is one.strategy]
            if one is alone or one.case.n_devices != max(strategy_sizes):
                continue
            while not (trial := self._try(one, batch, largest_count)).samples_per_second:
                if batch == 1:
                    raise GpubenchError(f"Not even a per-device batch of 1 fits for {one.case.id}: {trial.why_not}")
                batch -= max(1, batch // FINEST)
        self._tell(f"{alone.case.workload} in {alone.case.framework}: per-device batch {batch}")
        return batch

    def _try(self, one: Runnable, batch: int, largest_count: int) -> Trial:
        trial = self._measured(one, batch, largest_count)
        case = with_batch(one.case, batch)
        word = "tried before" if (case, one.devices) in self._tried else "trying"
        rate = f"{trial.samples_per_second:,.4g} samples/s" if trial.samples_per_second else trial.why_not
        self._tell(f"{word} {case.id}: {rate}")
        return trial

    def _measured(self, one: Runnable, batch: int, largest_count: int) -> Trial:
        if one.case.device_kind == "cpu" and self._peaks:
            known = max(self._peaks)
            need = self._peaks[known] * batch / known * largest_count
            if need > MEMORY_SHARE * self._memory_bytes:
                return Trial(batch, None, "would take more than the host's memory")
        one = replace(one, case=with_batch(one.case, batch))
        record = self._tried.get((one.case, one.devices)) or self._launch(one)
        if record.outcome.status == "oom":
            return Trial(batch, None, "out of memory")
        if record.outcome.status != "ok":
            raise GpubenchError(f"{record.case.id}: {record.outcome.status}: {record.outcome.message}")
        if record.observed.peak_memory_bytes:
            self._peaks[batch] = record.observed.peak_memory_bytes
        seconds = sum(r.seconds for r in record.rounds) / sum(r.steps for r in record.rounds)
        if seconds > SLOWEST_STEP_SECONDS:
            return Trial(batch, None, f"a step takes {seconds:.3g} s, over {SLOWEST_STEP_SECONDS:g} s")
        return Trial(batch, record.case.global_batch / seconds)


def series(case: Case) -> tuple[str, str, str]:
    """What shares one batch."""
    return case.workload, case.framework, case.precision


def with_batch(case: Case, batch: int) -> Case:
    """The case at another per-device batch; under strong scaling that of one device, divided among all."""
    if case.scaling == "strong":
        return replace(case, per_device_batch=batch // case.n_devices, global_batch=batch)
    return replace(case, per_device_batch=batch, global_batch=batch * case.n_devices)
