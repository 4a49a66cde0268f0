"""TensorFlow's strategies, run in TensorFlow's own Python.

How many devices a process has is fixed when TensorFlow starts, so what needs n of them is the work of a child:
this file run as a script, which trains and leaves what it saw in a folder. A child has one model: the collectives of
a second MirroredStrategy in a process are taken for those of the first, and must have their shapes.
"""

import json
import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

if find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow: run with the Python that has it", allow_module_level=True)

import keras
import numpy as np
import tensorflow as tf

from gpubench.frameworks.tensorflow import FRAMEWORK, device
from gpubench.spec.case import Case, Device, Place
from gpubench.spec.workload import WORKLOADS

ROOT = Path(__file__).parents[2]
DISTRIBUTED = ["mirrored", "mirrored_fit", "in_graph"]
PER_DEVICE_BATCH = {"mlp": 64, "mlp_sgd": 64, "resnet20": 4}
STEPS = 6


def main(kind, n_devices, folder, *names):
    """What the child does."""
    place = place_of(kind, n_devices)
    if place.cores:
        os.sched_setaffinity(0, place.cores)
    device.take(case_of("single", place, 1), place)
    found = {"observed": device.observed(place)}
    strategies = [*DISTRIBUTED, "single"] if n_devices == 1 else DISTRIBUTED
    for strategy, name in product(strategies, names):
        key = f"{strategy} {name}"
        found[key] = train(strategy, name, place, PER_DEVICE_BATCH[name], folder / f"{key}.npz")
    if n_devices == 1:
        found["global batch"] = train("single", "mlp_sgd", place, 128, folder / "global batch.npz")
        found["error in fit"] = error_of_a_broken_fit(place)
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


def workload_module(name):
    return import_module(f"{FRAMEWORK.package}.{FRAMEWORK.workloads[name]}")


def watched(name, traces, backward_devices):
    """A workload that notes each time TensorFlow traces its model, and where gradients of convolutions are computed."""
    module = workload_module("mlp" if name == "mlp_sgd" else name)

    class Noting(keras.layers.Layer):
        def call(self, x):
            traces.append(1)  # Python comes here only to trace
            return x

    def model():
        return keras.Sequential([module.model(), Noting()])

    def optimizer():
        # SGD's updates are as exact as the gradients; Adam's first ones take little but their signs.
        optimizer = keras.optimizers.SGD(0.1) if name == "mlp_sgd" else module.optimizer()
        apply_gradients = optimizer.apply_gradients

        def noting_apply_gradients(pairs):
            pairs = list(pairs)
            operations = pairs[0][0].graph.get_operations()
            backward_devices.update(op.device[-5:] for op in operations if op.type == "Conv2DBackpropFilter")
            apply_gradients(pairs)

        optimizer.apply_gradients = noting_apply_gradients
        return optimizer

    return SimpleNamespace(model=model, optimizer=optimizer, batch=module.batch)


def train(strategy, name, place, per_device_batch, file):
    """Run some steps, save each replica's parameters, and tell what was seen."""
    losses, traces, traces_after_step, backward_devices = [], [], [], set()
    with start(strategy, place, per_device_batch, watched(name, traces, backward_devices)) as training:
        world_size = training.world_size()
        for _ in range(STEPS):
            result = training.step()
            device.wait(result)
            losses.append(training.loss(result))
            traces_after_step.append(len(traces))
        np.savez(file, *[np.concatenate([array.ravel() for array in replica]) for replica in training.replicas()])
    return {
        "world_size": world_size,
        "samples_per_step": training.samples_per_step,
        "losses": losses,
        "traces_after_step": traces_after_step,
        "backward_devices": sorted(backward_devices),
    }


def error_of_a_broken_fit(place):
    def batch(samples, seed):
        return tf.zeros((samples, 784)), tf.fill((samples,), 10)  # there are ten classes, 0 to 9

    mlp = workload_module("mlp")
    broken = SimpleNamespace(model=mlp.model, optimizer=mlp.optimizer, batch=batch)
    fit = start("mirrored_fit", place, 4, broken)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught, fit as training:
        training.step()
    return str(caught.value)


