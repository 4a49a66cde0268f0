"""PyTorch's strategies, run in PyTorch's own Python."""

import threading
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

if find_spec("torch") is None:
    pytest.skip("needs PyTorch: run with the Python that has it", allow_module_level=True)

import torch
import torch.multiprocessing as mp

from gpubench.frameworks.torch import FRAMEWORK, data_parallel, ddp, device, single
from gpubench.spec.case import Case, Device, Place
from gpubench.spec.workload import WORKLOADS
from gpubench.worker.inspection import digest

SAMPLES = {"mlp": 256, "resnet20": 8, "resnet50": 2}
RUN = threading.Thread.run
NEEDS_GPUS = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs 2 GPUs; PyTorch finds fewer")


def case_of(workload, strategy, n_devices, kind="cpu", precision="fp32"):
    samples = SAMPLES[workload]
    return Case(
        workload=workload,
        framework="torch",
        strategy=strategy,
        device_kind=kind,
        n_devices=n_devices,
        per_device_batch=samples,
        global_batch=samples * n_devices,
        precision=precision,
    )


def place_of(n_devices, kind="cpu", rank=None, address=""):
    devices = tuple(Device(kind=kind, id=f"{kind} {i}", name=kind, cores=(i,)) for i in range(n_devices))
    mine = devices if rank is None else (devices[rank],)
    world = 1 if rank is None else n_devices
    return Place(rank=rank or 0, world_size=world, devices=mine, all_devices=devices, address=address)


def workload_module(name):
    return import_module(f"{FRAMEWORK.package}.{FRAMEWORK.workloads[name]}")


def trained(strategy, workload, place, steps, **case):
    name = strategy.__name__.rpartition(".")[2]
    wanted = case_of(workload, name, len(place.all_devices), place.device_kind, **case)
    with strategy.training(wanted, place, workload_module(workload)) as training:
        losses = [training.loss(training.step()) for _ in range(steps)]
        return {
            "losses": losses,
            "world_size": training.world_size(),
            "digest": digest(training.replicas()[0]),
            "samples": training.samples_per_step,
            "weights": training.replicas()[0],
        }


def rank_of_ddp(rank, workload, address, steps, answers):
    torch.set_num_threads(1)
    answers.put((rank, trained(ddp, workload, place_of(2, rank=rank, address=address), steps)))


