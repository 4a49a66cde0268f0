"""What sampling costs: the sampler's CPU at 8 fake GPUs and 100 ms, its start, and what a running `mlp` feels of it.

    python -m benchmarks.self.sampling [--pairs 40] [--seconds 20]

From the repository's root, with a C compiler for the fake NVML driver, whose calls take no time. Wanted: under 0.5 %
of a core, a start under 0.5 s, and a throughput with the sampler within 0.5 % of that without. For the last, one gang
lives on one CPU share while the sampler is paused and let go in turn, so that a machine that drifts drifts for both;
the interval is Student's, over the pairs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import fmean, median, stdev

from scipy import stats

from gpubench.harness import machine, plan
from gpubench.harness.gang.launch import Deadlines, Launch
from gpubench.harness.gang.local import LocalGang
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.plan import Runnable
from gpubench.spec.messages import RoundDone, RunSteps
from gpubench.telemetry.sampler import Sampler
from tests.fakes import nvml
from tests.fakes.nvml.scenario import Scenario

GPUS = Scenario.load("h200_8x")
STARTS = 3
ROUND_SECONDS = 0.5


def cpu_share(folder: Path, seconds: float) -> tuple[float, float, float]:
    """The sampler's share of a core once it runs, the seconds to its first sample, and its sweeps' median."""
    starts = []
    for _ in range(STARTS):
        began = time.monotonic()
        with Sampler(GPUS.devices, folder) as sampler:
            while not sampler.latest():
                time.sleep(0.005)
            starts.append(time.monotonic() - began)
    with Sampler(GPUS.devices, folder) as sampler:
        time.sleep(2)
        since_ns = time.monotonic_ns()
        time.sleep(seconds)
        cost = sampler.telemetry(GPUS.devices, [], since_ns, time.monotonic_ns()).cost
    assert cost is not None
    return cost.cpu_seconds / seconds, min(starts), cost.sweep_seconds_p50 or 0.0


def mlp_on_a_cpu_share() -> Runnable:
    wanted = plan.Plan(workloads=("mlp",), frameworks=("torch",), strategies=("single",), devices=(1, 2))
    found = plan.cases(wanted, machine.describe(), Interpreters(), strict_devices=False)
    return next(runnable for runnable in found.runnable if runnable.case.device_kind == "cpu")


def ratios(runnable: Runnable, folder: Path, pairs: int) -> list[float]:
    """Throughput with the sampler at work over that with it paused, one a pair."""
    launch = Launch(
        case=runnable.case,
        framework=runnable.framework,
        strategy=runnable.strategy,
        python=runnable.python,
        devices=runnable.devices[:1],
        deadlines=Deadlines(),
    )
    found_ratios = []
    with Sampler(GPUS.devices, folder) as sampler, LocalGang(launch, [folder / "gang.log"]) as gang:
        gang.gather("start", 120)
        gang.gather("build", 120)

        def rate(steps: int) -> float:
            gang.order(RunSteps(steps=steps, phase="round"))
            (done,) = gang.gather("round", 120)
            assert isinstance(done, RoundDone)
            return done.samples / ((done.end_ns - done.start_ns) / 1e9)

        for _ in range(3):
            warm = rate(5)
        steps = max(2, round(ROUND_SECONDS * warm / runnable.case.global_batch))
        for index in range(pairs):
            rates = {}
            for sampled in (True, False) if index % 2 else (False, True):
                sampler.resume() if sampled else sampler.pause()
                rates[sampled] = rate(steps)
            sampler.resume()
            found_ratios.append(rates[True] / rates[False])
    return found_ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runnable = mlp_on_a_cpu_share()  # before there are GPUs
        os.environ.update(nvml.environment(nvml.build(folder / "nvml", GPUS.missing), GPUS))
        share, start, sweep = cpu_share(folder, arguments.seconds)
        print(f"{len(GPUS.devices)} fake GPUs at 100 ms: {100 * share:.2f} % of a core (wanted: under 0.5 %)")
        print(f"one sweep: {1e6 * sweep:.0f} us in the median")
        print(f"start to first sample: {start:.2f} s, best of {STARTS} (wanted: under 0.5 s)")
        all_ratios = ratios(runnable, folder, arguments.pairs)
        half = stats.t.ppf(0.975, len(all_ratios) - 1) * stdev(all_ratios) / len(all_ratios) ** 0.5
        mean = fmean(all_ratios)
        print(
            f"mlp on a CPU share, with the sampler over without: median {median(all_ratios):.4f}, mean {mean:.4f}, "
            f"95 % interval {mean - half:.4f} to {mean + half:.4f} from {len(all_ratios)} pairs "
            "(wanted: 0.995 to 1.005)"
        )


if __name__ == "__main__":
    main()