def run_child(kind, n_devices, folder, *names):
    environment = os.environ | FRAMEWORK.environment(place_of(kind, n_devices)) | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, __file__, kind, str(n_devices), folder, *names]
    subprocess.run(words, env=environment, check=True, timeout=300)
    return SimpleNamespace(
        found=json.loads((folder / "found.json").read_text()),
        replicas=lambda key: list(np.load(folder / f"{key}.npz").values()),
    )


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return run_child("cpu", 1, tmp_path_factory.mktemp("one"), "mlp")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return run_child("cpu", 2, tmp_path_factory.mktemp("two"), "mlp", "mlp_sgd")


@pytest.fixture(scope="module")
def two_resnets(tmp_path_factory):
    return run_child("cpu", 2, tmp_path_factory.mktemp("two_resnets"), "resnet20")


@pytest.mark.parametrize("strategy", ["single", *DISTRIBUTED])
def test_a_strategy_trains_on_one_device(one, strategy):
    seen = one.found[f"{strategy} mlp"]
    assert (seen["world_size"], seen["samples_per_step"]) == (1, 64)
    assert seen["losses"][-1] < 0.9 * seen["losses"][0]


@pytest.mark.parametrize("strategy", DISTRIBUTED)
def test_a_strategy_trains_on_two_devices(two, two_resnets, strategy):
    for seen, samples in [(two.found[f"{strategy} mlp"], 128), (two_resnets.found[f"{strategy} resnet20"], 8)]:
        assert (seen["world_size"], seen["samples_per_step"]) == (2, samples)
        assert seen["losses"][-1] < 0.9 * seen["losses"][0]


@pytest.mark.parametrize("strategy", DISTRIBUTED)
def test_only_the_first_step_traces(one, two, strategy):
    for child in (one, two):
        first, *later = child.found[f"{strategy} mlp"]["traces_after_step"]
        assert first > 0
        assert set(later) == {first}


@pytest.mark.parametrize("strategy", ["mirrored", "mirrored_fit"])
def test_replicas_stay_equal_to_the_last_bit(two, two_resnets, strategy):
    for child, name in [(two, "mlp"), (two, "mlp_sgd"), (two_resnets, "resnet20")]:
        first, second = child.replicas(f"{strategy} {name}")
        assert np.array_equal(first, second)


