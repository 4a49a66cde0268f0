"""What `gpubench verify` found: whether a framework's model, or a strategy on n devices, does the work that it should.

The JSON has the same names, one verification a file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from gpubench.spec.case import Case, DeviceKind

SCHEMA = 1

# Published figures: torchvision's ResNet-50 weights name 25,557,032 parameters and 4.09 G multiply-adds.
PUBLISHED = {"resnet50": (25_557_032, 4.09e9)}
REFERENCE_NAME = "reference"  # what every strategy is compared with


def tolerances(workload: str) -> dict[str, float]:
    """How far each finding may be off, relative; one that is not named is equal or not.

    Frameworks add up in different orders: the last of float32's 24 bits differ, and each layer hands that on. Seen, in
    ResNet-50: 3e-6 in the loss, 9e-4 in the gradient's norm. On n devices and on one the same kernels see the same
    batches; what differs is the order in which n gradients are added. Where a net has ReLUs behind convolutions, that
    rounding closes or opens one of many thousand of them now and then, and a small gradient of a layer differs: seen
    are 5e-5, and 1.1 % at worst over many seeds. A perceptron has few.
    """
    return {
        "loss": 1e-4,
        "first loss": 1e-4,
        "gradient norm": 5e-3,
        "published multiply-adds": 1e-3,
        "weights": 0.001 if workload == "mlp" else 0.02,
    }


def must_compare(workload: str, strategy: str | None, compared_with: Collection[str]) -> set[str]:
    """The findings without which nothing is proved: of a framework's model (`strategy` is None), or of a strategy."""
    if strategy is not None:
        return {"world size", "samples a step", "replicas", "first loss", "weights"}
    names = {"parameters", "multiply-adds", "loss"}
    if workload in PUBLISHED:
        names |= {"published parameters", "published multiply-adds"}
    return names | {"gradient norm"} if compared_with else names


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One comparison. `error` is relative, and passes up to `tolerance`; None where equal or not is all there is.

    `message` is for people, and decides nothing.
    """

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

    def is_of(self, case: Case, software: Mapping[str, str]) -> bool:
        """Whether that is what it is about: a launch of the case in that software."""
        same = (self.workload, self.framework, self.device_kind) == (case.workload, case.framework, case.device_kind)
        if self.strategy is not None:
            same &= (self.strategy, self.n_devices) == (case.strategy, case.n_devices)
        return same and self.software.items() <= software.items()

    @property
    def proves_nothing(self) -> str | None:
        """Why it covers no record, None where it may.

        It may come from anywhere, so it is held to what `gpubench verify` compares and to its tolerances.
        """
        names = [finding.name for finding in self.findings]
        if not self.software.get("source") or not self.software.keys() - {"source", "gpubench", "python"}:
            return f"it does not name the code and the version of {self.framework} that it is of"
        if not names:
            return "it compared nothing"
        if unsound := [finding.name for finding in self.findings if not self._is_sound(finding)]:
            return f"error, tolerance and verdict are not those of gpubench: {', '.join(unsound)}"
        if len(set(names)) != len(names):
            return "it has two findings of one name"
        lacking = must_compare(self.workload, self.strategy, self.compared_with).difference(names)
        if self.passed and lacking:
            return f"it passed, and did not compare {', '.join(sorted(lacking))}"
        if self.n_devices < 1 or (self.strategy is None and self.n_devices != 1):
            return f"it is on {self.n_devices} devices"
        if self.strategy is None and self.framework in self.compared_with:
            return f"it compares {self.framework} with itself"
        if self.strategy is not None and self.compared_with != [REFERENCE_NAME]:
            return "it does not compare the strategy with the reference"
        if not _may_be_a_date(self.verified_at):
            return "it has no date of ISO 8601 with its offset, or one that is still to come"
        return None

    def _is_sound(self, finding: Finding) -> bool:
        """Whether the verdict is what the figures say, within gpubench's own tolerance.

        What is equal or not has no figures, nor has the loss where there was no framework to compare it with. What
        failed need not have any: a loss that is not finite has no error.
        """
        limit = tolerances(self.workload).get(finding.name)
        if finding.name == "loss" and not self.compared_with:
            limit = None
        if finding.error is None:
            return not finding.passed or (limit is None and finding.tolerance is None)
        if limit is None or finding.tolerance is None or not finding.tolerance <= limit:
            return False
        return finding.error >= 0 and finding.passed is (finding.error <= finding.tolerance)

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


def _may_be_a_date(text: str) -> bool:
    """Whether it is a date with its offset, and not over a day ahead of this machine's clock."""
    try:
        return datetime.fromisoformat(text) <= datetime.now(UTC) + timedelta(days=1)
    except (TypeError, ValueError, OverflowError):  # TypeError: it has no offset
        return False


def to_json(verification: Verification) -> str:
    return json.dumps(dataclasses.asdict(verification), allow_nan=False, indent=2) + "\n"
