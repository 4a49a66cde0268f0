"""From what a user asks for to cases; what cannot run is listed with its reason, what is wrong is named."""

from pathlib import Path

import pytest

from gpubench.harness import machine, registry
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.plan import SUITES, Plan, cases, chosen, with_baselines
from gpubench.harness.schedule import interleaved
from gpubench.spec.case import Device
from gpubench.spec.errors import UsageError
from gpubench.spec.record import Machine
from gpubench.spec.workload import WORKLOADS

GIB = 1024**3
GPUS = [Device(kind="gpu", id=f"GPU-{i}", name="Test GPU", memory_bytes=80 * GIB) for i in range(4)]
GPU_BOX = Machine(name="box", os="Linux", cpu="cpu", cores=8, memory_bytes=GIB, devices=GPUS)
CPU_BOX = Machine(name="box", os="Linux", cpu="cpu", cores=4, memory_bytes=GIB, nvml_reason="no library")


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(machine, "physical_cores", lambda: [(0,), (1,), (2,), (3,)])


@pytest.fixture
def everything_installed():
    return Interpreters({name: Path("/usr/bin/python") for name in registry.frameworks()})


def found(plan, box=CPU_BOX, interpreters=None, strict=False):
    return cases(plan, box, interpreters or Interpreters({"torch": Path("python")}), strict_devices=strict)


def test_the_quick_suite_holds_every_combination_that_must_run(everything_installed):
    ids = {
        (c.case.framework, c.case.strategy, c.case.n_devices)
        for c in found(SUITES["quick"], GPU_BOX, everything_installed).runnable
    }
    both = {("tensorflow", s) for s in ("mirrored", "mirrored_fit", "in_graph")}
    both |= {("torch", "data_parallel"), ("torch", "ddp"), ("mxnet", "trainer")}
    assert ids == {(f, "single", 1) for f in ("torch", "tensorflow", "mxnet")} | {(*b, n) for b in both for n in (1, 2)}


def test_data_parallel_is_refused_on_cpu_shares_with_its_reason(everything_installed):
    skipped = found(SUITES["quick"], CPU_BOX, everything_installed).skipped
    assert {(s.case.strategy, s.case.n_devices) for s in skipped} == {("data_parallel", 1), ("data_parallel", 2)}
    assert all("silently uses one device" in s.reason for s in skipped)


def test_a_framework_that_is_not_installed_is_skipped_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setenv("GPUBENCH_HOME", str(tmp_path))
    skipped = found(Plan(frameworks=("mxnet",)), interpreters=Interpreters()).skipped
    assert {s.reason for s in skipped} == {"no Python with mxnet: `gpubench setup mxnet`, or --python mxnet=PATH"}


def test_more_devices_than_there_are_is_a_skip_in_a_suite_and_an_error_when_asked_for():
    plan = Plan(frameworks=("torch",), devices=(1, 2, 16))
    reasons = {s.reason for s in found(plan).skipped if s.case.strategy == "ddp"}
    assert reasons == {"needs 16 devices, 4 found"}
    with pytest.raises(
        UsageError, match="--devices 16: this machine has 4 CPU shares of at least one core; ask for 1 to 4"
    ):
        found(plan, strict=True)


def test_a_share_has_the_same_size_at_every_count():
    runnable = found(Plan(frameworks=("torch",), strategies=("ddp",), devices=(1, 2))).runnable
    shares = {one.case.n_devices: [device.cores for device in one.devices] for one in runnable}
    assert shares == {1: [(0, 1)], 2: [(0, 1), (2, 3)]}
    assert {one.case.per_device_batch for one in runnable} == {2 * WORKLOADS["resnet20"].cpu_batch_per_core}


def test_a_gpu_gets_the_largest_default_batch_that_its_memory_holds():
    plan = Plan(workloads=("resnet50",), frameworks=("torch",), devices=(1,))
    assert {c.case.per_device_batch for c in found(plan, GPU_BOX).runnable} == {256}
    small = Machine(
        **{**GPU_BOX.__dict__, "devices": [Device(kind="gpu", id="GPU-0", name="Test GPU", memory_bytes=12 * GIB)]}
    )
    assert {c.case.per_device_batch for c in found(plan, small).runnable} == {48}


def test_a_strong_scaling_batch_that_does_not_divide_is_refused():
    plan = Plan(
        frameworks=("torch",), strategies=("ddp",), devices=(1, 2, 3), scaling=("strong",), per_device_batch=(32,)
    )
    refused = found(plan).skipped
    assert [(s.case.n_devices, s.reason) for s in refused] == [
        (3, "a global batch of 32 does not divide among 3 devices")
    ]


