"""What `gpubench compare` does: runs, folders and bundles from anywhere, read as the sides of one comparison.

Files are enough: no GPU, no driver and no framework is looked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gpubench.analysis.compare import compare, side_of
from gpubench.analysis.gate import Gate, Kind, gate
from gpubench.analysis.study import Study, study
from gpubench.cli import buying
from gpubench.files import reading, reducing
from gpubench.files.reading import Read
from gpubench.files.reducing import ReducedRun
from gpubench.files.untrusted import inert
from gpubench.report.compare_tables import as_dict
from gpubench.report.compare_words import Source
from gpubench.spec.errors import UsageError

WORDS: dict[Kind, str] = {"slower": "slower", "not_slower": "not slower", "not_resolved": "not resolved"}


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
    loaded = [reading.runs_of(word, results, reducing.load) for word in words]
    try:
        return _compared(_labels(words, loaded), loaded, prices, mix)
    except UsageError as error:
        raise UsageError(inert(str(error))) from error  # it names cases and machines as the files have them


def _compared(
    labels: Sequence[str], loaded: Sequence[Sequence[Read[ReducedRun]]], prices: Path | None, mix: Path | None
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


def as_json(compared: Compared, found: Gate | None = None) -> str:
    """The comparison, and what the gate found where there was one."""
    made = as_dict(compared.study)
    if found is not None:
        made["gate"] = {"limit": found.limit, "verdict": found.kind, "cases": [asdict(each) for each in found.judged]}
    return json.dumps(made, indent=2, allow_nan=False)


def judge(compared: Compared, limit: float) -> Gate:
    """Whether any case is slower than the reference by more than `limit`, a fraction."""
    return gate(compared.study.comparison, limit)


def gate_lines(found: Gate) -> list[str]:
    """The gate's answer for standard error: a line for each case that is slower, not resolved or new, and the sum."""
    limit = f"{100 * found.limit:g}%"
    told = []
    for each in found.of("slower"):
        assert each.interval is not None
        low, high = 100 * (1 - each.interval.high), 100 * (1 - each.interval.low)
        told.append(f"{each.side}, {each.case}: slower by {low:.1f} % to {high:.1f} %, more than {limit} allows")
    told += [f"{each.side}, {each.case}: not resolved: {each.reason}" for each in found.of("not_resolved")]
    told += [f"{side}, {case}: new, so there is nothing to compare it with" for side, case in found.new]
    counts = [f"{len(found.of(kind))} {WORDS[kind]}" for kind in WORDS]
    return [inert(each) for each in (*told, f"gate at {limit}: {', '.join(counts)}")]


def _labels(words: Sequence[str], loaded: Sequence[Sequence[Read[ReducedRun]]]) -> list[str]:
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


def _label(word: str, runs: Sequence[Read[ReducedRun]]) -> str:
    return Path(word).resolve().name if Path(word).is_dir() else runs[0].run.name.removesuffix(reading.BUNDLE_SUFFIX)


def _parent(word: str, runs: Sequence[Read[ReducedRun]]) -> str:
    path = Path(word) if Path(word).is_dir() else runs[0].run.path
    return path.resolve().parent.name
