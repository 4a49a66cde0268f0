"""Weights and samples in a form that is no framework's own, so that all of them can be given the same.

One NumPy archive holds the trainable parameters in the order of the workload's layers, and samples by global index.
Dense weights are (inputs, outputs), convolutions (height, width, inputs, outputs), images (N, height, width, channels).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpubench.spec.case import Case

Array = NDArray[np.float32]

# Adam divides a gradient by its own size, which would hide a gradient of the wrong scale. With an epsilon as large as
# gradients are, it feels their scale, and rounding in the smallest of them does not decide an update's sign.
ADAM_EPSILON = 0.01


class Samples:
    """The weights that a model is to start from, and the samples that its batches are to hold."""

    def __init__(self, case: Case, file: str) -> None:
        with np.load(file) as archive:
            self.weights = read_arrays(archive, "weight")
            self._inputs: Array = archive["inputs"]
            self._labels_N: NDArray[np.int32] = archive["labels"]
        self._seed = case.seed

    def batch(self, samples: int, seed: int) -> tuple[Array, NDArray[np.int32]]:
        """The batch that a strategy asks for with `seed`: `case.seed` means the first so many samples, one more the
        next so many. IndexError where there are not as many.
        """
        first = (seed - self._seed) * samples
        if first < 0 or first + samples > len(self._labels_N):
            raise IndexError(
                f"samples {first} to {first + samples - 1} were asked for; the global batch has {len(self._labels_N)}"
            )
        return self._inputs[first : first + samples], self._labels_N[first : first + samples]


def fitted(weights: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> Sequence[Array]:
    """The weights, once it is sure that a model has arrays of these neutral shapes. ValueError where it has not."""
    given = [array.shape for array in weights]
    wanted = [tuple(shape) for shape in shapes]
    if given != wanted:
        at = next(
            (i for i, (a, b) in enumerate(zip(given, wanted, strict=False)) if a != b), min(map(len, (given, wanted)))
        )
        raise ValueError(
            f"the given weights do not fit: {len(given)} arrays for {len(wanted)}; array {at} is "
            f"{given[at : at + 1]}, the model's {wanted[at : at + 1]}"
        )
    return weights


def random_weights(
    shapes: Iterable[tuple[int, ...]], seed: int, convolution: float = 1.0, scale: float = 1.0, shift: float = 0.0
) -> list[Array]:
    """Weights that let a signal through a net unchanged, with no two alike, so that no two can be mistaken.

    Kernels are normal with variance 2 / fan-in (He et al. 2015, arXiv 1502.01852); those of convolutions times
    `convolution`, which the batch norm behind them takes back. A batch norm's scales are near `scale`; its shifts and
    all biases are near `shift`.
    """
    generator = np.random.default_rng(seed)
    weights = []
    around = shift
    for shape in shapes:
        noise = generator.standard_normal(shape, dtype=np.float32)
        if len(shape) > 1:
            is_convolution = len(shape) == 4
            size = (2 / np.prod(shape[:-1])) ** 0.5 * (convolution if is_convolution else 1.0)
            weights.append(noise * np.float32(size))
            around = scale if is_convolution else shift  # a convolution has a batch norm behind it
        else:
            weights.append(np.float32(0.1) * noise + np.float32(around))
            around = shift
    return weights


def random_samples(count: int, shape: tuple[int, ...], classes: int, seed: int) -> tuple[Array, NDArray[np.int32]]:
    """Inputs of shape (N, *shape) and labels of shape (N,).

    Each sample has a brightness and a contrast of its own, so that it matters which samples a batch norm sees together.
    """
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((count, *shape), dtype=np.float32)
    of_each = (count,) + (1,) * len(shape)
    inputs = noise * generator.uniform(0.5, 2, of_each) + generator.standard_normal(of_each)
    return inputs.astype(np.float32), generator.integers(classes, size=count, dtype=np.int32)


def write_given(file: Path, weights: Sequence[Array], inputs: Array, labels_N: NDArray[np.int32]) -> None:
    named = {f"weight{index}": array for index, array in enumerate(weights)}
    np.savez(file, inputs=inputs, labels=labels_N, **named)  # type: ignore[arg-type]


def write_replicas(file: Path, replicas: Sequence[Sequence[Array]]) -> None:
    """One file a rank, with the parameters of each replica that the rank holds."""
    named = {f"replica{r}.{index}": array for r, replica in enumerate(replicas) for index, array in enumerate(replica)}
    np.savez(file, **named)  # type: ignore[arg-type]


def read_replicas(file: Path) -> list[list[Array]]:
    with np.load(file) as archive:
        count = len({name.partition(".")[0] for name in archive.files})
        return [read_arrays(archive, f"replica{r}.") for r in range(count)]


def read_arrays(archive: np.lib.npyio.NpzFile, prefix: str) -> list[Array]:
    names = [name for name in archive.files if name.startswith(prefix)]
    return [archive[f"{prefix}{index}"] for index in range(len(names))]