def test_a_precision_that_a_framework_lacks_is_a_skip():
    plan = Plan(frameworks=("mxnet",), precision=("bf16",), devices=(1,))
    assert {s.reason for s in found(plan).skipped} == {"mxnet runs fp32 on CPU shares, not bf16"}


def test_asking_for_a_strategy_brings_its_baseline():
    plan = with_baselines(Plan(frameworks=("torch",), strategies=("ddp",), devices=(2,)))
    assert {(c.case.strategy, c.case.n_devices) for c in found(plan).runnable} == {
        ("single", 1),
        ("ddp", 1),
        ("ddp", 2),
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workloads": ("resnet5",)}, "no workload 'resnet5'; did you mean resnet50"),
        ({"frameworks": ("pytorch",)}, "no framework 'pytorch'; did you mean torch"),
        ({"strategies": ("ddpp",)}, "no strategy 'ddpp'; did you mean ddp"),
        ({"strategies": ("mxnet:ddp",)}, "no strategy 'mxnet:ddp'"),
        ({"devices": (0,)}, "devices must be 1 to 1,000,000; got 0"),
        ({"precision": ("fp23",)}, "no precision 'fp23'; did you mean fp32"),
        ({"scaling": ("week",)}, "no scaling 'week'"),
        ({"launches": 0}, "launches must be 1 to 10,000; got 0"),
        ({"per_device_batch": (16, -1)}, "per_device_batch must be 1 to 1,000,000,000; got -1"),
        ({"round_seconds": 0.0}, "round_seconds must be over 0"),
        ({"device_kind": "tpu"}, "no device kind 'tpu'"),
        ({"rounds": 15_000, "devices": (1, 2)}, "15,000 rounds on 2 devices are more than one record holds"),
        ({"device_kind": "gpu"}, "No GPU was found: no library"),
    ],
)
def test_a_wrong_word_is_named_with_the_nearest_right_one(settings, message):
    with pytest.raises(UsageError, match=message):
        found(Plan(**settings))


def test_a_plan_file_gives_the_settings_and_options_go_over_it(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text('suite = "standard"\nworkloads = "mlp"\ndevices = [1, 2]\nlaunches = 7\n')
    plan = chosen(None, file, {"launches": 2, "frameworks": ("torch",), "precision": ()})
    assert (plan.workloads, plan.devices, plan.launches, plan.frameworks) == (("mlp",), (1, 2), 2, ("torch",))
    assert plan.rounds == SUITES["standard"].rounds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload = ['mlp']", "no setting 'workload'; did you mean workloads"),
        ("launches = 'three'", "launches must be a whole number; got 'three'"),
        ("devices = [1, 'two']", "devices"),
        ("suite = 'quikc'", "no suite 'quikc'; did you mean quick"),
        ("= 3", "is not TOML"),
    ],
)
def test_a_mistake_in_a_plan_file_is_named(tmp_path, text, message):
    file = tmp_path / "plan.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        chosen(None, file, {})


def test_launches_are_interleaved_in_blocks_by_the_seed():
    order = list(interleaved("abcd", 3, seed=1))
    assert [launch for _, launch in order] == [1] * 4 + [2] * 4 + [3] * 4
    assert sorted(case for case, launch in order if launch == 2) == list("abcd")
    assert order == list(interleaved("abcd", 3, seed=1))
    assert order != list(interleaved("abcd", 3, seed=2))


def test_hardware_threads_of_a_core_stay_in_one_share(monkeypatch):
    monkeypatch.setattr(machine, "physical_cores", lambda: [(0, 4), (1, 5), (2, 6), (3, 7)])
    shares = machine.devices("cpu", 2, CPU_BOX)
    assert [(share.id, share.cores) for share in shares] == [
        ("cores 0-1,4-5", (0, 1, 4, 5)),
        ("cores 2-3,6-7", (2, 3, 6, 7)),
    ]


def test_two_frameworks_of_one_name_are_an_error_that_names_both(monkeypatch):
    monkeypatch.setattr(registry, "BUILT_IN", ("torch", "torch"))
    registry.frameworks.cache_clear()
    with pytest.raises(UsageError, match=r"Two frameworks are called torch: gpubench.frameworks.torch and gpubench"):
        registry.frameworks()
    monkeypatch.undo()
    registry.frameworks.cache_clear()
