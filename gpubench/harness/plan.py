"""From what a user asks for to cases: those that can run here, and those that cannot, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from gpubench.files.toml import read_toml
from gpubench.harness import machine as machines
from gpubench.harness import registry
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.runner import Timing
from gpubench.spec.case import Case, Device, Scaling
from gpubench.spec.errors import NothingToRunError, UsageError, nearest
from gpubench.spec.framework import Framework, Strategy
from gpubench.spec.record import Machine
from gpubench.spec.workload import Workload

PRECISIONS = ("fp32", "tf32", "bf16")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run. Empty means all there is; for `workloads` the suite's own, for `devices` 1, 2, 4, … up to all.

    A `per_device_batch` of `auto` is the largest that fits, of `knee` the smallest that is nearly as fast as any.
    `until` is the half-width that intervals are to reach, as a fraction of the figure: more launches are added until
    they do. `paired` alternates the rounds of a gang and of its baseline; `auto` does so where launches differ much.
    """

    suite: str = "quick"
    workloads: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()
    device_kind: str = "auto"
    precision: tuple[str, ...] = ("fp32",)
    scaling: tuple[Scaling, ...] = ("weak",)
    per_device_batch: int | Literal["auto", "knee"] | None = None
    launches: int = 3
    rounds: int = 5
    round_seconds: float = 1.0
    seed: int = 0
    paired: Literal["auto", "yes", "no"] = "auto"
    until: float | None = None
    budget_seconds: float | None = None
    wait_quiet_seconds: float | None = None

    @property
    def timing(self) -> Timing:
        return Timing(rounds=self.rounds, round_seconds=self.round_seconds)


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


def chosen(suite_name: str | None, plan_file: Path | None, options: Mapping[str, Any]) -> Plan:
    """The suite, the plan file's settings over it, and over both the options that were given."""
    wanted = suite(suite_name or "quick")
    if plan_file is not None:
        wanted = read_plan(plan_file, wanted)
    return replace(wanted, **{key: value for key, value in options.items() if value not in (None, ())})


def read_plan(path: Path, base: Plan) -> Plan:
    """A plan file's keys over `base`. UsageError naming the key, and the nearest valid one, where one is wrong."""
    content = read_toml(path)
    known = [field.name for field in fields(Plan)]
    for key in content:
        if key not in known:
            raise UsageError(f"{path}: there is no setting {key!r}; {nearest(key, known)}")
    if "suite" in content:
        base = suite(content.pop("suite"))
    for key, value in content.items():
        if isinstance(getattr(base, key), tuple) and not isinstance(value, list):
            content[key] = [value]
    try:
        return msgspec.convert({**_as_dict(base), **content}, Plan)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}.") from error


def suite(name: Any) -> Plan:
    if not isinstance(name, str) or name not in SUITES:
        raise UsageError(f"There is no suite {name!r}; {nearest(str(name), list(SUITES))}")
    return SUITES[name]


def cases(plan: Plan, machine: Machine, interpreters: Interpreters, strict_devices: bool) -> Cases:
    """Every combination that the plan asks for, in a fixed order, baselines first.

    Args:
        strict_devices: whether a count beyond the machine's is the user's mistake (UsageError) or a reason to skip.
    """
    _check(plan)
    kind = machines.device_kind(plan.device_kind, machine)
    most = machines.most_devices(kind, machine)
    if most == 0:
        raise NothingToRunError(f"No CPU share can be measured here: {machines.lacking(kind, 1, machine)}.")
    counts = sorted(set(plan.devices)) or [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= most]
    if strict_devices and counts[-1] > most:
        what = "GPUs" if kind == "gpu" else "CPU shares of at least one core"
        why = machines.lacking(kind, counts[-1], machine).partition(": ")[2]
        told = f"this machine has {most} {what}{f' ({why})' if why else ''}"
        raise UsageError(f"--devices {counts[-1]}: {told}; ask for 1 to {most}.")
    found = machines.devices(kind, min(counts[-1], most), machine)
    workloads = [registry.workload(name) for name in dict.fromkeys(plan.workloads or SUITE_WORKLOADS[plan.suite][kind])]
    chosen = _strategies(plan)
    runnable: list[Runnable] = []
    skipped: list[Skipped] = []
    for scaling in dict.fromkeys(plan.scaling):
        for workload in workloads:
            for precision in dict.fromkeys(plan.precision):
                for framework, strategy in chosen:
                    for count in counts:
                        if strategy.max_devices is not None and count > strategy.max_devices:
                            continue
                        case = _case(plan, workload, framework, strategy, kind, found, count, precision, scaling)
                        reason = _reason(case, workload, framework, strategy, found, interpreters, machine)
                        if reason:
                            skipped.append(Skipped(case=case, reason=reason))
                            continue
                        python = interpreters.find(framework)
                        assert python is not None
                        runnable.append(
                            Runnable(
                                case=case,
                                framework=framework,
                                strategy=strategy,
                                python=python,
                                devices=tuple(found[:count]),
                            )
                        )
    return Cases(runnable, skipped)


