"""What measuring costs: the throughput that gpubench reports against a bare hand-written loop, and the harness's CPU.

    python benchmarks/self/overhead.py [--pairs 30]

For `mlp` and `resnet20` in torch `single`, on one one-core CPU share: a gang and a bare loop live side by side, parked,
and take turns on the same core, so that a machine that drifts drifts for both. Each pair gives one ratio; the median
of a launch is its figure, and launches give the interval. It must lie in 0.99 to 1.01.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import fmean, median, stdev

from scipy import stats

from gpubench.harness import machine, plan
from gpubench.harness.gang.launch import Deadlines, Launch
from gpubench.harness.gang.local import LocalGang
from gpubench.harness.interpreters import Interpreters
from gpubench.spec.messages import RoundDone, RunSteps
from gpubench.telemetry.sampler import Sampler

BARE = Path(__file__).with_name("bare_torch.py")
ROUND_SECONDS = 0.5


def pair_up(workload: str, pairs: int, folder: Path) -> tuple[list[float], float]:
    """Ratios of gpubench's samples/s to the bare loop's, one a pair; and the harness's share of a core in rounds."""
    wanted = plan.Plan(workloads=(workload,), frameworks=("torch",), strategies=("single",), devices=(1, 2))
    found = plan.cases(wanted, machine.describe(), Interpreters(), strict_devices=False)
    runnable = found.runnable[0]
    case, device = runnable.case, runnable.devices[0]
    launch = Launch(
        case=case,
        framework=runnable.framework,
        strategy=runnable.strategy,
        python=runnable.python,
        devices=(device,),
        deadlines=Deadlines(),
    )
    command = [runnable.python, BARE, workload, str(case.per_device_batch), str(device.cores[0])]
    ratios = []
    with (
        Sampler([device], folder),
        LocalGang(launch, [folder / "gang.log"]) as gang,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bare,
    ):
        gang.gather("start", 120)
        gang.gather("build", 120)

        def with_gpubench(steps: int) -> float:
            gang.order(RunSteps(steps=steps, phase="round"))
            (done,) = gang.gather("round", 120)
            assert isinstance(done, RoundDone)
            return done.samples / ((done.end_ns - done.start_ns) / 1e9)

        def by_hand(steps: int) -> float:
            assert bare.stdin
            assert bare.stdout
            bare.stdin.write(f"{steps}\n")
            bare.stdin.flush()
            return steps * case.global_batch / float(bare.stdout.readline())

        for _ in range(3):  # both warm
            with_gpubench(5)
            rate = by_hand(5)
        steps = max(2, round(ROUND_SECONDS * rate / case.global_batch))
        cpu, wall = time.process_time(), time.monotonic()
        for index in range(pairs):
            if index % 2:
                measured = with_gpubench(steps)
                hand = by_hand(steps)
            else:
                hand = by_hand(steps)
                measured = with_gpubench(steps)
            ratios.append(measured / hand)
        share = (time.process_time() - cpu) / (time.monotonic() - wall)
        assert bare.stdin
        bare.stdin.close()
    return ratios, share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30, help="pairs of rounds in a launch")
    parser.add_argument("--launches", type=int, default=5)
    options = parser.parse_args()
    print("CPU shares of one core; samples/s by gpubench over samples/s of a bare loop, paired and interleaved")
    for workload in ("mlp", "resnet20"):
        medians, shares = [], []
        for _ in range(options.launches):
            with tempfile.TemporaryDirectory() as folder:
                ratios, share = pair_up(workload, options.pairs, Path(folder))
            medians.append(median(ratios))
            shares.append(share)
        half = stats.t.ppf(0.975, len(medians) - 1) * stdev(medians) / len(medians) ** 0.5
        print(
            f"{workload:<9} ratio {fmean(medians):.4f} ± {half:.4f} (95 %, {options.launches} launches of "
            f"{options.pairs} pairs); the harness used {fmean(shares):.2%} of a core during rounds"
        )


if __name__ == "__main__":
    main()
