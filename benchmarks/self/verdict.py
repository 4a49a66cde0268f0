"""How long `--until` takes to an answer, against how it was before; how often the answer holds the truth.

    python benchmarks/self/verdict.py [--repeats 2]  # 5 to 16 minutes; 0 simulates only

Measures torch `ddp` of `mlp` on two devices against `single` on one, both ways by turns. Before, all cases were
launched three times, and then every case until its own efficiency or throughput was known; now, pairs of gang and
baseline run until the efficiency is. A first run says how far pairs differ on this machine, and with that, which
half-width it can reach: 2 % where it is quiet, a wider one elsewhere; both ways are then held to the same. From the
pairs' rounds it takes the parts of a nested model, ratio = truth x pair x round on logs, and simulates with them: how
long an answer takes at other numbers of rounds a pair, and how often the interval that ended a run holds the truth. The
stopping rule and the interval are gpubench's own. Ends with 1 where a target is missed. On a machine that others use,
no launch counts, and there is no answer.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpubench.analysis import precision, stats
from gpubench.analysis.checks import doubts
from gpubench.analysis.scaling import CaseSummary, summarize
from gpubench.campaign import Campaign
from gpubench.files.store import Journal
from gpubench.harness import machine, plan
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.session import Session
from gpubench.progress import Quiet
from gpubench.spec.errors import GpubenchError
from gpubench.spec.record import RunRecord
from gpubench.spec.until import Until

WITHIN = (0.02, 0.03, 0.04, 0.06, 0.08, 0.12)  # half-widths, of which the narrowest that can be reached is asked for
LIMIT_SECONDS = 240.0  # of one run
TARGET = WITHIN[0]  # of the simulated runs; only the spread's ratio to it matters
ROUNDS = 5  # of a pair, in the suite that is measured
SIMULATED = 20_000  # runs; the standard error of a coverage of 95 % is then 0.15 %
SPREADS = (0.1, 0.5, 0.75, 1.0, 1.5, 1.75, 2.0, 2.5)  # of a pair's ratio, over the half-width asked for


@dataclass(frozen=True)
class Parts:
    """Standard deviations on logs: between pairs, and between the rounds of a pair. Seconds: before the first round of
    a pair, and of a round of both halves."""

    between: float
    within: float
    start_seconds: float
    round_seconds: float

    def pair_seconds(self, rounds: int) -> float:
        return self.start_seconds + rounds * self.round_seconds

    def best_rounds(self) -> float:
        """sqrt(start/round x within²/between²): Cochran 1977, Sampling Techniques, 10.6; Kalibera & Jones 2013, 5."""
        if self.between == 0:
            return math.inf
        return math.sqrt(self.start_seconds / self.round_seconds) * self.within / self.between


def stopped(between: float, within: float, rounds: int, target: float, runs: int, seed: int = 0) -> tuple[float, float]:
    """The share of simulated runs whose interval holds the truth, and how many pairs a run takes on average."""
    random = np.random.default_rng(seed)
    shape = (runs, precision.MOST_LAUNCHES)
    active = np.exp(random.normal(0, between, shape) + random.normal(0, within / math.sqrt(rounds), shape))
    covering = pairs = 0
    for k in range(stats.FEWEST_LAUNCHES, precision.MOST_LAUNCHES + 1):
        low, high = stats.sequential_interval(active[:, :k])
        half = (high - low) / 2 / np.median(active[:, :k], axis=-1)
        ended = precision.enough(half, k, target) | (k == precision.MOST_LAUNCHES)
        covering += int(((low <= 1) & (high >= 1))[ended].sum())
        pairs += k * int(ended.sum())
        active = active[~ended]
    return covering / runs, pairs / runs


def as_it_was(records: Sequence[RunRecord], until: Until) -> set[str]:
    """The rule before: every case, by its efficiency where it has one, else by its throughput, at 95 %."""
    wanted = set()
    for summary in summarize(_before(records)):
        of_gang = summary.case.n_devices > 1 and summary.scaling_efficiency is not None
        width = precision.half_width(summary, "efficiency" if of_gang else "throughput")
        if summary.launches and (width is None or width > until.within):
            wanted.add(summary.case.id)
    return wanted


def _before(records: Sequence[RunRecord]) -> list[RunRecord]:
    """As if nobody had looked at widths, which is how the intervals were made."""
    return [replace(each, schedule=each.schedule and replace(each.schedule, until=None)) for each in records]


def measured(before: bool, within: float, folder: Path) -> tuple[float, list[RunRecord]]:
    """Seconds that a whole run took, to the half-width `within` or to the limit, and its records."""
    wanted = plan.Plan(
        workloads=("mlp",),
        frameworks=("torch",),
        strategies=("ddp",),
        devices=(1, 2),
        paired="yes",
        until=Until(within, "throughput" if before else "efficiency"),
        launches=3 if before else 1,
        round_seconds=plan.SUITES["quick"].round_seconds,
        budget_seconds=LIMIT_SECONDS,
    )
    this = machine.describe()
    wanted = plan.resolved(wanted, this, Interpreters())
    cases = plan.asked_for(plan.cases(wanted, this, Interpreters(), strict_devices=True), wanted)
    journal = Journal.create(folder, "here", "run")
    began = time.monotonic()
    with Session(this, cases, wanted.timing, Quiet(), doubts, journal.log_folder()) as session:
        campaign = Campaign(session, cases, wanted, journal, Quiet())
        if before:
            campaign.unresolved, campaign.fewest = as_it_was, 3
        records = campaign.run()
    return time.monotonic() - began, records


def gang(records: Sequence[RunRecord]) -> CaseSummary | None:
    return next((one for one in summarize(records) if one.case.n_devices == 2), None)


def parts(records: Sequence[RunRecord], pair_seconds: float) -> Parts | None:
    """From all pairs, of which one takes so long; None where fewer than three ended well."""
    halves: dict[str, dict[str, RunRecord]] = {}
    for record in records:
        if record.schedule and record.schedule.pair_id and record.schedule.paired_as and record.outcome.status == "ok":
            halves.setdefault(record.schedule.pair_id, {})[record.schedule.paired_as] = record
    pairs = [(both["gang"].rounds, both["baseline"].rounds) for both in halves.values() if len(both) == 2]
    if len(pairs) < 3:
        return None
    logs = np.array(
        [
            [math.log(a.samples / a.seconds * b.seconds / b.samples) for a, b in zip(*pair, strict=True)]
            for pair in pairs
        ]
    )
    within = float(logs.var(axis=1, ddof=1).mean())
    between = float(logs.mean(axis=1).var(ddof=1)) - within / logs.shape[1]
    took = [max(half[-1].end_ns for half in pair) - min(half[0].start_ns for half in pair) for pair in pairs]
    rounds_seconds = float(np.mean(took)) / 1e9
    return Parts(
        between=math.sqrt(max(0.0, between)),
        within=math.sqrt(within),
        start_seconds=max(0.0, pair_seconds - rounds_seconds),
        round_seconds=rounds_seconds / logs.shape[1],
    )


def told(name: str, reached: bool, words: str) -> bool:
    print(f"{'reached' if reached else 'MISSED ':<8} {name}: {words}")
    return reached


def within_reach(found: Parts) -> float:
    """The narrowest half-width that takes no more than half the limit, by the spread that was seen."""
    spread = math.hypot(found.between, found.within / math.sqrt(ROUNDS))
    for within in WITHIN:
        _, pairs = stopped(spread, 0.0, 1, within, runs=4000)
        if pairs * found.pair_seconds(ROUNDS) <= LIMIT_SECONDS / 2:
            return within
    return WITHIN[-1]


def pilot(folder: Path) -> tuple[Parts | None, float]:
    """The parts that pairs vary by on this machine, and the half-width to ask for."""
    took, records = measured(False, WITHIN[0], folder)
    found = parts(records, took / max(1, len(records) // 2))
    if found is None:
        return None, WITHIN[-1]
    within = WITHIN[0] if ended(records, WITHIN[0]) else within_reach(found)
    print(f"A first run of {took:.0f} s: {len(records) // 2} pairs. All runs below are to +-{within:.0%}.")
    return found, within


def ended(records: Sequence[RunRecord], within: float) -> bool:
    summary = gang(records)
    return summary is not None and precision.met(summary, Until(within, "efficiency"))


def answers(repeats: int, within: float, folder: Path) -> bool:
    """Both ways by turns: whether the answer now takes half the time."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    answered = {True: True, False: True}
    print("way     seconds  launches  efficiency  half-width")
    for index in range(2 * repeats):
        before = index % 4 in (0, 3)
        took, records = measured(before, within, folder)
        summary = gang(_before(records) if before else records)
        width = precision.half_width(summary, "efficiency") if summary else None
        figure = summary.scaling_efficiency if summary else None
        seconds[before].append(took)
        answered[before] &= not as_it_was(records, Until(within)) if before else ended(records, within)
        shown = f"{figure:10.3f}  {width:9.2%}" if figure and width is not None else f"{'-':>10}  {'-':>9}"
        print(f"{'before' if before else 'now':<7} {took:7.1f}  {len(records):8}  {shown}", flush=True)
        if summary is not None and summary.no_number:
            print(f"        no number: {summary.no_number}")
    ratio = float(np.mean(seconds[False]) / np.mean(seconds[True]))
    most = "" if answered[True] else "at most "  # the way before was stopped at the limit, without its answer
    words = f"{most}{ratio:.2f} of the time before, to +-{within:.0%}; the limit is 0.50"
    return told(
        "an answer in half the time",
        ratio <= 0.5 and answered[False],
        words if answered[False] else "no answer within the limit",
    )


