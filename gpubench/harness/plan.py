"""From what a user asks for to cases: those that can run here, and those that cannot, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from gpubench.files.toml import read_toml
from gpubench.harness import machine as machines
from gpubench.harness import registry
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.runner import Timing
from gpubench.harness.settings import MOST_DEVICE_ROUNDS, check, from_toml
from gpubench.spec.case import Case, Device, Scaling
from gpubench.spec.errors import NothingToRunError, UsageError, nearest
from gpubench.spec.framework import Framework, Strategy
from gpubench.spec.record import Machine
from gpubench.spec.until import Until
from gpubench.spec.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run; docs/plans.md explains every setting.

    Empty means all there is; for `workloads` the suite's own, for `devices` 1, 2, 4, … up to all. Each number in
    `per_device_batch` makes a series of its own; empty means the workload's default, `auto` the largest that fits,
    `knee` the smallest that is nearly as fast as any. `until` says which intervals are to become how narrow:
    launches are added until they are. `paired` alternates the rounds of a gang and of its baseline; `auto` does so
    where launches differ much, and where efficiencies are to become known. `python` has words NAME=PATH, `machine` is
    what this machine is called.
    """

    suite: str = "quick"
    workloads: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()
    device_kind: str = "auto"
    precision: tuple[str, ...] = ("fp32",)
    scaling: tuple[Scaling, ...] = ("weak",)
    per_device_batch: tuple[int, ...] | Literal["auto", "knee"] = ()
    launches: int = 3
    rounds: int = 5
    round_seconds: float = 1.0
    seed: int = 0
    paired: Literal["auto", "yes", "no"] = "auto"
    until: Until | None = None
    budget_seconds: float | None = None
    wait_quiet_seconds: float | None = None
    python: tuple[str, ...] = ()
    machine: str | None = None

    @property
    def timing(self) -> Timing:
        return Timing(rounds=self.rounds, round_seconds=self.round_seconds)

    @property
    def narrows_efficiency(self) -> bool:
        """Whether the run asks for efficiencies alone, so that what has none is not measured."""
        return self.until is not None and self.until.of == "efficiency"


SUITES = {
    "quick": Plan(suite="quick", devices=(1, 2), launches=3, rounds=5, round_seconds=0.8),
    "standard": Plan(suite="standard", launches=5, rounds=10, round_seconds=2.0),
    "full": Plan(suite="full", launches=5, rounds=10, round_seconds=5.0),
}
# What a suite runs where no workload is named. A model that keeps a GPU busy takes a CPU minutes.
SUITE_WORKLOADS: dict[str, dict[str, tuple[str, ...]]] = {
    "quick": {"cpu": ("resnet20",), "gpu": ("resnet50",)},
    "standard": {"cpu": ("mlp", "resnet20"), "gpu": ("resnet20", "resnet50")},
    "full": {"cpu": ("mlp", "resnet20", "resnet50"), "gpu": ("mlp", "resnet20", "resnet50")},
}


@dataclass(frozen=True, kw_only=True)
class Runnable:
    """A case with all that a launch of it needs."""

    case: Case
    framework: Framework
    strategy: Strategy
    python: Path
    devices: tuple[Device, ...]


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A case that cannot run here, and why."""

    case: Case
    reason: str


@dataclass(frozen=True)
class Cases:
    runnable: list[Runnable]
    skipped: list[Skipped]

    @property
    def all(self) -> list[Case]:
        return [*(one.case for one in self.runnable), *(one.case for one in self.skipped)]


def given(suite_name: str | None, plan_file: Path | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """What the user has said: the plan file's settings, and over them the options that were given."""
    settings = from_toml(read_toml(plan_file), str(plan_file)) if plan_file is not None else {}
    settings |= {"suite": suite_name} if suite_name is not None else {}
    return settings | {key: value for key, value in options.items() if value not in (None, ())}


def of_settings(settings: Mapping[str, Any]) -> Plan:
    """The suite, and over it what the user has said."""
    wanted = replace(suite(settings.get("suite", "quick")), **settings)
    if wanted.until is not None and "launches" not in settings:  # a suite's number is for runs that nothing else ends
        wanted = replace(wanted, launches=1)
    check(wanted)
    return wanted


def chosen(suite_name: str | None, plan_file: Path | None, options: Mapping[str, Any]) -> Plan:
    """The suite, the plan file's settings over it, and over both the options that were given."""
    return of_settings(given(suite_name, plan_file, options))


def suite(name: Any) -> Plan:
    if not isinstance(name, str) or name not in SUITES:
        raise UsageError(f"There is no suite {name!r}; {nearest(str(name), list(SUITES))}")
    return SUITES[name]


