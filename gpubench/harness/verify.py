"""Short trainings on given weights and samples, and what came of them. Nothing is timed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from gpubench import __version__
from gpubench.harness import sources
from gpubench.harness.gang.launch import Deadlines, GangError, Launch
from gpubench.harness.gang.local import LocalGang
from gpubench.spec.case import Case, Device
from gpubench.spec.framework import Framework, Strategy
from gpubench.spec.messages import Built, Finish, Finished, RoundDone, RunSteps, Start, Started
from gpubench.spec.record import Outcome
from gpubench.spec.verification import REFERENCE_NAME

REFERENCE = Strategy(
    name=REFERENCE_NAME, summary="one device takes the batches of n, gradients added", module="reference"
)
DEADLINES = Deadlines(start=180, build=180, first_step=240, step=60, stop=60)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is trained: a strategy of a framework, in a Python, on devices."""

    framework: Framework
    strategy: Strategy
    python: Path
    devices: tuple[Device, ...]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One training: `steps` steps from the given weights, or from the workload's own where none are given.

    What the weights then are goes to `export_folder`, a file a rank; nowhere where there is none.
    """

    case: Case
    steps: int
    given_file: Path | None
    export_folder: Path | None


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a trial came to, as its ranks counted it. `loss_first` is the mean over the ranks."""

    software: dict[str, str]
    world_size: int
    samples_per_step: int
    parameters: int
    macs: int | None
    loss_first: float | None
    gradient_norm: float | None
    replica_digests: tuple[str, ...]
    export_files: tuple[Path, ...]


def train(subject: Subject, trials: Sequence[Trial], logs: Path) -> list[Trained | Outcome]:
    """Run the trials one after another in the same processes; in fresh ones after a trial that went wrong."""
    results: list[Trained | Outcome] = []
    while len(results) < len(trials):
        results += _in_one_gang(subject, trials[len(results) :], logs)
    return results


def _in_one_gang(subject: Subject, trials: Sequence[Trial], logs: Path) -> list[Trained | Outcome]:
    """As many results as there are trials, or those up to the first failure, which is the last of them."""
    results: list[Trained | Outcome] = []
    ranks = len(subject.devices) if subject.strategy.processes == "per_device" else 1
    stem = f"{subject.framework.name}-{subject.strategy.name}-{len(subject.devices)}"
    try:
        with LocalGang(_launch(subject, trials[0]), [logs / f"{stem}.rank{rank}.log" for rank in range(ranks)]) as gang:
            started = cast(list[Started], gang.gather("start", DEADLINES.start))
            software = {
                "gpubench": __version__,
                "source": sources.digest(subject.framework),
                "python": started[0].python,
                **started[0].versions,
            }
            for index, trial in enumerate(trials):
                if index > 0:
                    orders = _launch(subject, trial).orders(gang.address(index))
                    for rank, start in zip(gang.ranks, orders, strict=True):
                        rank.order(start)
                results.append(_one(gang, trial, software, another=index < len(trials) - 1))
    except GangError as error:
        results.append(error.outcome)
    return results


def _one(gang: LocalGang, trial: Trial, software: dict[str, str], another: bool) -> Trained:
    folder = trial.export_folder
    if folder is not None:
        folder.mkdir(parents=True)
    built = cast(list[Built], gang.gather("build", DEADLINES.build))
    losses: list[float | None] = []
    for index in range(trial.steps):
        gang.order(RunSteps(steps=1, phase="round"))
        done = cast(list[RoundDone], gang.gather("round", DEADLINES.step if index else DEADLINES.first_step))
        losses = losses or [rank.loss for rank in done]
    gang.order(Finish(export_folder=None if folder is None else str(folder), another=another))
    finished = cast(list[Finished], gang.gather("stop", DEADLINES.stop))
    known = [loss for loss in losses if loss is not None]
    return Trained(
        software=software,
        world_size=min(rank.world_size for rank in built),
        samples_per_step=sum(rank.samples_per_step for rank in built),
        parameters=built[0].parameters,
        macs=built[0].macs,
        loss_first=sum(known) / len(known) if known and len(known) == len(losses) else None,
        gradient_norm=finished[0].gradient_norm,
        replica_digests=tuple(digest for rank in finished for digest in rank.replica_digests),
        export_files=() if folder is None else tuple(folder / f"rank{rank}.npz" for rank in range(len(finished))),
    )


@dataclass(frozen=True, kw_only=True)
class _GivenLaunch(Launch):
    given_file: Path | None

    def orders(self, address: str) -> list[Start]:
        file = None if self.given_file is None else str(self.given_file)
        return [replace(order, given_file=file) for order in super().orders(address)]


def _launch(subject: Subject, trial: Trial) -> _GivenLaunch:
    return _GivenLaunch(
        case=trial.case,
        framework=subject.framework,
        strategy=subject.strategy,
        python=subject.python,
        devices=subject.devices,
        deadlines=DEADLINES,
        given_file=trial.given_file,
    )
