"""Whether two trainings were the same work, as far as float32 can tell. Pure: arrays and numbers in, findings out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from gpubench.spec.verification import Finding
from gpubench.spec.workload import Layer

Array = NDArray[np.float32]

# A parameter that training hardly moves shows float32's rounding of itself (6e-8) and little else.
LEAST_MOVEMENT = 1e-3


def equal(name: str, found: object, expected: object, source: str) -> Finding:
    """Two things that are the same or are not."""
    passed = found == expected
    message = f"{found}, as {source}" if passed else f"{found}, not {expected} as {source}"
    return Finding(name=name, passed=passed, message=message)


def agreement(name: str, values: Mapping[str, float | None], tolerance: float) -> dict[str, Finding]:
    """One number of several frameworks: each is held against the median of those that have one.

    With two, neither can be said to be right: both fail where they differ.
    """
    known = [value for value in values.values() if value is not None]
    middle = median(known) if known else math.nan
    findings = {}
    for framework, value in values.items():
        if value is None:
            findings[framework] = Finding(name=name, passed=False, message="is not a finite number")
            continue
        error = abs(value - middle) / abs(middle) if middle else abs(value)
        others = ", ".join(f"{other} {v:.7g}" for other, v in values.items() if other != framework and v is not None)
        findings[framework] = Finding(
            name=name,
            passed=error <= tolerance,
            message=f"{value:.7g}" + (f"; {others}" if others else ""),
            error=error,
            tolerance=tolerance,
        )
    return findings


def close(name: str, found: float | None, expected: float | None, tolerance: float) -> Finding:
    """A number against the reference's."""
    if found is None or expected is None:
        return Finding(name=name, passed=False, message="is not a finite number")
    error = abs(found - expected) / abs(expected) if expected else abs(found)
    message = f"{found:.7g}, the reference {expected:.7g}"
    return Finding(name=name, passed=error <= tolerance, message=message, error=error, tolerance=tolerance)


def weights(
    replicas: Sequence[Sequence[Array]],
    reference: Sequence[Array],
    start: Sequence[Array],
    names: Sequence[str],
    tolerance: float,
) -> Finding:
    """Where the replicas' parameters ended, against where the reference's did.

    The error of a parameter is the distance between the two ends over the distance that the reference went:
    |found - reference| / |reference - start|, in 2-norms. The worst parameter of the worst replica counts: a single
    layer that was left out of the exchange must not hide among the others.
    """
    shapes = [[array.shape for array in parameters] for parameters in (*replicas, reference, start)]
    if any(one != shapes[0] for one in shapes) or not replicas:
        return Finding(
            name="weights", passed=False, message="the parameters are not the reference's in number or shape"
        )
    errors = [
        (_error(found, expected, began), replica, index)
        for replica, parameters in enumerate(replicas)
        for index, (found, expected, began) in enumerate(zip(parameters, reference, start, strict=True))
    ]
    error, replica, index = max(errors, key=lambda each: each[0])
    if math.isinf(error):
        message = f"replica {replica}, {names[index]}: not a finite number"
        return Finding(name="weights", passed=False, message=message, tolerance=tolerance)
    passed = error <= tolerance
    message = f"{100 * error:.3g} % off in {names[index]}" + (f" of replica {replica}" if len(replicas) > 1 else "")
    if not passed:
        message += f"; all in all it went {_relative_way(replicas[replica], reference, start):.2f} times as far"
    return Finding(name="weights", passed=passed, message=message, error=error, tolerance=tolerance)


def parameter_names(layers: Sequence[Layer], shapes: Sequence[tuple[int, ...]]) -> list[str]:
    """`stem kernel`, `stem scale`, `stem shift`, …, `head kernel`, `head bias`: from neutral shapes, layer by layer."""
    names: list[str] = []
    rest: list[str] = []
    remaining = iter(layers)
    for shape in shapes:
        if len(shape) > 1:
            layer = next(remaining).name
            names.append(f"{layer} kernel")
            rest = [f"{layer} scale", f"{layer} shift"] if len(shape) == 4 else [f"{layer} bias"]
        else:
            names.append(rest.pop(0))
    return names


def _error(found: Array, expected: Array, start: Array) -> float:
    if not (np.isfinite(found).all() and np.isfinite(expected).all()):
        return math.inf
    movement = max(_norm(expected - start), LEAST_MOVEMENT * _norm(expected))
    distance = _norm(found - expected)
    return distance / movement if movement else (0.0 if distance == 0 else math.inf)


def _relative_way(found: Sequence[Array], expected: Sequence[Array], start: Sequence[Array]) -> float:
    """How far the whole net went, over how far the reference did: near n, sums were taken for means; near 1/n, twice
    divided.
    """
    way = math.hypot(*(_norm(a - b) for a, b in zip(found, start, strict=True)))
    reference_way = math.hypot(*(_norm(a - b) for a, b in zip(expected, start, strict=True)))
    return way / reference_way if reference_way else math.inf


def _norm(array: Array) -> float:
    return float(np.linalg.norm(array.astype(np.float64)))