def cases(plan: Plan, machine: Machine, interpreters: Interpreters, strict_devices: bool) -> Cases:
    """Every combination that the plan asks for, in a fixed order, baselines first.

    Args:
        strict_devices: whether a count beyond the machine's is the user's mistake (UsageError) or a reason to skip.
    """
    check(plan)
    kind = machines.device_kind(plan.device_kind, machine)
    most = machines.most_devices(kind, machine)
    if most == 0:
        raise NothingToRunError(f"No CPU share can be measured here: {machines.lacking(kind, 1, machine)}.")
    counts = _counts(plan, most)
    if strict_devices and counts[-1] > most:
        what = "GPUs" if kind == "gpu" else "CPU shares of at least one core"
        why = machines.lacking(kind, counts[-1], machine).partition(": ")[2]
        told = f"this machine has {most} {what}{f' ({why})' if why else ''}"
        raise UsageError(f"--devices {counts[-1]}: {told}; ask for 1 to {most}.")
    if plan.rounds * counts[-1] > MOST_DEVICE_ROUNDS:
        raise UsageError(
            f"{plan.rounds:,} rounds on {counts[-1]} device{'s' if counts[-1] > 1 else ''} are more than one record "
            f"holds: rounds times devices may be {MOST_DEVICE_ROUNDS:,} at most. "
            "Ask for fewer rounds, and more launches."
        )
    found = machines.devices(kind, min(counts[-1], most), machine)
    workloads = [registry.workload(name) for name in dict.fromkeys(plan.workloads or SUITE_WORKLOADS[plan.suite][kind])]
    precisions = dict.fromkeys(plan.precision)
    batches: Sequence[int | None] = [None]  # the workload's default, where a search begins too
    if plan.per_device_batch and not isinstance(plan.per_device_batch, str):
        batches = list(dict.fromkeys(plan.per_device_batch))
    runnable: list[Runnable] = []
    skipped: list[Skipped] = []
    for scaling, workload, precision, batch, (framework, strategy), count in product(
        dict.fromkeys(plan.scaling), workloads, precisions, batches, _strategies(plan), counts
    ):
        if strategy.max_devices is not None and count > strategy.max_devices:
            continue
        case = _case(plan.seed, batch, workload, framework, strategy, kind, found, count, precision, scaling)
        reason = _reason(case, workload, framework, strategy, found, interpreters, machine)
        if reason:
            skipped.append(Skipped(case=case, reason=reason))
            continue
        python = interpreters.find(framework)
        assert python is not None
        devices = tuple(found[:count])
        runnable.append(Runnable(case=case, framework=framework, strategy=strategy, python=python, devices=devices))
    return Cases(runnable, skipped)


def resolved(plan: Plan, machine: Machine, interpreters: Interpreters) -> Plan:
    """The plan with its baselines, and with all written out that depends on this machine."""
    plan = with_baselines(plan)
    kind = machines.device_kind(plan.device_kind, machine)
    return replace(
        plan,
        devices=tuple(_counts(plan, machines.most_devices(kind, machine))),
        device_kind=kind,
        python=tuple(f"{name}={path}" for name, path in interpreters.named.items()),
    )


def expanded(plan: Plan) -> Plan:
    """A resolved plan with every name written out, so that two plans that mean the same are equal."""
    return replace(
        plan,
        workloads=plan.workloads or SUITE_WORKLOADS[plan.suite][plan.device_kind],
        frameworks=tuple(framework.name for framework in _frameworks(plan)),
        strategies=tuple(f"{framework.name}:{strategy.name}" for framework, strategy in _strategies(plan)),
    )


def baseline_of(runnable: Runnable, among: Sequence[Runnable]) -> Runnable | None:
    """`single` on one device, of the same kind of work; None for a case that is itself on one device."""
    case = runnable.case
    if case.n_devices == 1:
        return None
    batch = case.per_device_batch if case.scaling == "weak" else case.global_batch
    wanted = replace(case, strategy="single", n_devices=1, per_device_batch=batch, global_batch=batch)
    return next((one for one in among if one.case == wanted), None)


def asked_for(cases: Cases, plan: Plan) -> Cases:
    """The cases that `until` needs: for efficiencies, gangs and their baselines alone.

    UsageError where no efficiency can come of what was asked for, NothingToRunError where none can come of it here.
    """
    if not plan.narrows_efficiency:
        return cases
    runnable = cases.runnable
    gangs = [one for one in runnable if baseline_of(one, runnable)]
    skipped = [one for one in cases.skipped if one.case.n_devices > 1]
    if not gangs:
        reasons = "; ".join(dict.fromkeys(one.reason for one in skipped))
        if reasons:
            raise NothingToRunError(f"No efficiency can be measured here: {reasons}.")
        raise UsageError(
            "until narrows scaling efficiencies, and nothing of this has one: add more devices and the baseline, as "
            "--devices 1,2 does, or narrow throughputs with --until throughput=2%."
        )
    baselines = [baseline_of(one, runnable) for one in gangs]
    return Cases([one for one in runnable if one in gangs or one in baselines], skipped)


