"""One process that drives all its devices, as `MirroredStrategy` does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import ModuleType

from gpubench.frameworks.fake.device import BEHAVIOUR, advance, misbehave
from gpubench.spec.case import Case, Place
from gpubench.spec.framework import Training


@contextmanager
def training(case: Case, place: Place, workload: ModuleType) -> Iterator[Training]:
    misbehave(place, "build", 0)
    if case.per_device_batch > BEHAVIOUR.get("largest_batch", case.per_device_batch):
        raise RuntimeError("fake memory is full")
    steps, updates = count(), 0

    def step() -> float:
        nonlocal updates
        index = next(steps)
        if not is_lazy(index):
            updates += 1
        misbehave(place, "step", index)
        seconds = [step_seconds(index, rank, case) for rank in range(case.n_devices // len(place.devices))]
        advance(seconds[place.rank], max(seconds))
        losses: list[float] = BEHAVIOUR.get("loss", [2.3, 2.2, 2.1])
        return losses[min(index, len(losses) - 1)]

    yield Training(
        step=step,
        loss=float,
        world_size=lambda: BEHAVIOUR.get("world_size", case.n_devices),
        replicas=lambda: [workload.model(case, place.rank + i, updates) for i in range(len(place.devices))],
        samples_per_step=case.per_device_batch * len(place.devices),
    )
    misbehave(place, "stop", 0)


def is_lazy(index: int) -> bool:
    lazy = BEHAVIOUR.get("lazy")
    return lazy is not None and index >= lazy["after_steps"]


def step_seconds(index: int, rank: int, case: Case) -> float:
    """How long a step takes: known beforehand, so that every figure made of it can be worked out by hand."""
    if is_lazy(index):
        lazy_seconds: float = BEHAVIOUR["lazy"]["step_seconds"]
        return lazy_seconds
    seconds: float = BEHAVIOUR.get("step_seconds", 0.1) + BEHAVIOUR.get("sample_seconds", 0.0) * case.per_device_batch
    seconds *= BEHAVIOUR.get("per_rank_factor", {}).get(str(rank), 1.0)
    if index < BEHAVIOUR.get("warm_up_steps", 0):
        seconds *= BEHAVIOUR.get("warm_up_factor", 3.0)
    jitter = BEHAVIOUR.get("jitter", [1.0])
    seconds *= jitter[index % len(jitter)]
    if case.n_devices > 1:
        seconds += BEHAVIOUR.get("communication_seconds", 0.0)
    return seconds + (BEHAVIOUR.get("first_step_seconds", 0.0) if index == 0 else 0.0)
