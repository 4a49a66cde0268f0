"""What `gpubench list` says: every combination there is, and for each why it cannot run here where it cannot."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gpubench.harness import registry
from gpubench.harness.interpreters import Interpreters
from gpubench.spec.framework import Framework, Strategy
from gpubench.spec.workload import WORKLOADS


def as_json(word: str | None) -> str:
    strategies = [_entry(framework, strategy) for framework, strategy in _chosen(word)]
    workloads = [
        {"name": w.name, "summary": w.summary, "parameters": w.parameters, "macs_per_sample": w.macs_per_sample}
        for w in WORKLOADS.values()
    ]
    return json.dumps({"workloads": workloads, "strategies": strategies}, indent=2)


def as_text(word: str | None) -> str:
    """Plain aligned text: a table library would take longer to load than all the rest."""
    chosen = _chosen(word)
    lines = []
    if not word:
        lines.append("Workloads")
        lines += _aligned(
            (w.name, f"{w.parameters:,} parameters", f"{w.macs_per_sample / 1e6:,.4g} M MACs a sample", w.summary)
            for w in WORKLOADS.values()
        )
        lines.append("")
    lines.append("Strategies")
    entries = [_entry(framework, strategy) for framework, strategy in chosen]
    lines += _aligned(
        (
            f"{e['framework']}:{e['strategy']}",
            e["devices"],
            "ready" if e["reason"] is None else "not set up",
            e["summary"],
        )
        for e in entries
    )
    notes = [
        f"{e['framework']}:{e['strategy']} is refused on {_words(kind)}: {why}."
        for e in entries
        for kind, why in e["refused"].items()
    ]
    notes += [
        f"{e['framework']}:{e['strategy']} is what people also call {', '.join(e['aliases'])}."
        for e in entries
        if e["aliases"]
    ]
    notes += sorted({f"{e['framework']}: {e['reason']}." for e in entries if e["reason"]})
    if not word:
        notes.append("Which cases run on this machine, and which do not and why: `gpubench run --dry-run`.")
    return "\n".join([*lines, "", *notes])


def _chosen(word: str | None) -> list[tuple[Framework, Strategy]]:
    visible = [framework for framework in registry.frameworks().values() if not framework.hidden]
    if word is None:
        return [(framework, strategy) for framework in visible for strategy in framework.strategies]
    if word in WORKLOADS:
        visible = [framework for framework in visible if word in framework.workloads]
        return [(framework, strategy) for framework in visible for strategy in framework.strategies]
    if word in registry.frameworks():
        framework = registry.framework(word)
        return [(framework, strategy) for strategy in framework.strategies]
    return registry.strategies_named(word, visible)


def _entry(framework: Framework, strategy: Strategy) -> dict[str, Any]:
    interpreters = Interpreters()
    return {
        "framework": framework.name,
        "strategy": strategy.name,
        "summary": strategy.summary,
        "workloads": list(framework.workloads),
        "devices": "1 device" if strategy.max_devices == 1 else "1, 2, …",
        "processes": "one a device" if strategy.processes == "per_device" else "one",
        "refused": dict(strategy.refused),
        "aliases": list(strategy.aliases),
        "reason": None if interpreters.find(framework) else interpreters.lacking(framework),
    }


def _aligned(rows: Iterable[tuple[str, ...]]) -> list[str]:
    table = list(rows)
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return [
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip() for row in table
    ]


def _words(kind: str) -> str:
    return "CPU shares" if kind == "cpu" else "GPUs"
