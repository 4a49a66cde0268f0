"""A model that is a number of parameters: as many as the workload says, unless told otherwise."""

from __future__ import annotations

from typing import Any

from gpubench.frameworks.fake.device import BEHAVIOUR
from gpubench.spec.case import Case
from gpubench.spec.workload import WORKLOADS


class Parameters:
    """As much of an array as the worker asks for: a size, a shape, a type and bytes."""

    def __init__(self, size: int, values: bytes) -> None:
        self.size = size
        self.dtype = BEHAVIOUR.get("parameter_type", "float32")
        self.shape = (size,)
        self._values = values

    def tobytes(self) -> bytes:
        return self._values


def model(case: Case, replica: int, updates: int) -> list[Any]:
    """The parameters after so many updates: others after each."""
    drift = replica if BEHAVIOUR.get("drift") else 0
    size = BEHAVIOUR.get("parameters", WORKLOADS[case.workload].parameters)
    return [Parameters(size, f"{drift} {updates}".encode())]
