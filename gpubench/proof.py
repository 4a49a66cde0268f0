"""The trainings that prove equal work, and what their results say: each framework's model, and each strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from gpubench.analysis import equality
from gpubench.frameworks import neutral
from gpubench.harness.plan import Runnable
from gpubench.harness.verify import REFERENCE, Subject, Trained, Trial, train
from gpubench.spec.record import Outcome
from gpubench.spec.verification import PUBLISHED, Finding, Verification, tolerances
from gpubench.spec.workload import WORKLOADS, Workload

STEPS = 3  # the second sees what the first left in the optimizer, the third what the second did
SEED = 1
PER_DEVICE_BATCH = {"mlp": 64, "resnet20": 8, "resnet50": 2}
# Small outputs of convolutions make a batch norm's epsilon count: one of 1e-3 instead of 1e-5 is another model.
SMALL = {"convolution": 0.1}
# Open ReLUs (pre-activations 0.3 wide around 1) make training steps on n devices and on one comparable: of those that
# stand near zero, rounding would open or close some, and their gradients with them.
OPEN = {"scale": 0.3, "shift": 1.0}


class Bench:
    """The given files, the references' results, and the trainings that are held against them."""

    def __init__(
        self, scratch: Path, models: Sequence[str], runnable: Sequence[Runnable], say: Callable[[str], None]
    ) -> None:
        self.scratch = scratch
        self.workloads = models
        self.runnable = runnable
        self.say = say
        self.frameworks = {one.framework.name: one for one in runnable}
        self.references: dict[tuple[str, str, int], Trained | Outcome] = {}
        self.software: dict[str, dict[str, str]] = {}
        self.exports = 0

    def models(self) -> list[Verification]:
        """Each framework's reference on every workload: the model's own figures, and the trainings to compare with."""
        steps: dict[tuple[str, str], Trained | Outcome] = {}
        for name, one in self.frameworks.items():
            subject = Subject(framework=one.framework, strategy=REFERENCE, python=one.python, devices=one.devices[:1])
            mine = [workload for workload in self.workloads if workload in one.framework.workloads]
            self._make_given(subject, mine)
            counts = sorted({(r.case.workload, r.case.n_devices) for r in self.runnable if r.framework.name == name})
            trials = [replace(self._trial(one, workload, 1, 1, "given"), export_folder=None) for workload in mine]
            trials += [self._trial(one, workload, n, STEPS, "open") for workload, n in counts]
            self.say(f"{name}: the reference on {', '.join(mine)}")
            done = train(subject, trials, self.scratch)
            self.software[name] = next((result.software for result in done if isinstance(result, Trained)), {})
            steps |= {(name, workload): result for workload, result in zip(mine, done, strict=False)}
            for (workload, n), result in zip(counts, done[len(mine) :], strict=True):
                self.references[name, workload, n] = result
        return [self._model(name, workload, steps) for name, workload in steps]

    def strategies(self) -> Iterator[Verification]:
        """Each strategy at each size, in processes of its own as in a measured launch. After `models`."""
        for one in self.runnable:
            self.say(f"{one.case.workload} {one.framework.name} {one.strategy.name} on {one.case.n_devices}")
            subject = Subject(framework=one.framework, strategy=one.strategy, python=one.python, devices=one.devices)
            (result,) = train(
                subject, [self._trial(one, one.case.workload, one.case.n_devices, STEPS, "open")], self.scratch
            )
            yield self._strategy(one, result)

    def _make_given(self, subject: Subject, workloads: Sequence[str]) -> None:
        """Files of weights and samples for the workloads that have none yet. The framework's model says the shapes."""
        missing = [name for name in workloads if not self._given(name, "given").exists()]
        one = self.frameworks[subject.framework.name]
        trials = [replace(self._trial(one, name, 1, 0, "given"), given_file=None) for name in missing]
        most = max(r.case.n_devices for r in self.runnable)
        for name, result in zip(missing, train(subject, trials, self.scratch) if trials else [], strict=True):
            if isinstance(result, Outcome):
                continue  # the same will be said of the framework's first trial
            shapes = [array.shape for array in neutral.read_replicas(result.export_files[0])[0]]
            workload = WORKLOADS[name]
            samples = neutral.random_samples(
                most * PER_DEVICE_BATCH[name], workload.input_shape_HWC, workload.classes, SEED
            )
            neutral.write_given(self._given(name, "given"), neutral.random_weights(shapes, SEED, **SMALL), *samples)
            neutral.write_given(self._given(name, "open"), neutral.random_weights(shapes, SEED, **OPEN), *samples)
            result.export_files[0].unlink()

    def _given(self, workload: str, kind: str) -> Path:
        return self.scratch / f"{workload}.{kind}.npz"

    def _trial(self, one: Runnable, workload: str, n_devices: int, steps: int, given: str) -> Trial:
        self.exports += 1
        batch = PER_DEVICE_BATCH[workload]
        case = replace(
            one.case,
            workload=workload,
            n_devices=n_devices,
            per_device_batch=batch,
            global_batch=n_devices * batch,
            seed=0,
        )
        return Trial(
            case=case,
            steps=steps,
            given_file=self._given(workload, given),
            export_folder=self.scratch / f"export{self.exports}",
        )

    def _model(self, framework: str, workload: str, steps: dict[tuple[str, str], Trained | Outcome]) -> Verification:
        result = steps[framework, workload]
        peers = {f: r for (f, w), r in steps.items() if w == workload and isinstance(r, Trained)}
        findings = [_failed(result)] if isinstance(result, Outcome) else model_findings(framework, workload, peers)
        others = [name for name in peers if name != framework]
        return self._verification(self.frameworks[framework], workload, None, 1, others, findings)

    def _strategy(self, one: Runnable, result: Trained | Outcome) -> Verification:
        workload, n_devices = one.case.workload, one.case.n_devices
        reference = self.references[one.framework.name, workload, n_devices]
        if isinstance(result, Outcome):
            findings = [_failed(result)]
        elif isinstance(reference, Outcome):
            findings = [replace(_failed(reference), name="reference")]
        else:
            with np.load(self._given(workload, "open")) as archive:
                start = neutral.read_arrays(archive, "weight")
            findings = strategy_findings(WORKLOADS[workload], n_devices, result, reference, start)
        return self._verification(one, workload, one.strategy.name, n_devices, [REFERENCE.name], findings)

    def _verification(
        self,
        one: Runnable,
        workload: str,
        strategy: str | None,
        n_devices: int,
        compared_with: list[str],
        findings: list[Finding],
    ) -> Verification:
        return Verification(
            workload=workload,
            framework=one.framework.name,
            strategy=strategy,
            device_kind=one.case.device_kind,
            n_devices=n_devices,
            software=self.software.get(one.framework.name, {}),
            compared_with=compared_with,
            verified_at=datetime.now(UTC).isoformat(timespec="seconds"),
            findings=findings,
        )


def model_findings(framework: str, workload: str, peers: dict[str, Trained]) -> list[Finding]:
    """A framework's model against the workload's definition, and its first step against the other frameworks'."""
    mine, definition = peers[framework], WORKLOADS[workload]
    within = tolerances(workload)
    findings = [
        equality.equal("parameters", mine.parameters, definition.parameters, "the workload's layers say"),
        equality.equal("multiply-adds", mine.macs, definition.macs_per_sample, "the workload's layers say"),
    ]
    if workload in PUBLISHED:
        parameters, macs = PUBLISHED[workload]
        findings.append(equality.equal("published parameters", mine.parameters, parameters, "published"))
        findings.append(equality.close("published multiply-adds", mine.macs, macs, within["published multiply-adds"]))
    if len(peers) == 1:
        finite = mine.loss_first is not None
        return [
            *findings,
            Finding(name="loss", passed=finite, message=f"{mine.loss_first}, with none to compare it with"),
        ]
    losses = {name: peer.loss_first for name, peer in peers.items()}
    norms = {name: peer.gradient_norm for name, peer in peers.items()}
    for name, values in (("loss", losses), ("gradient norm", norms)):
        findings.append(equality.agreement(name, values, within[name])[framework])
    return findings


def strategy_findings(
    workload: Workload, n_devices: int, found: Trained, reference: Trained, start: list[neutral.Array]
) -> list[Finding]:
    """A strategy's training on n devices against the reference's of the same n batches on one device."""
    replicas = [replica for file in found.export_files for replica in neutral.read_replicas(file)]
    expected = neutral.read_replicas(reference.export_files[0])[0]
    names = equality.parameter_names(workload.layers, [array.shape for array in start])
    within = tolerances(workload.name)
    drifted = len(set(found.replica_digests)) > 1
    return [
        equality.equal("world size", found.world_size, n_devices, "asked for"),
        equality.equal("samples a step", found.samples_per_step, reference.samples_per_step, "the reference has"),
        Finding(
            name="replicas",
            passed=not drifted,
            message="have drifted apart" if drifted else "equal to the last bit",
        ),
        equality.close("first loss", found.loss_first, reference.loss_first, within["first loss"]),
        equality.weights(replicas, expected, start, names, within["weights"]),
    ]


def _failed(outcome: Outcome) -> Finding:
    return Finding(name="training", passed=False, message=f"{outcome.status}: {outcome.message}")
