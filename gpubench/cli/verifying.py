"""What `gpubench verify` does: train a few steps on the same weights and samples everywhere, and compare.

Across frameworks, each one's reference (`reference.py` in its folder) takes one step on one device: parameters,
multiply-adds, loss and gradient norm must agree. Across devices, each strategy takes some steps on n devices, and must
end at the weights at which its framework's reference ends, which takes the same n batches on one device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from gpubench import proof
from gpubench.files import verified
from gpubench.files.outputs import may_fill
from gpubench.harness import machine as machines
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.outcomes import printable
from gpubench.harness.plan import Plan, Runnable, Skipped, cases
from gpubench.harness.scratch import scratch_folder
from gpubench.spec.errors import NothingToRunError
from gpubench.spec.framework import Framework
from gpubench.spec.verification import Verification

# Three models are compared; ResNet-50 takes too long on a CPU to train it with every strategy unless asked for.
MODELS = ("mlp", "resnet20", "resnet50")
TRAINED = ("mlp", "resnet20")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to verify. Empty tuples mean all there is; `devices` empty means 1, 2, 4, … up to what the machine has."""

    frameworks: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()
    device_kind: str = "auto"


def run(
    request: Request, interpreters: Interpreters, results: Path | None, say: Callable[[str], None]
) -> list[Verification]:
    """Verify what was asked for and store each verification in `results` as it is made (None: nowhere).

    NothingToRunError where nothing of it can run here; UsageError, before anything is trained, where `results` cannot
    be written.
    """
    if results is not None:
        may_fill(results / "verified")
    this = machines.describe()
    if line := machines.fallback(request.device_kind, this):
        say(line)
    plan = Plan(
        workloads=request.workloads or TRAINED,
        frameworks=request.frameworks,
        strategies=request.strategies,
        devices=request.devices,
        device_kind=request.device_kind,
    )
    found = cases(plan, this, interpreters, strict_devices=bool(request.devices))
    runnable = [one for one in found.runnable if can_be_verified(one.framework)]
    for reason in sorted(_reasons(found.skipped, found.runnable)):
        say(f"not verified: {reason}")
    if not runnable:
        raise NothingToRunError("Nothing of what was asked for can be verified here.")
    with scratch_folder() as scratch:
        bench = proof.Bench(scratch, request.workloads or MODELS, runnable, say)
        verifications = []
        for verification in chain(bench.models(), bench.strategies()):
            if results is not None and verification.software:  # else it cannot be told what it holds for
                verified.save(verification, results)
            verifications.append(verification)
    return verifications


def can_be_verified(framework: Framework) -> bool:
    return all((framework.folder / file).is_file() for file in ("reference.py", "verification.py"))


def as_text(verifications: Sequence[Verification]) -> str:
    """A line for each verification, and below it what failed."""
    lines = []
    if any(one.device_kind == "cpu" for one in verifications):
        lines.append("On CPU shares, not GPUs.")
    for one in verifications:
        subject = f"{one.workload}-{one.framework}" + (f"-{one.strategy}-{one.n_devices}" if one.strategy else "")
        compared = ", ".join(one.compared_with) or "the workload's definition alone"
        lines.append(f"{'verified' if one.passed else 'FAILED':<9} {subject:<36} against {compared}")
        shown = one.failures or [finding for finding in one.findings if finding.error is not None]
        for finding in shown:
            limit = f" (within {100 * finding.tolerance:.2g} %)" if finding.tolerance is not None else ""
            lines.append(f"          {finding.name}: {printable(finding.message)}{limit}")
    failed = sum(not one.passed for one in verifications)
    lines.append(f"{len(verifications) - failed} verified, {failed} failed.")
    return "\n".join(lines)


def _reasons(skipped: Sequence[Skipped], runnable: Sequence[Runnable]) -> set[str]:
    lacking = {one.framework.name for one in runnable if not can_be_verified(one.framework)}
    return {f"{one.case.framework} {one.case.strategy}: {one.reason}" for one in skipped} | {
        f"{name}: it has no reference.py and verification.py" for name in lacking
    }
