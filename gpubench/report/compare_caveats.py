"""What the figures of a comparison do not say: most of it because of these very runs."""

from __future__ import annotations

from collections.abc import Iterator

from gpubench.analysis import draws
from gpubench.analysis.study import Study
from gpubench.report import compare_words
from gpubench.report.words import clean

MANY = 10  # comparisons, from which on one wrong interval among them is to be expected


def caveats(study: Study) -> list[str]:
    """What the figures do not say, most of it because of these very runs."""
    told = []
    if any(summary.case.device_kind == "cpu" for summary in study.summaries):
        told.append("These are CPU shares. Nothing here says how fast any GPU is.")
    unlike = sorted({name for pair in study.comparison.pairs for name in pair.unlike})
    if unlike:
        told.append(
            f"Some cases are not the same work ({', '.join(unlike)}): their ratio is marked, and holds that too."
        )
    software = {f.name for pair in study.comparison.pairs for f in pair.factors if f.kind in ("software", "condition")}
    software.discard("measured on")
    if software:
        told.append(f"Not only the machines differ: {', '.join(sorted(software))}. A ratio does not say which it is.")
    told += _verification_caveats(study)
    told += _energy_caveats(study)
    precisions = {
        total.side.name: ", ".join(dict.fromkeys(p.summary.case.precision for p in total.parts if p.summary))
        for total in study.totals
    }
    if len(set(precisions.values())) > 1:
        each = "; ".join(f"{name}: {used}" for name, used in precisions.items())
        told.append(f"The mix is done in other precision on one machine than on another ({each}).")
    told += [
        f"{part.withheld[0].case.id} on {total.side.name} has no number ({part.withheld[0].no_number}), so it was left "
        f"out where {part.work} was chosen from the cases that fit."
        for total in study.totals
        for part in total.parts
        if part.summary and part.withheld
    ]
    told += [compare_words.use_contradiction(total) for total in study.totals if total.contradicts]
    if any(price.purchase for price in study.prices.values()):
        told.append("A bought machine's electricity is that of the training: what it takes while idle is not in it.")
    if any(parts.fitting > 1 for total in study.totals for parts in total.parts):
        told.append("Where several cases fit a line of the mix, the fastest on that machine was taken; it is named.")
    judged = sum(pair.interval is not None for pair in study.comparison.pairs)
    if judged >= MANY:
        told.append(f"Of {judged} intervals of 95 % about {round(judged / 20) or 1} will miss the truth by chance.")
    doubted = sorted({check.name.replace("_", " ") for s in study.summaries for check in s.checks if s.launches})
    if doubted:
        told.append(f"There are doubts about some of the runs: {', '.join(doubted)}. Each run's own report says more.")
    told.append(
        "Intervals hold what varied between the launches of these runs: not other machines of the same model, "
        "and not other days."
    )
    return [clean(each) for each in told]


def _verification_caveats(study: Study) -> Iterator[str]:
    """Which cases lack the proof that each side did the same work."""
    rows = [(row, row.side.verification(row.summary)) for group in study.groups for row in group]
    lacking = sorted({row.side.name for row, shown in rows if shown == "not verified"})
    if lacking:
        yield (
            f"That the work is the same was not verified in the software of every case on {', '.join(lacking)} "
            "(`gpubench verify` there would show it)."
        )
    for row, shown in rows:
        if shown.startswith("failed"):
            yield f"{row.side.name}, {row.summary.case.id}: verification {shown}."


def _energy_caveats(study: Study) -> Iterator[str]:
    stated = [name for name, price in study.prices.items() if price.power_watts is not None]
    measured = [s.name for s in study.comparison.sides if any(draws.energy(c).value for c in s.summaries)]
    measured = [name for name in measured if name not in stated]
    if stated and measured:
        yield (
            f"Energy of {', '.join(stated)} is from a stated power of the whole machine, of {', '.join(measured)} it "
            "is measured of the devices alone: do not compare the two."
        )
    elif stated:
        yield f"Energy of {', '.join(stated)} is worked out from a stated power, not measured."
    elif measured:
        yield "Energy is of the devices alone: host, network and power supplies are not in it."
    lacking = [s.name for s in study.comparison.sides if s.name not in stated + measured]
    if lacking:
        yield f"Energy was not measured on {', '.join(lacking)}: the dash there is not a zero."