def with_baselines(plan: Plan) -> Plan:
    """The plan with each framework's `single`, which every efficiency is measured against, and one device."""
    if not plan.strategies:
        return plan
    chosen = _strategies(plan)
    baselines = [f"{f.name}:single" for f in {f.name: f for f, _ in chosen}.values() if f.strategy("single")]
    devices = tuple(sorted({1, *plan.devices})) if plan.devices else ()
    return replace(plan, strategies=(*baselines, *plan.strategies), devices=devices)


def _check(plan: Plan) -> None:
    for word in plan.precision:
        if word not in PRECISIONS:
            raise UsageError(f"There is no precision {word!r}; {nearest(word, list(PRECISIONS))}")
    for mode in plan.scaling:
        if mode not in ("weak", "strong"):
            raise UsageError(f"There is no scaling {mode!r}; known: strong, weak")
    for limit, value in {
        "devices": min(plan.devices, default=1),
        "launches": plan.launches,
        "rounds": plan.rounds,
    }.items():
        if value < 1:
            raise UsageError(f"{limit} must be 1 or more; got {value}.")
    for setting, largest in {"launches": 10_000, "rounds": 100_000, "per_device_batch": 10**9, "seed": 2**62}.items():
        number = getattr(plan, setting)
        if isinstance(number, int) and abs(number) > largest:
            raise UsageError(f"{setting} must be {largest:,} at most; got {number}.")
    if isinstance(plan.per_device_batch, int) and plan.per_device_batch < 1:
        raise UsageError(f"per_device_batch must be 1 or more; got {plan.per_device_batch}.")
    for setting in ("budget_seconds", "wait_quiet_seconds"):
        seconds = getattr(plan, setting)
        if seconds is not None and not 0 <= seconds < math.inf:
            raise UsageError(f"{setting} must be 0 or more, and finite; got {seconds}.")
    if not 0 < plan.round_seconds < 3600:
        raise UsageError(f"round_seconds must be over 0 and under an hour; got {plan.round_seconds:g}.")
    if plan.until is not None and not 0 < plan.until < 1:
        raise UsageError(f"until must be over 0 % and under 100 %; got {plan.until:.0%}.")
    if plan.device_kind not in ("auto", "cpu", "gpu"):
        raise UsageError(f"There is no device kind {plan.device_kind!r}; known: auto, cpu, gpu")


def _strategies(plan: Plan) -> list[tuple[Framework, Strategy]]:
    among = [registry.framework(name) for name in dict.fromkeys(plan.frameworks)]
    among = among or [f for f in registry.frameworks().values() if not f.hidden]
    if not plan.strategies:
        return [(f, s) for f in among for s in f.strategies]
    wanted = [pair for name in plan.strategies for pair in registry.strategies_named(name, among)]
    return [(f, s) for f in among for s in f.strategies if any(s is w for _, w in wanted)]


def _case(
    plan: Plan,
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
    asked = plan.per_device_batch if isinstance(plan.per_device_batch, int) else None
    batch = asked or workload.default_batch(kind, cores, memory)
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
        seed=plan.seed,
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


def _as_dict(plan: Plan) -> dict[str, Any]:
    return {field.name: getattr(plan, field.name) for field in fields(Plan)}
