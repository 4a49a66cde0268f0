"""What measuring costs: the throughput that gpubench reports against a bare hand-written loop, and the harness's CPU.

    python benchmarks/self/overhead.py [--fours 120]

For `mlp` and `resnet20` in torch `single`, on one one-core CPU share that is being sampled: gpubench's rounds and a
bare loop take turns in one process, on the same model and batch. Rounds are short, and go A B B A. What gpubench adds
is added to every round, and what other work on the host adds only to some: so the fast rounds are compared, the 10th
percentiles of both ways, with a bootstrap of the fours as interval. It must lie in 0.99 to 1.01. Beside it, what the
harness itself uses of a core while a real gang runs its rounds.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from gpubench.harness import machine, plan
from gpubench.harness.gang.launch import Deadlines, Launch
from gpubench.harness.gang.local import LocalGang
from gpubench.harness.interpreters import Interpreters
from gpubench.spec.messages import RunSteps
from gpubench.telemetry.sampler import Sampler

BARE = Path(__file__).with_name("bare_torch.py")
ROUND_SECONDS = 0.12  # a machine's slow phases last seconds


def case_of(workload: str) -> plan.Runnable:
    wanted = plan.Plan(workloads=(workload,), frameworks=("torch",), strategies=("single",), devices=(1, 2))
    return plan.cases(wanted, machine.describe(), Interpreters(), strict_devices=False).runnable[0]


def timed(one: plan.Runnable, fours: int, folder: Path) -> np.ndarray:
    """Seconds a sample, of shape (fours, 2 ways, 2 rounds): by hand, and by gpubench."""
    core = one.devices[0].cores[0]
    command = [one.python, "-P", BARE, one.case.workload, str(one.case.per_device_batch), str(core)]
    with (
        Sampler(one.devices, folder),
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loops,
    ):
        assert loops.stdin
        assert loops.stdout

        def rate(way: str, steps: int) -> float:
            assert loops.stdin
            assert loops.stdout
            loops.stdin.write(f"{way} {steps}\n")
            loops.stdin.flush()
            return float(loops.stdout.readline())

        for _ in range(4):  # until both are warm
            warm = min(rate("hand", 5), rate("gpubench", 5))
        steps = max(1, round(ROUND_SECONDS * warm / one.case.global_batch))
        found = []
        for index in range(fours):
            order = ["hand", "gpubench", "gpubench", "hand"] if index % 2 else ["gpubench", "hand", "hand", "gpubench"]
            seconds: dict[str, list[float]] = {"hand": [], "gpubench": []}
            for way in order:
                seconds[way].append(1 / rate(way, steps))
            found.append([seconds["hand"], seconds["gpubench"]])
        loops.stdin.close()
    return np.array(found)


def ratio(seconds: np.ndarray) -> float:
    """gpubench's samples/s over the bare loop's, by the fast rounds of each."""
    hand, measured = (np.percentile(seconds[:, way], 10) for way in (0, 1))
    return float(hand / measured)


def harness_share(one: plan.Runnable, folder: Path, seconds: float = 5.0) -> float:
    """What this process uses of a core while a gang runs rounds."""
    launch = Launch(
        case=one.case,
        framework=one.framework,
        strategy=one.strategy,
        python=one.python,
        devices=one.devices,
        deadlines=Deadlines(),
    )
    with Sampler(one.devices, folder), LocalGang(launch, [folder / "gang.log"]) as gang:
        gang.gather("start", 120)
        gang.gather("build", 120)
        cpu, began = time.process_time(), time.monotonic()
        while time.monotonic() - began < seconds:
            gang.order(RunSteps(steps=4, phase="round"))
            gang.gather("round", 120)
        return (time.process_time() - cpu) / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fours", type=int, default=120, help="times four rounds")
    options = parser.parse_args()
    print("CPU shares of one core; samples/s by gpubench over samples/s of a bare loop, interleaved")
    for workload in ("mlp", "resnet20"):
        one = case_of(workload)
        with tempfile.TemporaryDirectory() as folder:
            seconds = timed(one, options.fours, Path(folder))
            share = harness_share(one, Path(folder))
        random = np.random.default_rng(0)
        drawn = [ratio(seconds[random.integers(len(seconds), size=len(seconds))]) for _ in range(2000)]
        low, high = np.percentile(drawn, [2.5, 97.5])
        print(
            f"{workload:<9} ratio {ratio(seconds):.4f} [{low:.4f}, {high:.4f}] (95 %, {options.fours} times four "
            f"rounds); the harness used {share:.2%} of a core during rounds",
            flush=True,
        )


if __name__ == "__main__":
    main()
