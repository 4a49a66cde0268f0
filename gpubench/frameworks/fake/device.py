"""A device that takes the time it is told to, on a clock that moves only with its steps.

Ranks begin a round together, as the order to all of them comes when the last is ready: between rounds the clock of a
rank that was done sooner goes on to when the slowest was done.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from gpubench.spec.case import Case, Place

BEHAVIOUR: dict[str, Any] = json.loads(os.environ.get("GPUBENCH_FAKE", "{}"))
REAL_TIME: bool = BEHAVIOUR.get("real_time", False)
_gang_ns: int | None = None  # when the slowest rank has done all that it was told to
_now_ns = 0
_worked_ns = 0
_busy_cores = 1
_is_over = False  # the round: the next time that is read is that of its end


def monotonic_ns() -> int:
    """The worker's clock: it begins with the node's at the first order and then moves by whole steps only."""
    global _gang_ns, _now_ns, _is_over
    if REAL_TIME:
        return time.monotonic_ns()
    if _gang_ns is None:
        _gang_ns = time.monotonic_ns()
    if not _is_over:
        _now_ns = _gang_ns
    _is_over = False
    return _now_ns


def process_seconds() -> float:
    """As if every device kept one core busy."""
    return _worked_ns * _busy_cores / 1e9


def advance(seconds: float, slowest_seconds: float) -> None:
    """Take `seconds` for a step that takes the slowest rank of the gang `slowest_seconds`."""
    global _gang_ns, _now_ns, _worked_ns
    _now_ns += round(seconds * 1e9)
    _worked_ns += round(seconds * 1e9)
    _gang_ns = (_gang_ns or 0) + round(slowest_seconds * 1e9)
    if REAL_TIME:
        time.sleep(seconds)


def _step_back(seconds: float) -> None:
    """As no monotonic clock should."""
    global _gang_ns, _now_ns
    _now_ns -= round(seconds * 1e9)
    _gang_ns = (_gang_ns or 0) - round(seconds * 1e9)


def take(case: Case, place: Place) -> None:
    global _busy_cores
    _busy_cores = len(place.devices)
    if seen := [name for name in BEHAVIOUR.get("refuse_variables", []) if name in os.environ]:
        raise RuntimeError(f"these variables reached the worker: {', '.join(seen)}")
    misbehave(place, "start", 0)


def wait(result: object) -> None:
    global _is_over
    _is_over = True


def product_types(step: object, watched: object) -> set[str]:
    return set(BEHAVIOUR.get("product_types", ["float32"]))


def observed(place: Place) -> list[str]:
    return [device.id for device in place.devices]


def versions() -> dict[str, str]:
    return {"fake": "1"}


def is_out_of_memory(error: BaseException) -> bool:
    return "fake memory is full" in str(error)


def peak_memory() -> tuple[int | None, str]:
    return 1 << 20, "process"


def discover() -> dict[str, Any]:
    return {"version": "1", "gpus": [], "details": {"devices": "as many as asked for"}}


def misbehave(place: Place, phase: str, steps_done: int) -> None:
    """Do what `GPUBENCH_FAKE` asks of this rank in this phase."""
    wanted = BEHAVIOUR.get("misbehave")
    if not wanted or wanted.get("rank", 0) != place.rank or wanted["phase"] != phase:
        return
    if steps_done < wanted.get("after_steps", 0):
        return
    how = wanted["how"]
    if how == "die":
        os.kill(os.getpid(), 9)
    elif how == "exit":
        os._exit(wanted.get("code", 3))
    elif how == "stop":
        os.kill(os.getpid(), 19)
    elif how == "hang":
        time.sleep(3600)
    elif how == "raise":
        raise RuntimeError(wanted.get("message", "the fake framework was told to fail"))
    elif how == "out_of_memory":
        raise RuntimeError("fake memory is full")
    elif how == "allocate":
        wanted["kept"] = bytearray(1 << 50)
    elif how == "flood":
        wanted["how"] = "done"
        for _ in range(wanted.get("megabytes", 8)):
            print("x" * (1 << 20), flush=True)
    elif how == "clock_back":
        wanted["how"] = "done"
        _step_back(3600)
    elif how == "signal":
        os.kill(os.getpid(), wanted["signal"])
    elif how == "fork":
        wanted["how"] = "done"
        if os.fork() == 0:
            time.sleep(3600)
            os._exit(0)