def two_ranks(workload, tmp_path, steps=5):
    context = mp.get_context("spawn")
    answers = context.SimpleQueue()
    arguments = (workload, f"file://{tmp_path}/rendezvous", steps, answers)
    ranks = [context.Process(target=rank_of_ddp, args=(rank, *arguments)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    found = dict(answers.get() for _ in ranks)
    for rank in ranks:
        rank.join(60)
    return found[0], found[1]


@pytest.mark.parametrize("name", ["mlp", "resnet20", "resnet50"])
def test_the_model_has_the_parameters_that_the_workload_says(name):
    assert sum(p.numel() for p in workload_module(name).model().parameters()) == WORKLOADS[name].parameters


def test_resnet50_has_its_stride_in_the_3x3():
    strides = {
        module.kernel_size: module.stride
        for name, module in workload_module("resnet50").model().named_modules()
        if name in ("7.conv1", "7.conv2")  # the first block of the second stage
    }
    assert strides == {(1, 1): (1, 1), (3, 3): (2, 2)}


@pytest.mark.parametrize("workload", ["mlp", "resnet20"])
def test_single_trains(workload):
    found = trained(single, workload, place_of(1), steps=8)
    assert found["losses"][-1] < 0.9 * found["losses"][0]
    assert found["world_size"] == 1


@pytest.mark.parametrize("workload", ["mlp", "resnet20"])
def test_ddp_trains_and_keeps_its_replicas_equal(workload, tmp_path):
    zero, one = two_ranks(workload, tmp_path)
    assert zero["world_size"] == one["world_size"] == 2
    assert zero["digest"] == one["digest"]
    assert zero["losses"] != one["losses"]  # each rank has data of its own
    assert zero["losses"][-1] < zero["losses"][0]


def test_two_ranks_train_as_one_device_does_on_their_global_batch(tmp_path, monkeypatch):
    zero, one = two_ranks("mlp", tmp_path)
    mlp = workload_module("mlp")
    halves = [mlp.batch(SAMPLES["mlp"], torch.device("cpu"), seed) for seed in (0, 1)]
    both = tuple(torch.cat(parts) for parts in zip(*halves, strict=True))
    monkeypatch.setattr(mlp, "batch", lambda *args, **kwargs: both)
    alone = trained(single, "mlp", place_of(1), steps=5)
    means = [(a + b) / 2 for a, b in zip(zero["losses"], one["losses"], strict=True)]
    assert means == pytest.approx(alone["losses"], abs=1e-4)
    for together, single_device in zip(zero["weights"], alone["weights"], strict=True):
        assert together == pytest.approx(single_device, abs=1e-4)


def test_data_parallel_on_a_cpu_runs_and_silently_uses_one_device():
    found = trained(data_parallel, "mlp", place_of(2), steps=3)
    assert found["losses"][-1] < found["losses"][0]  # all looks well
    assert found["samples"] == 2 * SAMPLES["mlp"]
    assert found["world_size"] == 1  # which is why it is refused there


def test_data_parallel_is_refused_on_a_cpu():
    assert "silently uses one device" in FRAMEWORK.strategy("data_parallel").refused["cpu"]


def test_bf16_trains():
    found = trained(single, "resnet20", place_of(1), steps=8, precision="bf16")
    assert found["losses"][-1] < found["losses"][0]


@pytest.mark.parametrize(
    ("precision", "expected"), [("fp32", {"float32"}), ("bf16", {"bfloat16"})]
)  # fmt: skip
@pytest.mark.parametrize("workload", ["mlp", "resnet20"])
def test_the_type_of_products_is_seen_as_it_reaches_the_device(workload, precision, expected):
    with single.training(
        case_of(workload, "single", 1, precision=precision), place_of(1), workload_module(workload)
    ) as training:
        before = training.loss(training.step())
        assert device.product_types(training.step, None) == expected
        assert training.loss(training.step()) < before  # it trains on as before
        assert threading.Thread.run is RUN


class ThreadsOfDataParallel(torch.nn.Module):
    """nn.DataParallel's way with autocast, on a CPU: new threads take over that it is on, and not its type."""

    def __init__(self, module, device_ids):
        super().__init__()
        self.module = module

    def forward(self, inputs):
        outputs = {}
        enabled = torch.is_autocast_enabled("cpu")

        def run(index, part):
            with torch.autocast("cpu", torch.float16, enabled=enabled):
                outputs[index] = self.module(part)

        threads = [threading.Thread(target=run, args=each) for each in enumerate(inputs.chunk(2))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with torch.autocast("cpu", enabled=False):  # nn.DataParallel gathers by copies
            return torch.cat([outputs[index] for index in range(2)]).float()


@pytest.mark.parametrize(("in_forward", "expected"), [(True, {"bfloat16"}), (False, {"float16"})])
def test_data_parallel_runs_bf16_in_its_threads_since_its_model_enters_autocast_itself(
    monkeypatch, in_forward, expected
):
    monkeypatch.setattr(data_parallel.nn, "DataParallel", ThreadsOfDataParallel)
    if not in_forward:  # as PyTorch's own way has it, which is what the model's own autocast is for
        monkeypatch.setattr(data_parallel, "Autocast", lambda model, case, device: model)
    case = case_of("mlp", "data_parallel", 2, precision="bf16")
    with data_parallel.training(case, place_of(2), workload_module("mlp")) as training:
        assert device.product_types(training.step, None) == expected


def test_discovery_names_what_torch_finds():
    found = device.discover()
    assert found["version"] == torch.__version__
    assert found["details"]["torch.cuda.device_count"] == len(found["gpus"]) == torch.cuda.device_count()


def test_an_allocation_that_is_too_large_is_out_of_memory():
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 50)
    assert device.is_out_of_memory(raised.value)
    assert not device.is_out_of_memory(RuntimeError("something else"))


def test_a_gpu_that_pytorch_does_not_find_is_no_other_device():
    if torch.cuda.is_available():
        pytest.skip("PyTorch finds a GPU here")
    with pytest.raises(RuntimeError, match="finds no GPU"):
        device.take(case_of("mlp", "single", 1, kind="gpu"), place_of(1, kind="gpu"))


def test_an_amd_gpu_is_known_as_rocm_names_it(monkeypatch):
    # hipDeviceGetUuid copies the letters after "GPU-".
    letters = SimpleNamespace(uuid=SimpleNamespace(bytes=list(b"0A1B2c3d4e5f6789")))
    monkeypatch.setattr(torch.version, "hip", "7.0.2")
    assert device.gpu_id(letters) == "GPU-0a1b2c3d4e5f6789"


@pytest.mark.gpu
@NEEDS_GPUS
def test_data_parallel_uses_every_gpu():
    found = trained(data_parallel, "resnet20", place_of(2, kind="gpu"), steps=8)
    assert found["world_size"] == 2
    assert found["losses"][-1] < found["losses"][0]


@pytest.mark.gpu
@NEEDS_GPUS
def test_gpus_are_known_by_uuid():
    assert all(id.startswith("GPU-") for id in device.observed(place_of(2, kind="gpu")))
