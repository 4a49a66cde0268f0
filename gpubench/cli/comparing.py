"""What `gpubench compare` does: runs, folders and bundles from anywhere, read as the sides of one comparison.

Files are enough: no GPU, no driver and no framework is looked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpubench.analysis.compare import Pair, compare, side_of, slower_than
from gpubench.analysis.study import Study, study
from gpubench.cli import buying
from gpubench.files import reading
from gpubench.files.reading import Read
from gpubench.files.untrusted import inert
from gpubench.report.compare_html import Source
from gpubench.report.compare_tables import as_dict
from gpubench.spec.errors import UsageError


@dataclass(frozen=True)
class Compared:
    """The comparison, and where each side's figures come from."""

    study: Study
    sources: dict[str, Source]

    @property
    def warnings(self) -> list[str]:
        return [warning for source in self.sources.values() for warning in source.warnings]


def run(words: Sequence[str], results: Path, prices: Path | None = None, mix: Path | None = None) -> Compared:
    """`words` are as on the command line, the reference first. UsageError where they cannot be compared."""
    if len(words) < 2:
        raise UsageError("Comparing takes two runs, folders or bundles, or more.")
    loaded = [reading.runs_of(word, results) for word in words]
    try:
        return _compared(_labels(words, loaded), loaded, prices, mix)
    except UsageError as error:
        raise UsageError(inert(str(error))) from error  # it names cases and machines as the files have them


def _compared(
    labels: Sequence[str], loaded: Sequence[Sequence[Read]], prices: Path | None, mix: Path | None
) -> Compared:
    sides, sources = [], {}
    for name, found in zip(labels, loaded, strict=True):
        runs = [one.run for one in found]
        verifications = [each for one in found for each in one.verifications]
        sides.append(side_of(name, [record for one in runs for record in one.records], verifications))
        warnings = tuple(f"{name}: {warning}" for one in runs for warning in one.warnings)
        sources[name] = Source(name, tuple(one.path.name for one in runs), warnings)
    made = study(
        compare(sides),
        buying.read_prices(prices, sides) if prices else None,
        buying.read_mix(mix, sides) if mix else (),
    )
    return Compared(made, sources)


def as_json(compared: Compared) -> str:
    return json.dumps(as_dict(compared.study), indent=2, allow_nan=False)


def too_slow(compared: Compared, limit: float) -> list[Pair]:
    """The cases that are slower than the reference by more than `limit`, as sure as their whole interval."""
    return slower_than(compared.study.comparison.pairs, limit)


def _labels(words: Sequence[str], loaded: Sequence[Sequence[Read]]) -> list[str]:
    """What each side is called: its run's name, or its folder's; with more of the path where two would be the same."""
    short = [_label(word, runs) for word, runs in zip(words, loaded, strict=True)]
    longer = [
        f"{_parent(word, runs)}/{name}" if short.count(name) > 1 else name
        for word, runs, name in zip(words, loaded, short, strict=True)
    ]
    return [
        f"{name} ({longer[: index + 1].count(name)})" if longer.count(name) > 1 else name
        for index, name in enumerate(longer)
    ]


def _label(word: str, runs: Sequence[Read]) -> str:
    return Path(word).resolve().name if Path(word).is_dir() else runs[0].run.name.removesuffix(reading.BUNDLE_SUFFIX)


def _parent(word: str, runs: Sequence[Read]) -> str:
    path = Path(word) if Path(word).is_dir() else runs[0].run.path
    return path.resolve().parent.name
