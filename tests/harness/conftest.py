"""A session on the fake framework, one launch at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpubench.analysis.checks import doubts, timing
from gpubench.harness import machine, runner
from gpubench.harness.gang.launch import Deadlines
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.plan import Cases, Plan, cases
from gpubench.harness.runner import Timing
from gpubench.harness.session import Session
from gpubench.spec.record import RunRecord


class Silent:
    def phase(self, launch: object, phase: object, samples_per_second: float | None = None) -> None:
        pass


@pytest.fixture(autouse=True)
def rounds_of_the_length_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake's clock is its own: what an order really takes must not lengthen its rounds, or be held against them."""
    monkeypatch.setattr(runner, "TIMING_COST_LIMIT", 1e9)
    monkeypatch.setattr(timing, "TIMING_COST_LIMIT", 1e9)


@pytest.fixture
def run_fake(tmp_path: Path) -> Callable[..., RunRecord]:
    """`run_fake("ranks", 2)`: one launch of that strategy on so many devices, without a sampler."""

    def run(
        strategy: str,
        n_devices: int,
        timing: Timing | None = None,
        deadlines: Deadlines | None = None,
        **settings: object,
    ) -> RunRecord:
        this = machine.describe()
        plan = Plan(frameworks=("fake",), strategies=(strategy,), devices=(1, 2), device_kind="cpu", **settings)  # type: ignore[arg-type]
        found = cases(plan, this, Interpreters(), strict_devices=True)
        timing = timing or Timing(rounds=3, round_seconds=1.0)
        session = Session(this, Cases([], []), timing, Silent(), doubts, logs=tmp_path, deadlines=deadlines)
        with session:
            wanted = next(one for one in found.runnable if one.case.n_devices == n_devices)
            return session.launch(wanted, 1)

    return run
