"""Continuing a run: its own plan, and what may be said anew.

What is measured stays as it was. That there be more launches or narrower intervals, and how long they wait for quiet
devices, may be said anew, and so may the Python of a framework that had none. A budget is that of one command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpubench.harness.interpreters import Interpreters
from gpubench.harness.plan import Plan, expanded, resolved
from gpubench.harness.settings import check, shown
from gpubench.spec.errors import UsageError
from gpubench.spec.record import Machine

ANEW = ("budget_seconds", "wait_quiet_seconds")  # they say when launches run, not which


def continued(
    name: str, saved: Plan, given: Mapping[str, Any], machine: Machine, interpreters: Interpreters
) -> tuple[Plan, Interpreters]:
    """The plan of a run that is continued, and its Pythons: `saved`, and over it what the user has given.

    UsageError where what was given contradicts what the run was started with.
    """
    pythons = dict(word.partition("=")[::2] for word in saved.python)
    for framework, path in interpreters.named.items():
        if pythons.setdefault(framework, str(path)) != str(path):
            raise _contradiction(name, "python", f"{framework}={pythons[framework]}", f"{framework}={path}")
    words = [f"{framework}={path}" for framework, path in pythons.items()]
    interpreters = Interpreters.parse(words, list(pythons))
    before = expanded(saved)
    if "frameworks" in given and set(given["frameworks"]) != set(before.frameworks):  # first: strategies are theirs
        raise _contradiction(name, "frameworks", before.frameworks, given["frameworks"])
    wanted = replace(saved, **given)
    check(wanted)
    wanted = resolved(wanted, machine, interpreters)
    after = expanded(wanted)
    for key in given:
        was, now = getattr(before, key), getattr(after, key)
        if not _agrees(key, was, now):
            raise _contradiction(name, key, was, now)
    changed = {key: getattr(wanted, key) for key in ("launches", "until", *ANEW, "python")}
    return replace(saved, **changed), interpreters


def _agrees(key: str, was: Any, now: Any) -> bool:
    if key == "launches":
        return bool(now >= was)
    if key == "until":
        return was is None or bool(now.of == was.of and now.within <= was.within)
    if key in (*ANEW, "python"):
        return True
    return set(was) == set(now) if isinstance(was, tuple) and isinstance(now, tuple) else bool(was == now)


def _contradiction(name: str, key: str, was: Any, now: Any) -> UsageError:
    more = {
        "launches": " It can only get more of them.",
        "until": " It can only get narrower, of the same figure.",
    }.get(key, "")
    return UsageError(
        f"{name} was started with {key} {shown(was)}, and {shown(now)} contradicts that.{more} "
        f"Leave it out, or start a new run."
    )
