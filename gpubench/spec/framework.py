"""How a framework introduces itself: plain data, so that listing it imports nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpubench.spec.case import Place

OLDEST_PYTHON = (3, 11)  # a worker is started with -P and loads these files, whose syntax is that version's


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One way to spread a step over devices.

    `module` is the file, relative to the framework's package. `processes` says who drives the devices: one process
    for each, or one for all. `refused` names the device kinds on which it cannot run, with the reason that users
    are shown. `aliases` are names under which people look for it.
    """

    name: str
    summary: str
    module: str
    processes: str = "one"  # "one" for all devices, or "per_device"
    max_devices: int | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Pythons:
    """The Python versions that the pinned release of a framework can be installed for.

    A worker needs Python 3.11. `newest` is the last version that works, and `why` says what is missing in the next.
    """

    newest: tuple[int, int]
    why: str
    oldest: tuple[int, int] = OLDEST_PYTHON

    def fit(self, version: tuple[int, int]) -> bool:
        return self.oldest <= version <= self.newest

    def versions(self) -> list[tuple[int, int]]:
        """All that fit, the newest first."""
        return [(self.newest[0], minor) for minor in range(self.newest[1], self.oldest[1] - 1, -1)]


@dataclass(frozen=True, kw_only=True)
class Framework:
    """A framework and what it can run.

    `name` is also the name that Python imports it by. `package` and `folder` say where its files are; the worker
    loads them from there, in the framework's own Python, where gpubench is not installed. `environment` gives the
    variables that must be set before the framework is imported. `workloads` maps a workload's name to its module.
    `precisions` maps a device kind to the precisions that run on it; `on_amd`: its GPUs may also be AMD's. `pythons`
    are the versions that `gpubench setup` may make its environment with; None where every one does.
    """

    name: str
    summary: str
    package: str
    folder: Path
    distribution: str
    strategies: tuple[Strategy, ...]
    workloads: Mapping[str, str]
    environment: Callable[[Place], Mapping[str, str]]
    precisions: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"cpu": ("fp32",), "gpu": ("fp32",)})
    on_amd: bool = False
    pythons: Pythons | None = None
    hidden: bool = False

    def strategy(self, name: str) -> Strategy | None:
        return next((s for s in self.strategies if s.name == name), None)


@dataclass
class Training:
    """What a strategy hands to the worker: one optimisation step, and the means to see what it really did.

    `step` runs one step over the global batch and returns its loss without waiting for the device.
    `loss` turns what `step` returned into a float: the mean over the samples of this process; it waits.
    `world_size` is counted by the framework's own collective or replica count, never taken from the request.
    `replicas` gives, for each replica that this process holds, its trainable parameters as host arrays (numpy or
    anything with `tobytes()`, `shape` and `size`), in the order of the workload's layers.
    `samples_per_step` is what the batches of this process hold, counted, not configured.

    A framework's reference, which others are verified against, also has
    `macs`: the multiply-adds of one forward pass over one sample, counted on the real model; and
    `gradient_norm`: from what `step` returned, the 2-norm of its gradient over all trainable parameters.
    """

    step: Callable[[], Any]
    loss: Callable[[Any], float]
    world_size: Callable[[], int]
    replicas: Callable[[], list[list[Any]]]
    samples_per_step: int
    macs: Callable[[], int] | None = None
    gradient_norm: Callable[[Any], float] | None = None
