"""The hook through which frameworks introduce themselves; the built-in ones use it too."""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from gpubench.spec.framework import Framework

hookspec = pluggy.HookspecMarker("gpubench")
hookimpl = pluggy.HookimplMarker("gpubench")


@hookspec
def gpubench_frameworks() -> Iterable[Framework]:  # type: ignore[empty-body]
    """Return the frameworks that this plugin adds. Must import none of them: they are plain data."""
