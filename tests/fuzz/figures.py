"""Every number of a record, changed as somebody might change it, and what is then told of its launch."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from gpubench.analysis.reduced import Reduced, reduced
from gpubench.files import store
from gpubench.spec.record import RunRecord, to_json

FACTORS = (0, 0.2, 0.5, 0.95, 1.05, 2, 100)
NONE, REMOVED = "set to null", "removed"
CHANGES: tuple[Any, ...] = (*FACTORS, NONE, REMOVED)
Where = slice
FIRST, LAST, EVERYWHERE = slice(0, 1), slice(-1, None), slice(None)
Place = tuple[Any, ...]  # of a field in a record's JSON: keys and indices from its root


def numbers(value: Any, place: Place = ()) -> Iterator[tuple[str, Place]]:
    """Each field that holds a number, or several, as "Class.field", with its place."""
    if dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            item = getattr(value, each.name)
            if _holds_numbers(item):
                yield f"{type(value).__name__}.{each.name}", (*place, each.name)
            else:
                yield from numbers(item, (*place, each.name))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from numbers(item, (*place, index))


def _holds_numbers(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(map(_holds_numbers, value.values()))
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_holds_numbers, value))
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def variants(record: RunRecord) -> Iterator[RunRecord]:
    """What can be read of it once one field is changed, in all of its places or in one."""
    line = to_json(record)
    places: dict[str, list[Place]] = defaultdict(list)
    for name, place in numbers(record):
        places[name].append(place)
    for each, change, where in itertools.product(places.values(), CHANGES, (FIRST, LAST, EVERYWHERE)):
        changed = json.loads(line)
        for place in each[where]:
            _change(changed, place, change)
        with contextlib.suppress(ValueError):
            yield store.decode(json.dumps(changed))


class Launch:
    """An honest one. `places` are those of its numbers, by field: in the JSON that `changed` changes."""

    def __init__(self, record: RunRecord) -> None:
        self._line = to_json(record)
        self._honest = self._told(store.decode(self._line))
        self.places: dict[str, list[Place]] = defaultdict(list)
        for name, place in numbers(record):
            self.places[name].append(place)

    def changed(self, changes: dict[str, Any], where: Where = EVERYWHERE) -> str | None:
        """What is told otherwise without a mark once fields were changed so, in all places of each, or in one."""
        record = json.loads(self._line)
        for name, change in changes.items():
            for place in self.places[name][where]:
                _change(record, place, change)
        try:
            read = store.decode(json.dumps(record))
        except ValueError:
            return None
        figures, marks = self._told(read)
        honest, honest_marks = self._honest
        if marks - honest_marks or figures["rate"] is None:
            return None
        unlike = [name for name in honest if not (_is_gone(figures[name]) or _alike(figures[name], honest[name]))]
        return ", ".join(unlike) or None

    @staticmethod
    def _told(record: RunRecord) -> tuple[dict[str, Any], set[tuple[str, str]]]:
        found = reduced(record)
        return _figures(found), {(check.name, check.severity) for check in found.checks}


def _figures(found: Reduced) -> dict[str, Any]:
    used, timed = found.used, found.timed
    return {
        "case": [found.case.id, found.case.n_devices, found.case.global_batch],
        "rate": None if timed is None else timed.samples_per_second,
        "rates of rounds": None if timed is None else timed.rates,
        "busy": list(used.utilization_percent),
        "power": list(used.power_watts),
        "clock": list(used.sm_clock_mhz),
        "memory": used.memory_used_bytes,
        "process's memory": used.peak_memory_bytes,
        "energy": used.joules_per_sample,
        "first step": found.first_step_seconds,
        "sampling": found.slowdown,
        "power limits": list(found.power_limits_watts),
        "parameters": found.parameters,
        "sampler": found.cost,
    }


def _change(record: Any, place: Place, change: Any) -> None:
    *way, last = place
    for key in way:
        record = record[key]
    if change == REMOVED:
        record.pop(last, None)
    else:
        record[last] = None if change == NONE else _times(record[last], change)


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, dict):
        return {key: _times(item, factor) for key, item in value.items()}
    if isinstance(value, list):
        return [_times(item, factor) for item in value]
    return value * factor if isinstance(value, float) else round(value * factor)


def _is_gone(figure: Any) -> bool:
    return figure is None or figure == []


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(one == other)
