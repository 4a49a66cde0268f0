"""Every workload x framework x strategy there is: the built-in ones, and those of installed plugins."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module

import pluggy

from gpubench.harness import hookspecs
from gpubench.spec.errors import UsageError, nearest
from gpubench.spec.framework import Framework, Strategy
from gpubench.spec.workload import WORKLOADS, Workload

BUILT_IN = ("tensorflow", "torch", "mxnet", "fake")


class BuiltIn:
    """The frameworks in this package, through the same hook as anyone's."""

    @hookspecs.hookimpl
    def gpubench_frameworks(self) -> Iterable[Framework]:
        return [import_module(f"gpubench.frameworks.{name}").FRAMEWORK for name in BUILT_IN]


@cache
def frameworks() -> dict[str, Framework]:
    """All frameworks by name, in a fixed order. Two of one name are an error, and both are named."""
    manager = pluggy.PluginManager("gpubench")
    manager.add_hookspecs(hookspecs)
    manager.register(BuiltIn())
    manager.load_setuptools_entrypoints("gpubench")
    found: dict[str, Framework] = {}
    for group in reversed(manager.hook.gpubench_frameworks()):
        for framework in group:
            if framework.name in found:
                raise UsageError(
                    f"Two frameworks are called {framework.name}: {found[framework.name].package} and "
                    f"{framework.package}. Uninstall one of them."
                )
            found[framework.name] = framework
    return found


def framework(name: str) -> Framework:
    known = frameworks()
    if name not in known:
        visible = [f.name for f in known.values() if not f.hidden]
        raise UsageError(f"There is no framework {name!r}; {nearest(name, visible)}")
    return known[name]


def workload(name: str) -> Workload:
    if name not in WORKLOADS:
        raise UsageError(f"There is no workload {name!r}; {nearest(name, list(WORKLOADS))}")
    return WORKLOADS[name]


def strategies_named(name: str, among: Iterable[Framework]) -> list[tuple[Framework, Strategy]]:
    """The strategies that answer to a name: `ddp`, `torch:ddp`, or an alias such as `multi_gpu_model`."""
    wanted_framework, _, wanted = name.rpartition(":")
    among = [f for f in among if not wanted_framework or f.name == wanted_framework]
    exact = [(f, s) for f in among for s in f.strategies if s.name == wanted]
    if exact:
        return exact
    by_alias = [(f, s) for f in among for s in f.strategies if wanted in s.aliases]
    if by_alias:
        return by_alias
    known = sorted({word for f in among for s in f.strategies for word in (s.name, *s.aliases)})
    raise UsageError(f"There is no strategy {name!r}; {nearest(wanted, known)}")
