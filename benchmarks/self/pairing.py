"""How much narrower an efficiency's interval is when gang and baseline take turns, under a noisy neighbour.

    python benchmarks/self/pairing.py [--launches 5]

Starts a neighbour that loads the machine in bursts of random length, then measures torch `ddp` on two CPU shares
against `single` on one, both ways by turns: launches one after the other, and pairs whose rounds alternate. Both have
the same number of launches and of rounds, so they take the same time on the devices.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from gpubench.analysis.scaling import CaseSummary, summarize
from gpubench.harness import machine, plan
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.runner import Timing
from gpubench.harness.session import Session
from gpubench.progress import LineProgress
from gpubench.spec.record import RunRecord, Schedule, Telemetry

# Busy for 0.5 to 4 s, then idle for as long: what another job on the machine does to its clocks and cores.
NEIGHBOUR = """
import random, time
while True:
    end = time.monotonic() + random.uniform(0.5, 4)
    while time.monotonic() < end:
        pass
    time.sleep(random.uniform(0.5, 4))
"""


def gang_summary(records: list[RunRecord]) -> CaseSummary:
    """The two-share case. The load is what is being studied, so no launch is set aside for it."""
    kept = [replace(record, telemetry=Telemetry(reason="left out on purpose")) for record in records]
    return next(s for s in summarize(kept) if s.case.n_devices == 2)


def described(name: str, summary: CaseSummary) -> str:
    interval = summary.scaling_efficiency_interval
    if summary.scaling_efficiency is None or interval is None:
        return f"{name:<9} no interval: {summary.no_number}"
    half = (interval.high - interval.low) / 2
    return (
        f"{name:<9} efficiency {summary.scaling_efficiency:.3f} [{interval.low:.3f}, {interval.high:.3f}], "
        f"± {half / summary.scaling_efficiency:.1%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()

    wanted = plan.Plan(workloads=("resnet20",), frameworks=("torch",), strategies=("single", "ddp"), devices=(1, 2))
    this = machine.describe()
    cases = plan.cases(wanted, this, Interpreters(), strict_devices=False)
    baseline = next(one for one in cases.runnable if one.strategy.name == "single")
    gang = next(one for one in cases.runnable if one.case.n_devices == 2)
    unpaired: list[RunRecord] = []
    paired: list[RunRecord] = []
    timing = Timing(rounds=options.rounds, round_seconds=0.5)
    schedule = Schedule(order="interleaved", seed=0, launches=options.launches, position=0)
    neighbour = subprocess.Popen([sys.executable, "-c", NEIGHBOUR])
    try:
        with (
            tempfile.TemporaryDirectory() as logs,
            Session(this, cases, timing, LineProgress(3 * options.launches), lambda record: [], Path(logs)) as session,
        ):
            for number in range(1, options.launches + 1):
                for way in random.sample(["unpaired", "paired"], 2):
                    if way == "paired":
                        paired += session.launch_pair(baseline, gang, number, schedule)
                    else:
                        unpaired += [session.launch(one, number, schedule) for one in (baseline, gang)]
    finally:
        neighbour.kill()
        neighbour.wait()
    print("CPU shares of one core, torch resnet20, with a noisy neighbour; 95 % intervals from launches")
    print(described("unpaired", gang_summary(unpaired)))
    print(described("paired", gang_summary(paired)))


if __name__ == "__main__":
    main()
