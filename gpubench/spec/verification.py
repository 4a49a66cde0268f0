"""What `gpubench verify` found: whether a framework's model, or a strategy on n devices, does the work that it should.

The JSON has the same names, one verification a file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field

from gpubench.spec.case import DeviceKind

SCHEMA = 1

# What must have been compared for a verification to prove something: of a framework's model, and of a strategy.
OF_MODEL = frozenset({"parameters", "multiply-adds", "loss"})
OF_STRATEGY = frozenset({"world size", "samples a step", "replicas", "first loss", "weights"})


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One comparison. `error` is relative, and passes up to `tolerance`; None where equal or not is all there is."""

    name: str
    passed: bool
    message: str
    error: float | None = None
    tolerance: float | None = None

    @property
    def contradicts_itself(self) -> bool:
        """Whether it passed beyond its tolerance, failed within it, or has one figure without the other."""
        if self.error is None or self.tolerance is None:
            return (self.error is None) is not (self.tolerance is None)
        return self.passed is not (0 <= self.error <= self.tolerance < 1)


@dataclass(frozen=True, kw_only=True)
class Verification:
    """One framework's model of a workload (`strategy` is None), or one strategy on n devices.

    `software` holds the versions, and a digest of the framework folder's source as `source`: a record is covered where
    its software says the same.
    """

    schema: int = SCHEMA
    workload: str
    framework: str
    strategy: str | None
    device_kind: DeviceKind
    n_devices: int
    software: dict[str, str]
    compared_with: list[str] = field(default_factory=list)
    verified_at: str  # ISO 8601, UTC
    findings: list[Finding] = field(default_factory=list)

    @property
    def proves_nothing(self) -> str | None:
        """Why it covers no record, None where it may.

        It names no software, so that it would fit all; its findings contradict themselves, are of one name, or leave
        out what must be compared; or a model is said to be one on several devices.
        """
        names = [finding.name for finding in self.findings]
        if not self.software.get("source") or not self.software.keys() - {"source", "gpubench", "python"}:
            return f"it does not name the code and the version of {self.framework} that it is of"
        if contradictory := [finding.name for finding in self.findings if finding.contradicts_itself]:
            return f"its error, tolerance and verdict contradict each other: {', '.join(contradictory)}"
        if len(set(names)) != len(names):
            return "it has two findings of one name"
        lacking = (OF_MODEL if self.strategy is None else OF_STRATEGY).difference(names)
        if self.passed and lacking:
            return f"it passed, and did not compare {', '.join(sorted(lacking))}"
        if self.n_devices < 1 or (self.strategy is None and self.n_devices != 1):
            return f"it is on {self.n_devices} devices"
        return None

    @property
    def passed(self) -> bool:
        return bool(self.findings) and all(finding.passed for finding in self.findings)

    @property
    def failures(self) -> list[Finding]:
        return [finding for finding in self.findings if not finding.passed]

    @property
    def fingerprint(self) -> str:
        """The same for the same subject in the same environment, so that a later verification replaces an earlier."""
        subject = [self.workload, self.framework, self.strategy, self.device_kind, self.n_devices]
        return hashlib.sha256(json.dumps([subject, sorted(self.software.items())]).encode()).hexdigest()[:16]


def to_json(verification: Verification) -> str:
    return json.dumps(dataclasses.asdict(verification), allow_nan=False, indent=2) + "\n"
