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


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One comparison. `error` is relative, and passes up to `tolerance`; None where equal or not is all there is."""

    name: str
    passed: bool
    message: str
    error: float | None = None
    tolerance: float | None = None


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
