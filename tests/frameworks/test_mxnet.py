"""MXNet's strategies, run in MXNet's own Python."""

import json
import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest

if find_spec("mxnet") is None:
    pytest.skip("needs MXNet: run with the Python that has it", allow_module_level=True)

import numpy as np

from gpubench.frameworks.mxnet import FRAMEWORK, device, single, trainer
from gpubench.frameworks.mxnet.compat import mx
from gpubench.spec.case import Case, Device, Place
from gpubench.spec.messages import MESSAGE_FD_VARIABLE, Finish, RunSteps, Start, from_line, to_line
from gpubench.spec.workload import WORKLOADS
from gpubench.worker.inspection import digest

ROOT = Path(__file__).parents[2]
SAMPLES = {"mlp": 256, "resnet20": 8, "resnet50": 2}


def place_of(n_devices, kind="cpu", cores=None):
    shares = [() if kind == "gpu" else ((cores or range(n_devices))[i],) for i in range(n_devices)]
    devices = tuple(Device(kind=kind, id=f"{kind} {i}", name=kind, cores=share) for i, share in enumerate(shares))
    return Place(rank=0, world_size=1, devices=devices, all_devices=devices)


def case_of(workload, strategy, place, per_device_batch=None):
    n_devices, samples = len(place.devices), per_device_batch or SAMPLES[workload]
    return Case(
        workload=workload,
        framework="mxnet",
        strategy=strategy,
        device_kind=place.device_kind,
        n_devices=n_devices,
        per_device_batch=samples,
        global_batch=n_devices * samples,
    )


def trained(module, workload, place, steps, per_device_batch=None):
    """Run some steps; the losses, and the training as it then stands."""
    case = case_of(workload, module.__name__.rpartition(".")[2], place, per_device_batch)
    with module.training(case, place, workload_module(workload)) as training:
        losses = [training.loss(training.step()) for _ in range(steps)]
        device.wait(None)
        return losses, training


def workload_module(name):
    return import_module(f"{FRAMEWORK.package}.{FRAMEWORK.workloads[name]}")


def digests(training):
    return [digest(replica) for replica in training.replicas()]


@pytest.mark.parametrize("name", ["mlp", "resnet20", "resnet50"])
def test_each_layer_has_the_parameters_that_the_workload_says(name):
    model = workload_module(name).model()
    model.initialize(mx.init.Zero())
    sizes = iter([array.size for array in device.parameters_of(model, mx.cpu())])
    arrays_of_dense, arrays_of_conv = 2, 3  # weight, bias; weight, scale, shift
    layers = WORKLOADS[name].layers
    is_dense = [layer.name in ("hidden", "head") for layer in layers]
    found = [sum(islice(sizes, arrays_of_dense if dense else arrays_of_conv)) for dense in is_dense]
    assert found == [layer.parameters for layer in layers]
    assert list(sizes) == []


@pytest.mark.parametrize(("module", "n_devices"), [(single, 1), (trainer, 1), (trainer, 2)])
@pytest.mark.parametrize("workload", ["mlp", "resnet20"])
def test_a_strategy_trains_and_keeps_its_replicas_equal(module, n_devices, workload):
    losses, training = trained(module, workload, place_of(n_devices), steps=8)
    assert losses[-1] < 0.9 * losses[0]
    assert training.world_size() == n_devices
    assert training.samples_per_step == n_devices * SAMPLES[workload]
    assert len(digests(training)) == n_devices
    assert len(set(digests(training))) == 1


def test_resnet50_takes_a_step_on_two_devices():
    (loss,), training = trained(trainer, "resnet50", place_of(2), steps=1, per_device_batch=1)
    assert loss == pytest.approx(np.log(1000), rel=0.3)  # a net that knows nothing
    assert len(set(digests(training))) == 1


def test_two_devices_train_as_one_device_does_on_their_global_batch(monkeypatch):
    # Plain SGD, for Adam would hide a gradient of the wrong scale.
    monkeypatch.setattr(workload_module("mlp"), "optimizer", lambda: mx.optimizer.SGD(learning_rate=0.1))
    losses_of_two, two = trained(trainer, "mlp", place_of(2), steps=5, per_device_batch=256)
    losses_of_one, one = trained(single, "mlp", place_of(1), steps=5, per_device_batch=512)
    assert losses_of_two[0] == pytest.approx(losses_of_one[0], abs=1e-4)
    assert losses_of_two == pytest.approx(losses_of_one, abs=1e-4)
    for parameter_of_two, parameter_of_one in zip(two.replicas()[0], one.replicas()[0], strict=True):
        np.testing.assert_allclose(parameter_of_two, parameter_of_one, atol=1e-5)


def test_without_a_kvstore_replicas_drift_apart_and_the_world_is_one(monkeypatch):
    monkeypatch.setattr(trainer, "kvstore_type", lambda place: None)
    _, untrained = trained(trainer, "mlp", place_of(2), steps=0)
    assert len(set(digests(untrained))) == 1
    _, training = trained(trainer, "mlp", place_of(2), steps=1)
    assert len(set(digests(training))) == 2  # also says that each replica has samples of its own
    assert training.world_size() == 1


@pytest.mark.parametrize(("module", "n_devices"), [(single, 1), (trainer, 2)])
def test_a_step_queues_its_work_and_waits_for_nothing(module, n_devices, monkeypatch):
    _, training = trained(module, "mlp", place_of(n_devices), steps=1)
    with monkeypatch.context() as patch:
        for name in ("asnumpy", "wait_to_read"):
            patch.setattr(mx.nd.NDArray, name, lambda array: pytest.fail("a step waited for its device"))
        result = training.step()
    assert np.isfinite(training.loss(result))


