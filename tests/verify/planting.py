"""Plants bugs in a framework's own strategies, and lets `gpubench verify` look at them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gpubench.cli import verifying
from gpubench.harness import registry
from gpubench.harness.interpreters import Interpreters
from gpubench.spec.framework import Framework
from gpubench.spec.verification import Verification


@dataclass(frozen=True)
class Bug:
    """A strategy with words of its file replaced. `in_` is the strategy's name."""

    in_: str
    replaced: Mapping[str, str]


def planted(framework: Framework, bugs: Mapping[str, Bug], folder: Path) -> Framework:
    """A copy of the framework that has the bugs as strategies of their own beside the sound ones they were made of."""
    shutil.copytree(framework.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    strategies = [s for s in framework.strategies if s.name in {bug.in_ for bug in bugs.values()}]
    for name, bug in bugs.items():
        sound = framework.strategy(bug.in_)
        assert sound is not None
        text = (folder / f"{sound.module}.py").read_text()
        for old, new in bug.replaced.items():
            assert text.count(old) == 1, f"{sound.module}.py has {text.count(old)} times {old!r}"
            text = text.replace(old, new)
        module = re.sub(r"\W+", "_", name)
        (folder / f"{module}.py").write_text(text)
        strategies.append(replace(sound, name=name, module=module, aliases=()))
    return replace(framework, package=f"planted_{framework.name}", folder=folder, strategies=tuple(strategies))


def verify(framework: Framework, workload: str) -> dict[str | None, Verification]:
    """Each strategy's verification on two CPU shares by its name, and the model's own under None."""
    return {one.strategy: one for one in verify_all([framework], workload, devices=2)}


def verify_all(
    frameworks: Sequence[Framework], workload: str, devices: int, pythons: Mapping[str, Path] | None = None
) -> list[Verification]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "frameworks", lambda: {framework.name: framework for framework in frameworks})
        request = verifying.Request(workloads=(workload,), devices=(devices,), device_kind="cpu")
        return verifying.run(request, Interpreters(pythons or {}), None, lambda text: None)


def failed(verification: Verification) -> set[str]:
    """The names of what did not pass."""
    return {finding.name for finding in verification.failures}
