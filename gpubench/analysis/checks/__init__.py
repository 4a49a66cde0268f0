"""Every record is doubted. Each doubt has a severity and a remedy.

Doubts are of two kinds. *Equal work*: the launch did something other than the case says, in devices, samples, model
or training. One severe doubt of this kind, in any launch, takes the headline number of the case away: whatever went
wrong may have gone wrong unseen in the others. *Conditions*: the launch did the right work on a machine that was not
fit to measure. A severe one sets that launch aside; the case keeps its number while at least half of its launches
count.

What was not observed is not doubted: an absent value raises no alarm. Standard library only, so that the harness can
ask while it runs; `checks.series`, which sees launches and cases together, needs numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gpubench.analysis.checks import contradictions, environment, gpu, host, precision, telemetry, timing, work
from gpubench.analysis.checks.limits import EFFICIENCY_LIMIT, IMBALANCE_LIMIT, NOISE_LIMIT
from gpubench.spec.invariants import OF_SETTING, broken
from gpubench.spec.record import Check, RunRecord

__all__ = ["CONDITIONS", "EFFICIENCY_LIMIT", "IMBALANCE_LIMIT", "NOISE_LIMIT", "doubts", "sets_aside", "worst"]

Doubt = Callable[[RunRecord], Iterator[Check]]

GROUPS = (contradictions, work, precision, timing, host, environment, telemetry, gpu)
DOUBTS: tuple[Doubt, ...] = tuple(doubt for group in GROUPS for doubt in group.DOUBTS)
# These ask for nothing but a launch's setting: the case, machine, software, environment, devices and outcome.
OF_SETTING_ALONE: tuple[Doubt, ...] = (*environment.DOUBTS, host.unlike_devices)
MOST_SETTINGS = 1_000

# The doubts of the second kind that can be severe. Whatever is not named here is of the first: a doubt written by
# another version must not be taken for harmless.
CONDITIONS = frozenset(
    {
        "no_steady_state",
        "unlike_warm_up",
        "ranks_apart",
        "timing_cost",
        "stood_still",
        "foreign_load",
        "stolen_time",
        "cpu_throttled",
        "debug_environment",
        "debug_build",
        "swap",
        "device_shared",
        "device_joined",
        "throttled",
        "device_errors",
    }
)


def doubts(record: RunRecord) -> list[Check]:
    """The doubts about one launch that ended well; one that did not has no number to doubt."""
    if record.outcome.status != "ok":
        return []
    return [check for doubt in _to_ask(record) for check in doubt(record)]


# By the identity of a setting's parts, which are kept beside it: a reader of many records shares them.
_asked: dict[tuple[int, ...], tuple[tuple[Any, ...], list[Doubt]]] = {}


def _to_ask(record: RunRecord) -> list[Doubt]:
    """The doubts without those of which the setting, which many launches share, says that they find nothing."""
    parts = (record.case, record.machine, record.software, record.environment, record.devices, record.outcome)
    key = tuple(map(id, parts))
    known = _asked.get(key)
    if known is None:
        if len(_asked) >= MOST_SETTINGS:
            _asked.clear()
        known = _asked[key] = parts, list(_worth_asking(record))
    return known[1]


def _worth_asking(record: RunRecord) -> Iterator[Doubt]:
    on_cpu = record.case.device_kind == "cpu"
    for doubt in DOUBTS:
        if doubt is contradictions.launch and not broken(OF_SETTING, record):
            yield contradictions.in_its_setting
        elif not ((on_cpu and doubt in gpu.OF_GPUS) or (doubt in OF_SETTING_ALONE and not any(doubt(record)))):
            yield doubt


def worst(checks: Iterable[Check]) -> Check | None:
    """The first severe check, if any."""
    return next((check for check in checks if check.severity == "severe"), None)


def sets_aside(check: Check) -> bool:
    """Whether the check takes its launch away, and not the whole case."""
    return check.severity == "severe" and check.name in CONDITIONS
