"""What a training really holds and computes in, looked at between rounds: none of it is timed."""

from __future__ import annotations

import hashlib
from types import ModuleType
from typing import Any

from gpubench.spec.framework import Training
from gpubench.spec.messages import Inspected


class Watched:
    """A workload as strategies see it, which notes the models that it made and the types of its inputs."""

    def __init__(self, workload: Any) -> None:
        self._workload = workload
        self.models: list[Any] = []
        self.input_types: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workload, name)

    def model(self, *args: Any, **settings: Any) -> Any:
        made = self._workload.model(*args, **settings)
        self.models.append(made)
        return made

    def batch(self, *args: Any, **settings: Any) -> Any:
        inputs, labels = self._workload.batch(*args, **settings)
        self.input_types.add(type_name(inputs))
        return inputs, labels


def inspect(training: Training, device: ModuleType, watched: Watched, types: bool) -> Inspected:
    """Digest the first replica, and ask the framework for its types where `types` says so.

    A framework's `device.product_types(step, watched)` may run `step` once.
    """
    if not types:
        return Inspected(digest=digest(training.replicas()[0]))
    asked = getattr(device, "product_types", None)
    products = asked(training.step, watched) if asked else None
    replica = training.replicas()[0]  # after the step, if there was one
    return Inspected(
        digest=digest(replica),
        parameter_types=sorted({type_name(array) for array in replica}),
        input_types=sorted(watched.input_types),
        product_types=None if products is None else sorted(products),
        tf32=device.tf32() if hasattr(device, "tf32") else None,
        cpu_capability=device.cpu_capability() if hasattr(device, "cpu_capability") else None,
    )


def type_name(array: Any) -> str:
    """What any framework calls the type of an array's items, in NumPy's words: "float32"."""
    kind = array.dtype  # NumPy's and TensorFlow's types have a name, MXNet's are classes, PyTorch's print as one
    return getattr(kind, "name", None) or getattr(kind, "__name__", None) or str(kind).rpartition(".")[2]


def digest(replica: list[Any]) -> str:
    """A fingerprint of one replica's parameters, bit for bit."""
    sha = hashlib.sha256()
    for array in replica:
        sha.update(repr(tuple(array.shape)).encode())
        sha.update(array.tobytes())
    return sha.hexdigest()[:16]