def rounds_of_a_pair(found: Parts, within: float) -> None:
    """What more rounds in a warm pair gain, and what they cost."""
    print(
        f"\nBetween pairs {found.between:.2%}, between rounds of a pair {found.within:.2%} (standard deviations of the "
        f"ratio); {found.start_seconds:.1f} s to start a pair, {found.round_seconds:.1f} s a round of both halves.\n"
        f"By the formula for large samples, {found.best_rounds():.1f} rounds a pair are best. Simulated:"
    )
    print("rounds  spread of a pair's ratio  pairs to the answer  seconds to the answer")
    for rounds in (1, 2, 3, 5, 8, 12, 20):
        spread = math.hypot(found.between, found.within / math.sqrt(rounds))
        _, pairs = stopped(found.between, found.within, rounds, within, runs=4000)
        print(f"{rounds:6}  {spread:24.2%}  {pairs:19.1f}  {pairs * found.pair_seconds(rounds):21.0f}")


def covers() -> bool:
    """Whether intervals that ended their runs hold the truth as often as they say, whatever the spread."""
    shares = {
        spread: stopped(TARGET * spread * 0.8, TARGET * spread * 0.6 * math.sqrt(5), 5, TARGET, SIMULATED)
        for spread in SPREADS
    }
    print("\nspread / target  pairs  coverage")
    for spread, (share, pairs) in shares.items():
        print(f"{spread:15}  {pairs:5.1f}  {share:8.1%}")
    low, high = min(share for share, _ in shares.values()), max(share for share, _ in shares.values())
    return told("coverage of 93 to 97 %", low >= 0.93 and high <= 0.97, f"{low:.1%} to {high:.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2, help="runs each way; 0 simulates only")
    options = parser.parse_args()
    reached = True
    if options.repeats:
        try:
            with tempfile.TemporaryDirectory() as folder:
                found, within = pilot(Path(folder))
                if found is None:
                    sys.exit("Fewer than three pairs count: the machine is in use, or too slow for this.")
                reached = answers(options.repeats, within, Path(folder))
        except GpubenchError as error:
            sys.exit(f"Nothing could be measured: {error}")
        rounds_of_a_pair(found, within)
    reached = covers() and reached
    sys.exit(0 if reached else 1)


if __name__ == "__main__":
    main()