def test_a_batch_that_does_not_split_evenly_is_refused():
    case = Case(**{**vars(case_of("mlp", "trainer", place_of(2))), "global_batch": 511})
    with pytest.raises(ValueError, match="evenly"), trainer.training(case, place_of(2), workload_module("mlp")):
        pass


def test_contexts_of_a_process_do_not_share_workspaces_for_convolutions():
    environment = FRAMEWORK.environment(place_of(2))
    assert int(environment["MXNET_CPU_TEMP_COPY"]) > 4  # MXNet's default, with which they wait for each other
    assert environment["OMP_NUM_THREADS"] == "1"


def test_a_worker_takes_two_shares():
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        pytest.skip("needs 2 cores")
    place = place_of(2, cores=cores)
    start = Start(
        case=case_of("mlp", "trainer", place),
        place=place,
        package=FRAMEWORK.package,
        folder=str(FRAMEWORK.folder),
        strategy_module="trainer",
        workload_module=FRAMEWORK.workloads["mlp"],
    )
    orders = [start, RunSteps(steps=1, phase="warm_up"), RunSteps(steps=5, phase="round"), Finish()]
    started, built, first, last, finished = talk_to_worker(orders)
    assert started.devices == [share.id for share in place.devices]
    assert started.versions["mxnet"] == mx.__version__
    assert (built.world_size, built.parameters, built.samples_per_step) == (2, 101_770, 512)
    assert (first.samples, last.samples) == (512, 5 * 512)
    assert finished.loss_last < first.loss
    assert len(finished.replica_digests) == 2
    assert len(set(finished.replica_digests)) == 1
    assert finished.peak_memory_of == "process"


def talk_to_worker(orders):
    read_end, write_end = os.pipe()
    worker = subprocess.Popen(
        [sys.executable, "-P", ROOT / "gpubench/worker/__main__.py"],
        stdin=subprocess.PIPE,
        pass_fds=[write_end],
        env={**os.environ, MESSAGE_FD_VARIABLE: str(write_end)},
    )
    os.close(write_end)
    worker.communicate("".join(map(to_line, orders)).encode(), timeout=120)
    with os.fdopen(read_end) as messages:
        return [from_line(line) for line in messages]


def test_discovery_names_the_version_and_the_gpus():
    command = [sys.executable, "-P", ROOT / "gpubench/worker/__main__.py", "discover"]
    found = json.loads(subprocess.check_output([*command, FRAMEWORK.package, FRAMEWORK.folder], timeout=120))
    assert set(found) == {"version", "gpus", "details"}
    assert found["version"] == mx.__version__
    assert len(found["gpus"]) == found["details"]["mx.context.num_gpus"]


@pytest.mark.parametrize(
    ("visible", "ids"),
    [
        ("GPU-aa,GPU-bb", ["GPU-aa", "GPU-bb"]),
        ("1,0", ["gpu(0)", "gpu(1)"]),
        ("", ["gpu(0)", "gpu(1)"]),
    ],
)
def test_gpus_go_by_the_uuids_that_cuda_was_given(monkeypatch, visible, ids):
    monkeypatch.setattr(mx.context, "num_gpus", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert device.gpu_ids() == ids


def test_running_out_of_memory_is_told_from_other_errors():
    script = """
import resource
from gpubench.frameworks.mxnet.device import is_out_of_memory, mx
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
for make in (lambda: mx.nd.ones(2**30), lambda: mx.nd.dot(mx.nd.ones((2, 3)), mx.nd.ones((2, 3)))):
    try:
        make().wait_to_read()
    except mx.base.MXNetError as error:
        print(is_out_of_memory(error))
"""
    assert python(script).stdout.split() == ["True", "False"]


def test_mxnet_is_imported_where_numpy_has_dropped_its_old_names():
    script = """
import numpy as np
there = np.__getattr__
def without_old_names(name):
    if name in ("bool", "int", "float", "complex", "object", "str"):
        raise AttributeError(name)
    return there(name)
np.__getattr__ = without_old_names
from gpubench.frameworks.mxnet.compat import mx
print(mx.__version__)
"""
    assert python(script).stdout.strip() == mx.__version__


def test_a_missing_system_library_is_named_with_its_debian_package(tmp_path):
    (tmp_path / "mxnet.py").write_text("raise OSError('libgomp.so.1: cannot open shared object file')")
    done = python(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport gpubench.frameworks.mxnet.device")
    assert done.returncode == 1
    assert "apt-get install libgomp1 libquadmath0" in done.stderr


def python(script):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.gpu
@pytest.mark.skipif(mx.context.num_gpus() < 1, reason="MXNet finds no GPU")
@pytest.mark.parametrize("workload", ["mlp", "resnet20"])
def test_the_trainer_trains_on_all_gpus(workload):
    n_gpus = mx.context.num_gpus()
    place = place_of(n_gpus, kind="gpu")
    device.take(case_of(workload, "trainer", place), place)
    losses, training = trained(trainer, workload, place, steps=8)
    assert losses[-1] < 0.9 * losses[0]
    assert training.world_size() == n_gpus
    assert len(set(digests(training))) == 1
    assert device.observed(place) == device.gpu_ids()
    assert device.peak_memory()[1] == "device"