def arranged(cases: Cases, plan: Plan) -> tuple[list[Runnable], list[Runnable]]:
    """Which cases are launched by themselves, and which gangs beside their baselines, from the beginning."""
    gangs = [one for one in cases.runnable if baseline_of(one, cases.runnable)]
    if plan.narrows_efficiency and plan.paired != "no":
        return [], gangs
    paired = gangs if plan.paired == "yes" else []
    return [one for one in cases.runnable if one not in paired], paired


def with_baselines(plan: Plan) -> Plan:
    """The plan with each framework's `single`, which every efficiency is measured against, and one device."""
    if not plan.strategies:
        return plan
    chosen = _strategies(plan)
    baselines = [f"{f.name}:single" for f in {f.name: f for f, _ in chosen}.values() if f.strategy("single")]
    devices = tuple(sorted({1, *plan.devices})) if plan.devices else ()
    return replace(plan, strategies=tuple(dict.fromkeys((*baselines, *plan.strategies))), devices=devices)


def _counts(plan: Plan, most: int) -> list[int]:
    """The device counts, rising."""
    return sorted(set(plan.devices)) or [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= most]


def _frameworks(plan: Plan) -> list[Framework]:
    named = [registry.framework(name) for name in dict.fromkeys(plan.frameworks)]
    return named or [framework for framework in registry.frameworks().values() if not framework.hidden]


def _strategies(plan: Plan) -> list[tuple[Framework, Strategy]]:
    among = _frameworks(plan)
    if not plan.strategies:
        return [(f, s) for f in among for s in f.strategies]
    wanted = [pair for name in plan.strategies for pair in registry.strategies_named(name, among)]
    return [(f, s) for f in among for s in f.strategies if any(s is w for _, w in wanted)]


def _case(
    seed: int,
    batch: int | None,
    workload: Workload,
    framework: Framework,
    strategy: Strategy,
    kind: str,
    found: list[Device],
    count: int,
    precision: str,
    scaling: Scaling,
) -> Case:
    cores = len(found[0].cores)
    memory = min((d.memory_bytes for d in found if d.memory_bytes), default=None)
    batch = batch or workload.default_batch(kind, cores, memory)
    per_device = batch if scaling == "weak" else batch // count
    return Case(
        workload=workload.name,
        framework=framework.name,
        strategy=strategy.name,
        device_kind="gpu" if kind == "gpu" else "cpu",
        n_devices=count,
        per_device_batch=per_device,
        global_batch=batch * count if scaling == "weak" else batch,
        cores_per_device=cores,
        precision=precision,
        scaling=scaling,
        seed=seed,
    )


def _reason(
    case: Case,
    workload: Workload,
    framework: Framework,
    strategy: Strategy,
    found: list[Device],
    interpreters: Interpreters,
    machine: Machine,
) -> str | None:
    """Why a case cannot run here; None where it can."""
    where = "GPUs" if case.device_kind == "gpu" else "CPU shares"
    if case.device_kind in strategy.refused:
        return strategy.refused[case.device_kind]
    if case.n_devices > len(found):
        return machines.lacking(case.device_kind, case.n_devices, machine)
    if case.n_devices > 1 and any(device.id.startswith("MIG-") for device in found[: case.n_devices]):
        return "CUDA shows a process one MIG instance and no more: measure one at a time"
    on_amd = found[0].vendor == "amd"
    if on_amd and not framework.on_amd:
        return f"{framework.name} is not driven on AMD GPUs"
    if on_amd and case.precision == "tf32":
        return "TF32 is NVIDIA's; AMD GPUs would do something else under its name"
    if workload.name not in framework.workloads:
        return f"{framework.name} has no {workload.name}"
    if case.precision not in framework.precisions.get(case.device_kind, ()):
        runs = ", ".join(framework.precisions.get(case.device_kind, ())) or "nothing"
        return f"{framework.name} runs {runs} on {where}, not {case.precision}"
    if case.global_batch != case.per_device_batch * case.n_devices:
        return f"a global batch of {case.global_batch} does not divide among {case.n_devices} devices"
    if interpreters.find(framework) is None:
        return interpreters.lacking(framework)
    return None
