"""What every engine needs to start a gang, and what every gang can go wrong with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpubench.spec.case import Case, Device, Place
from gpubench.spec.framework import Framework, Strategy
from gpubench.spec.messages import Start
from gpubench.spec.record import Outcome


@dataclass(frozen=True, kw_only=True)
class Deadlines:
    """Seconds that each phase may take. A phase that takes longer ends the launch as `timeout`."""

    start: float = 180.0
    build: float = 300.0
    first_step: float = 600.0  # compiles, and on GPUs tunes kernels
    step: float = 120.0
    stop: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One fresh process group of a case."""

    case: Case
    framework: Framework
    strategy: Strategy
    python: Path
    devices: tuple[Device, ...]
    deadlines: Deadlines

    def orders(self, address: str) -> list[Start]:
        """The first order of each rank. `address` is where a strategy's ranks may meet, as a URL."""
        return [
            Start(
                case=self.case,
                place=place,
                package=self.framework.package,
                folder=str(self.framework.folder),
                strategy_module=self.strategy.module,
                workload_module=self.framework.workloads[self.case.workload],
            )
            for place in self._places(address)
        ]

    def _places(self, address: str) -> list[Place]:
        groups = [self.devices] if self.strategy.processes == "one" else [(device,) for device in self.devices]
        # The harness's own deadline comes first: it knows the phase and names the rank.
        collective_timeout = 2 * max(self.deadlines.step, self.deadlines.build, self.deadlines.first_step)
        return [
            Place(
                rank=rank,
                world_size=len(groups),
                devices=group,
                all_devices=self.devices,
                address=address,
                collective_timeout_seconds=collective_timeout,
            )
            for rank, group in enumerate(groups)
        ]


class GangError(Exception):
    """A launch has come to a bad end; the outcome says which rank, in which phase, and what to do."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome
