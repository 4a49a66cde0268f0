"""TensorFlow's strategies, run in TensorFlow's own Python.

How many devices a process has is fixed when TensorFlow starts, so what needs n of them is the work of a child:
this file run as a script, which trains and leaves what it saw in a folder.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

if find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow: run with the Python that has it", allow_module_level=True)

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from gpubench.frameworks.tensorflow import FRAMEWORK, device
from gpubench.spec.case import Case, Device, Place
from gpubench.spec.workload import WORKLOADS

ROOT = Path(__file__).parents[2]
DISTRIBUTED = ["mirrored", "mirrored_fit", "in_graph"]
STEPS = 6


@dataclass
class Seen:
    """What one training showed."""

    world_size: int
    samples_per_step: int
    losses: list[float]
    replicas: int
    traced_after: list[int]


# What the child does.


def main(kind, n_devices, folder):
    place = place_of(kind, int(n_devices))
    if place.cores:
        os.sched_setaffinity(0, place.cores)
    device.take(case_of("single", place, 1), place)
    found = {"observed": device.observed(place)}
    if len(place.devices) == 1:
        found |= {"global batch": asdict(train("single", "mlp", place, 128, folder / "global_batch"))}
        found |= {"single resnet20": asdict(train("single", "resnet20", place, 4, folder / "resnet20"))}
        found |= {"error": error_of_a_broken_fit(place)}
    for strategy in (["single"] if len(place.devices) == 1 else []) + DISTRIBUTED:
        found |= {strategy: asdict(train(strategy, "mlp", place, 64, folder / strategy))}
    if len(place.devices) == 2:
        for strategy in DISTRIBUTED:
            found |= {f"{strategy} resnet20": asdict(train(strategy, "resnet20", place, 4, folder / "resnet20"))}
            found |= {f"{strategy} backward": where_backward_runs(strategy, place)}
    (folder / "found.json").write_text(json.dumps(found))


def place_of(kind, n_devices):
    cores = sorted(os.sched_getaffinity(0))
    shares = [() if kind == "gpu" else (cores[index % len(cores)],) for index in range(n_devices)]
    devices = tuple(Device(kind=kind, id=f"{kind} {i}", name=kind, cores=share) for i, share in enumerate(shares))
    return Place(rank=0, world_size=1, devices=devices, all_devices=devices)


def case_of(strategy, place, per_device_batch):
    return Case(
        workload="mlp",
        framework="tensorflow",
        strategy=strategy,
        device_kind=place.device_kind,
        n_devices=len(place.devices),
        per_device_batch=per_device_batch,
        global_batch=len(place.devices) * per_device_batch,
    )


def start(strategy, place, per_device_batch, workload):
    module = import_module(f"gpubench.frameworks.tensorflow.{strategy}")
    return module.training(case_of(strategy, place, per_device_batch), place, workload)


def workload_of(name, **changes):
    module = import_module(f"gpubench.frameworks.tensorflow.workloads.{name}")
    return SimpleNamespace(**{"model": module.model, "optimizer": module.optimizer, "batch": module.batch, **changes})


def plain_sgd():
    """Its updates are as exact as the gradients; Adam's first ones take little but their signs."""
    return keras.optimizers.SGD(0.1)


def train(strategy, name, place, per_device_batch, file):
    """Run some steps, save the replicas, and tell what was seen."""
    traces = []
    workload = workload_of(name)
    if name == "mlp":
        workload = workload_of(name, optimizer=plain_sgd, model=lambda: traced(workload_of(name).model(), traces))
    losses, traced_after = [], []
    with start(strategy, place, per_device_batch, workload) as training:
        world_size = training.world_size()
        for _ in range(STEPS):
            result = training.step()
            device.wait(result)
            losses.append(training.loss(result))
            traced_after.append(len(traces))
        replicas = training.replicas()
        np.savez(file, *[np.concatenate([array.ravel() for array in replica]) for replica in replicas])
        return Seen(world_size, training.samples_per_step, losses, len(replicas), traced_after)


def traced(model, traces):
    """The model, noting each time that Python goes through it: TensorFlow then traces it anew."""

    @keras.saving.register_keras_serializable()
    class Noting(keras.layers.Layer):
        def call(self, x):
            traces.append(1)
            return x

    return keras.Sequential([keras.Input(model.input_shape[1:]), Noting(), *model.layers])


def where_backward_runs(strategy, place):
    """The devices on which the executor ran a gradient of a convolution in one step."""
    with start(strategy, place, 4, workload_of("resnet20")) as training:
        training.step()
        context.context().enable_run_metadata()
        training.step()
        stats = context.context().export_run_metadata().step_stats
        context.context().disable_run_metadata()
    return sorted(
        device_stats.device[-5:]
        for device_stats in stats.dev_stats
        if any("Conv2DBackpropFilter" in node.timeline_label for node in device_stats.node_stats)
    )


def error_of_a_broken_fit(place):
    def batch_with_a_label_too_many(samples, seed):
        return tf.zeros((samples, 784)), tf.fill((samples,), 10)

    with start("mirrored_fit", place, 4, workload_of("mlp", batch=batch_with_a_label_too_many)) as training:
        try:
            training.step()
        except tf.errors.InvalidArgumentError as error:
            return type(error).__name__


# What the tests ask.


@pytest.fixture(scope="module", params=[1, 2], ids="{}_devices".format)
def child(request, tmp_path_factory):
    return run_child("cpu", request.param, tmp_path_factory.mktemp("child"))


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return run_child("cpu", 1, tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return run_child("cpu", 2, tmp_path_factory.mktemp("two"))


def run_child(kind, n_devices, folder):
    environment = os.environ | FRAMEWORK.environment(place_of(kind, n_devices)) | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, __file__, kind, str(n_devices), str(folder)]
    subprocess.run(words, env=environment, check=True, timeout=240)
    return SimpleNamespace(folder=folder, **{"found": json.loads((folder / "found.json").read_text())})
