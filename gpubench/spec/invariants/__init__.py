"""What holds between the fields of every launch that ended well: the harness and the reader ask the same.

A record that breaks one of these contradicts itself: it was edited, or something went wrong that nobody foresaw. The
harness writes it all the same, with its doubt, so that no finished launch is lost; the reader comes to the same doubt.
What is wrong with a launch takes its number away, and what is wrong with its telemetry takes the telemetry's figures
away and leaves the throughput. Margins allow for clocks and counters, which are read one after another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpubench.spec.invariants import complete, launch, rounds, sensors, warm_up
from gpubench.spec.record import RunRecord

__all__ = ["OF_LAUNCH", "OF_SETTING", "OF_TELEMETRY", "Invariant", "broken"]


@dataclass(frozen=True)
class Invariant:
    """`sentence` says what always holds; `problem` says how a record breaks it, None where it does not."""

    sentence: str
    problem: Callable[[RunRecord], str | None]


OF_LAUNCH = (
    Invariant("A launch that ended well has all that is written of every launch; of an older schema, it has nothing "
              "that is newer.", complete.launch),
    Invariant("The global batch is the devices times the per-device batch.", launch.batch),
    Invariant("There is a device for each that the case names, no two of them share an id or a core, and all are of "
              "the case's kind and size.", launch.devices),
    Invariant("A CPU share is called one of a CPU.", launch.names),
    Invariant("The devices are among those of the machine, and their cores are no more than the machine has.",
              launch.machine),
    Invariant("`single` runs on one device.", launch.single),
    Invariant("A rank has one device or all of them, in every round.", launch.ranks),
    Invariant("The software that is named has the case's framework.", launch.software),
    Invariant("A launch that ended well has no rank, phase, message or log that tells of a failure.", launch.outcome),
    Invariant("Replicas are equal where their digests are, there are no more of them than devices, and the last digest "
              "of each rank is among them.", launch.digests),
    Invariant("A finite loss has a figure, and one that is not has none.", launch.loss),
    Invariant("The FLOPs of a step are those of the workload times the global batch.", launch.flops),
    Invariant("A launch of a pair is its baseline, `single` on one device, or its gang.", launch.pair),
    Invariant("Rounds count from 0, have equally many steps, and follow one another on every rank.", rounds.order),
    Invariant("A round has as many steps as the steady step times of the warm-up make of its length.", rounds.steps),
    Invariant("Periods of a CPU quota are counted in all rounds or in none, and no more are throttled than there were.",
              rounds.quota),
    Invariant("The warm-up has as many steps, as much time and the first step that its step times say.", warm_up.sums),
    Invariant("A steady warm-up has steps enough to tell.", warm_up.enough),
)  # fmt: skip
# Those that ask for nothing but the case, machine, software, devices and outcome: most launches of a case share them.
_OF_SETTING = (launch.batch, launch.devices, launch.machine, launch.single, launch.software, launch.outcome)
OF_SETTING = tuple(each for each in OF_LAUNCH if each.problem in _OF_SETTING)
OF_TELEMETRY = (
    Invariant("Every device of the launch was sampled in its rounds, or there is a reason.",
              complete.sampled),
    Invariant("Telemetry is of the launch's devices, of each once.", sensors.devices),
    Invariant("A device's rounds are those of the launch.", sensors.rounds),
    Invariant("Nothing is busier than 100 % or less than 0 %; for a CPU, whose counters are rounded, within 10 %.",
              sensors.busy),
    Invariant("The cores of a share were busy for at least the CPU time of its rank, within 10 %.", sensors.worked),
    Invariant("A device and a process that train use some memory, and no more than there is.", sensors.memory),
    Invariant("What a device has a figure of in one round, it has a figure of in each, or a reason.", sensors.known),
    Invariant("A round of known power has an energy, and one of known energy a power, or a reason.", sensors.powered),
    Invariant("What was polled has two samples in the round.", sensors.samples),
    Invariant("Power over the time of a round is its energy: to 1 % where one was worked out from the other, else "
              "within half of the larger.", sensors.energy),
    Invariant("No device takes over 1.5 times its power limit.", sensors.power),
    Invariant("A clock runs, and at no more than 1.25 times the highest that the device has.", sensors.clock),
    Invariant("No clock is held down for longer than the round lasts.", sensors.throttled),
)  # fmt: skip


def broken(invariants: tuple[Invariant, ...], record: RunRecord) -> list[str]:
    """What is wrong with a launch that ended well, a sentence each. Any other launch has no number to doubt."""
    if record.outcome.status != "ok":
        return []
    return [problem for each in invariants if (problem := each.problem(record)) is not None]