@pytest.mark.parametrize("strategy", DISTRIBUTED)
def test_two_devices_take_the_steps_of_one_on_the_global_batch(one, two, strategy):
    assert two.found[f"{strategy} mlp_sgd"]["losses"] == pytest.approx(one.found["global batch"]["losses"], rel=1e-5)
    (expected,) = one.replicas("global batch")
    for replica in two.replicas(f"{strategy} mlp_sgd"):
        np.testing.assert_allclose(replica, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("strategy", DISTRIBUTED)
def test_the_second_device_sees_samples_of_its_own(one, two, strategy):
    alone, both = (child.found[f"{strategy} mlp"]["losses"][0] for child in (one, two))
    assert both != pytest.approx(alone, rel=1e-4)


@pytest.mark.parametrize("strategy", DISTRIBUTED)
def test_gradients_are_computed_where_their_slice_is(two_resnets, strategy):
    assert two_resnets.found[f"{strategy} resnet20"]["backward_devices"] == ["CPU:0", "CPU:1"]


def test_an_error_inside_fit_is_raised_from_the_step(one):
    assert "label" in one.found["error in fit"].lower()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_shares_are_observed_as_bound(one, two):
    assert one.found["observed"] == ["cpu 0"]
    assert two.found["observed"] == ["cpu 0", "cpu 1"]


def test_shares_that_are_not_bound_are_named_as_they_are(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {4, 5, 6})
    devices = (Device(kind="cpu", id="cores 0-1", name="share", cores=(0, 1)),)
    assert device.observed(Place(rank=0, world_size=1, devices=devices, all_devices=devices)) == ["cores 4-6"]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_parameters_are_those_of_the_workload_in_the_order_of_its_layers(workload):
    variables = workload_module(workload).model().trainable_variables
    per_layer = 2 if workload == "mlp" else 3  # kernel and bias; kernel, scale and shift
    *bodies, head = [layer.parameters for layer in WORKLOADS[workload].layers]
    counts = [int(np.prod(variable.shape)) for variable in variables]
    found = [sum(counts[i : i + per_layer]) for i in range(0, len(counts) - 2, per_layer)]
    assert [*found, sum(counts[-2:])] == [*bodies, head]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_batch_has_the_shape_and_the_classes_of_the_workload(workload):
    inputs, labels_N = workload_module(workload).batch(512 if workload == "mlp" else 16, seed=3)
    assert inputs.shape[1:] == WORKLOADS[workload].input_shape_HWC
    assert inputs.shape[0] == len(labels_N)
    assert 0 <= min(labels_N) <= max(labels_N) < WORKLOADS[workload].classes


def test_a_strided_convolution_sees_the_padding_on_all_sides():
    # A 3x3 kernel of ones over ones, stride 2, padded by one: the corner sees 4 ones, the edges 6, the inside 9.
    conv = workload_module("resnet20").conv(1, 3, stride=2)
    conv.build((1, 4, 4, 1))
    conv.set_weights([np.ones((3, 3, 1, 1))])
    output_NHWC = conv(tf.ones((1, 4, 4, 1)))
    assert output_NHWC[0, :, :, 0].numpy().tolist() == [[4, 6], [6, 9]]


def test_discovery_says_what_tensorflow_found():
    found = device.discover()
    assert set(found) == {"version", "gpus", "details"}
    assert found["version"] == tf.__version__
    assert "CPU:0" in found["details"]["physical devices"]
    json.dumps(found)


def test_running_out_of_memory_is_told_from_other_errors():
    assert device.is_out_of_memory(tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"))
    assert device.is_out_of_memory(RuntimeError("std::bad_alloc"))
    assert not device.is_out_of_memory(tf.errors.InvalidArgumentError(None, None, "shapes"))


class Driver:
    """A CUDA driver with one GPU, device 1."""

    def cuInit(self, flags):  # noqa: N802 - the driver's names
        return 0

    def cuDeviceGet(self, handle, ordinal):  # noqa: N802
        handle._obj.value = 7
        return 0 if ordinal == 1 else 101

    def cuDeviceGetUuid(self, identifier, handle):  # noqa: N802
        assert handle.value == 7
        identifier._obj[:] = range(16)
        return 0

    def cuDeviceTotalMem_v2(self, memory_bytes, handle):  # noqa: N802
        memory_bytes._obj.value = 80 * 1024**3
        return 0


def test_a_gpu_is_known_by_the_uuid_that_the_cuda_driver_tells(monkeypatch):
    monkeypatch.setattr(device.ctypes, "CDLL", lambda name: Driver())
    assert device.ask_cuda(1) == ("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", 80 * 1024**3)
    with pytest.raises(RuntimeError, match="CUDA error 101"):
        device.ask_cuda(0)


N_GPUS = len(tf.config.list_physical_devices("GPU"))


@pytest.mark.gpu
@pytest.mark.skipif(N_GPUS < 1, reason="TensorFlow finds no GPU here")
def test_gpus_are_discovered_by_uuid():
    gpus = device.discover()["gpus"]
    assert len({gpu["id"] for gpu in gpus}) == N_GPUS
    assert all(gpu["id"].startswith("GPU-") and gpu["memory_bytes"] > 0 for gpu in gpus)


@pytest.mark.gpu
@pytest.mark.skipif(N_GPUS < 2, reason=f"needs two GPUs, {N_GPUS} found by TensorFlow")
def test_strategies_train_on_two_gpus(tmp_path):
    child = run_child("gpu", 2, tmp_path, "mlp")
    for strategy in DISTRIBUTED:
        seen = child.found[f"{strategy} mlp"]
        assert seen["world_size"] == 2
        assert seen["losses"][-1] < seen["losses"][0]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
