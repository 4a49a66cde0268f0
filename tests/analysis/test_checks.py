"""Every doubt about a launch is raised when it should be, and none where a thing was not observed."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from gpubench.analysis.checks import CONDITIONS, doubts
from gpubench.spec.case import Device
from gpubench.spec.record import Host, Observed, RunRecord, Telemetry
from tests.analysis.test_load import loaded
from tests.builders import make_case, make_lost, make_record


def names(record: RunRecord) -> list[str]:
    return [check.name for check in doubts(record)]


def severities(record: RunRecord) -> dict[str, str]:
    return {check.name: check.severity for check in doubts(record)}


def observing(record: RunRecord, **observed: Any) -> RunRecord:
    return replace(record, observed=replace(record.observed, **observed))


def with_rounds(record: RunRecord, **changes: Any) -> RunRecord:
    """The fields of all rounds replaced; `lasting` seconds from start to end, else as long as the slowest rank."""
    lasting = changes.pop("lasting", max(changes.get("rank_seconds", []), default=None))
    rounds = [replace(each, **changes) for each in record.rounds]
    if lasting is not None:
        rounds = [replace(each, end_ns=each.start_ns + round(lasting * 1e9)) for each in rounds]
    return replace(record, rounds=rounds)


def spanning(*starts: float) -> RunRecord:
    """Ranks that began so many seconds apart and took 2 s each."""
    spans = [(100 * 10**9 + round(start * 1e9), 102 * 10**9 + round(start * 1e9)) for start in starts]
    begin, end = min(a for a, _ in spans), max(b for _, b in spans)
    rounds = [replace(TWO.rounds[0], start_ns=begin, end_ns=end, rank_seconds=[2.0, 2.0], rank_spans_ns=spans)]
    return replace(TWO, rounds=rounds, telemetry=Telemetry())


def warmed_up(factor: float) -> RunRecord:
    """After a steady warm-up whose steps took so many times as long as those of the rounds."""
    each = factor * TWO.rounds[0].seconds / TWO.rounds[0].steps
    changed = replace(TWO.warmup, seconds=11 * each, steps=11, first_step_seconds=each, step_seconds=[each] * 11)
    return replace(TWO, warmup=changed)


TWO = make_record(make_case("ddp", 2))
ONE_PROCESS = make_record(make_case("mirrored", 2, framework="tensorflow"), ranks=1)
WIDE = make_record(replace(make_case("mirrored", 2), cores_per_device=4), ranks=1)
GPUS = make_record(make_case("ddp", 2, device_kind="gpu"))
ONE_GPU = make_record(make_case(device_kind="gpu"))
BF16 = make_record(make_case("ddp", 2, precision="bf16"))
TF32 = make_record(make_case("ddp", 2, device_kind="gpu", precision="tf32"))


@pytest.mark.parametrize("record", [TWO, ONE_PROCESS, WIDE, GPUS, make_record()])
def test_a_sound_record_raises_no_doubt(record):
    assert doubts(record) == []


def test_a_cpu_share_under_a_gpus_name_has_no_number():
    named = [replace(device, name="NVIDIA H200") for device in TWO.devices]
    assert "contradiction" in {check.name for check in doubts(replace(TWO, devices=named))}


def test_a_mig_instance_that_cuda_calls_a_gpu_is_the_right_device():
    part = Device(kind="gpu", id="MIG-a1b2", name="MIG 3g.40gb")
    record = replace(observing(ONE_GPU, device_ids=["GPU-a1b2"]), devices=[part], telemetry=Telemetry())
    assert "wrong_devices" not in {check.name for check in doubts(record)}
    other = replace(record, devices=[replace(part, id="MIG-ffff")])
    assert "wrong_devices" in {check.name for check in doubts(other)}


@pytest.mark.parametrize("record", [TWO, ONE_PROCESS, GPUS])
def test_what_older_versions_did_not_observe_is_not_doubted(record):
    first = {name: getattr(record.observed, name) for name in ("world_size", "device_ids", "parameters")}
    blind = replace(record, observed=Observed(**first), telemetry=Telemetry())
    assert doubts(with_rounds(blind, rank_cpu_seconds=[])) == []


@pytest.mark.parametrize("record", [TWO, ONE_PROCESS, GPUS])
def test_a_launch_of_which_nothing_was_observed_has_no_number(record):
    blind = replace(record, observed=Observed(), telemetry=Telemetry(), warmup=None)
    [check] = doubts(with_rounds(blind, rank_cpu_seconds=[]))
    assert (check.name, check.severity) == ("contradiction", "severe")


def test_a_launch_that_failed_has_no_number_to_doubt():
    assert doubts(make_lost(make_case("ddp", 2), "timeout", "rank 1 did not answer")) == []


@pytest.mark.parametrize(
    ("name", "severity", "record"),
    [
        ("world_size", "severe", observing(TWO, world_size=1)),
        ("wrong_devices", "severe", observing(TWO, device_ids=["cores 0-1"])),
        ("wrong_devices", "severe", observing(TWO, device_ids=["x0", "x1"])),
        ("wrong_devices", "severe", observing(TWO, device_ids=["gpu(0)", "gpu(1)"])),
        ("wrong_devices", "severe", observing(GPUS, device_ids=["x0", "x1"])),
        ("wrong_devices", "severe", observing(GPUS, device_ids=["gpu(0)", "gpu(7)"])),
        ("wrong_devices", "severe", observing(GPUS, device_ids=["0000:17:00.0", "0000:17:00.0"])),
        ("samples_counted", "severe", with_rounds(TWO, samples=1)),
        ("time_does_not_add_up", "severe", with_rounds(GPUS, lasting=1.0)),
        ("time_does_not_add_up", "severe", with_rounds(ONE_GPU, lasting=1.93)),
        ("ranks_apart", "warning", spanning(0.0, 0.022)),
        ("unlike_warm_up", "warning", warmed_up(1 / 1.9)),
        ("unlike_warm_up", "warning", warmed_up(1.9)),
        ("unlike_warm_up", "severe", warmed_up(1 / 3.1)),
        ("unlike_warm_up", "severe", warmed_up(3.1)),
        ("ranks_apart", "severe", spanning(0.0, 2.0)),  # one after another
        ("contradiction", "severe", observing(TWO, flops_per_step=1)),
        ("telemetry_contradiction", "warning", make_record(ONE_GPU.case, utilization_percent=137.0)),
        ("replicas_differ", "severe", observing(TWO, replicas_equal=False)),
        ("loss_not_finite", "severe", observing(TWO, loss_last=None, loss_finite=False)),
        ("loss_not_finite", "severe", observing(TWO, loss_last=float("nan"))),
        ("loss_did_not_fall", "warning", observing(TWO, loss_last=2.3)),
        ("parameters_did_not_move", "severe", observing(TWO, moving_digests=[["a", "b"], ["c", "b"], ["d", "e"]])),
        ("parameters_did_not_move", "severe", observing(TWO, moving_digests=[["a", "a"], ["b", "b"], ["b", "b"]])),
        ("parameters_did_not_move", "severe", observing(TWO, moving_digests=[["a", "a"], ["a", "a"]])),
        ("precision", "severe", observing(TWO, parameter_types=["float64"])),
        ("precision", "severe", observing(TWO, input_types=["float16"])),
        ("precision", "severe", observing(TWO, product_types=["bfloat16", "float32"])),
        ("precision", "severe", observing(BF16, product_types=["float16"])),
        ("precision", "severe", observing(BF16, product_types=["float32"])),
        ("precision", "severe", observing(GPUS, tf32=True)),
        ("precision", "severe", observing(TF32, tf32=False)),
        ("precision", "severe", replace(TF32, environment={"NVIDIA_TF32_OVERRIDE": "0"})),
        ("precision", "severe", replace(TWO, environment={"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"})),
        ("timing_cost", "warning", replace(TWO, warmup=replace(TWO.warmup, empty_round_seconds=0.003))),
        ("timing_cost", "severe", replace(TWO, warmup=replace(TWO.warmup, empty_round_seconds=0.2))),
        ("parameters", "severe", observing(TWO, parameters=1)),
        ("no_steady_state", "severe", replace(TWO, warmup=replace(TWO.warmup, steady=False))),
        ("too_many_cores", "severe", with_rounds(TWO, rank_seconds=[2.0, 2.0], rank_cpu_seconds=[2.0, 3.0])),
        ("imbalance", "warning", with_rounds(GPUS, rank_seconds=[2.0, 1.7], rank_cpu_seconds=[])),
        ("utilization_zero", "warning", make_record(ONE_GPU.case, utilization_percent=0.0)),
        ("sampled_other_devices", "warning", replace(GPUS, telemetry=ONE_GPU.telemetry)),
        ("foreign_load", "warning", loaded([[95.0]], [[1.7]])),  # 1.9 s busy, 1.7 s ours: 10 %
        ("foreign_load", "severe", loaded([[95.0]], [[1.2]])),  # 1.9 s busy, 1.2 s ours: 35 %
        ("stolen_time", "warning", loaded([[90.0]], [[1.8]], steal=[10.0])),
        ("stolen_time", "severe", loaded([[60.0]], [[1.2]], steal=[40.0])),
    ],
)  # fmt: skip
def test_each_doubt_is_raised_with_its_severity_and_a_remedy(name, severity, record):
    [check] = doubts(record)
    assert (check.name, check.severity) == (name, severity)
    assert check.message
    assert check.remedy


@pytest.mark.parametrize(
    "record",
    [
        loaded([[60.0], [60.0]], [[2.4]]),  # one process, two cores, 1.2 of them busy
        with_rounds(TWO, rank_seconds=[1.9, 1.8], rank_cpu_seconds=[1.9, 1.8]),
        spanning(0.0, 0.018),
        observing(GPUS, device_ids=["0000:17:00.0", "0000:65:00.0"]),  # PCI addresses say nothing against UUIDs
        observing(GPUS, device_ids=["gpu(0)", "gpu(1)"]),  # as MXNet calls the GPUs that its process sees
        observing(TWO, loss_last=None),  # not told, which is not the same as not finite
        observing(TWO, loss_finite=True),
        observing(TWO, moving_digests=[["a", "a"], ["b", "b"], ["c", "c"]]),
        observing(TWO, parameter_types=["float32"], input_types=["float32"], product_types=["float32"], tf32=True),
        observing(BF16, parameter_types=["float32"], input_types=["float32"], product_types=["bfloat16"]),
        observing(GPUS, product_types=["float32"], tf32=False),
        observing(TF32, product_types=["float32"], tf32=True),
        replace(GPUS, environment={"NVIDIA_TF32_OVERRIDE": "0"}),  # fp32 is fp32
        replace(BF16, environment={"ONEDNN_DEFAULT_FPMATH_MODE": "STRICT"}),
        replace(TWO, warmup=replace(TWO.warmup, empty_round_seconds=0.0015)),  # of rounds of 2 s
        warmed_up(1.7),
        warmed_up(1 / 1.7),
        loaded([[95.0]], [[1.82]]),  # 1.9 s busy, 1.82 s ours: 4 %, which the timer may make
        loaded([[90.0]], [[1.8]], steal=[4.0]),
    ],
)
def test_what_is_within_its_limit_raises_no_doubt(record):
    assert names(record) == []


def test_a_round_that_lasted_longer_than_its_ranks_is_doubted_in_older_records_too():
    assert names(with_rounds(GPUS, lasting=2.3)) == ["time_does_not_add_up", "ranks_apart"]
    seconds = GPUS.rounds[0].seconds
    assert names(with_rounds(GPUS, lasting=1.03 * seconds)) == ["ranks_apart"]
    assert names(with_rounds(GPUS, lasting=1.005 * seconds)) == []


def test_foreign_load_names_the_rounds_that_it_fell_into_and_is_judged_by_their_mean():
    # none, none, and 50 % of a round of 2 s: 1 of 6 s
    [check] = doubts(loaded([[95.0, 95.0, 95.0]], [[1.9], [1.9], [0.9]]))
    assert (check.name, check.severity) == ("foreign_load", "warning")
    assert "17 % of the cores' time" in check.message
    assert "in round 2 of 3" in check.message


def test_shares_that_lay_idle_on_a_quiet_machine_were_not_used():
    # two cores: 2.1 of 4 core-seconds busy, 2.0 of them ours: nobody else had the other share
    assert severities(loaded([[52.0], [53.0]], [[2.0]])) == {"shares_not_used": "severe"}


def test_where_others_had_the_cores_it_cannot_be_told_whether_shares_were_used():
    # two cores: 3.8 of 4 core-seconds busy, 1.32 of them ours: 62 % went to others
    found = loaded([[95.0], [95.0]], [[1.32]])
    assert severities(found) == {"shares_not_used": "warning", "foreign_load": "severe"}
    assert "62 %" in next(check.message for check in doubts(found) if check.name == "shares_not_used")


def test_where_the_host_gave_the_cores_to_others_it_cannot_be_told_whether_shares_were_used():
    found = loaded([[50.0], [50.0]], [[2.0]], steal=[20.0])
    assert severities(found) == {"shares_not_used": "warning", "stolen_time": "warning"}


def test_without_telemetry_it_cannot_be_told_whether_shares_were_used():
    found = replace(loaded([[50.0], [50.0]], [[2.0]]), telemetry=Telemetry(reason="not sampled"))
    assert severities(found) == {"shares_not_used": "warning", "telemetry_incomplete": "warning"}


def test_wide_shares_that_were_not_used_are_found():
    seconds = WIDE.rounds[0].seconds
    half = with_rounds(WIDE, rank_cpu_seconds=[4 * seconds])
    quiet = replace(
        half,
        telemetry=replace(
            half.telemetry,
            devices=[
                replace(device, rounds=[replace(each, utilization_percent=50.0) for each in device.rounds])
                for device in half.telemetry.devices
            ],
        ),
        devices=[replace(device, cores=tuple(range(4 * i, 4 * i + 4))) for i, device in enumerate(half.devices)],
    )
    assert severities(quiet)["shares_not_used"] == "severe"


@pytest.mark.parametrize(
    ("environment", "severity"),
    [
        ({"CUDA_LAUNCH_BLOCKING": "1"}, "severe"),
        ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, "severe"),
        ({"MXNET_ENGINE_TYPE": "NaiveEngine"}, "severe"),
        ({"TF_CPP_MAX_VLOG_LEVEL": "3"}, "severe"),
        ({"LD_PRELOAD": "/usr/lib/libasan.so.8"}, "severe"),
        ({"LD_PRELOAD": "/usr/lib/libjemalloc.so"}, "warning"),
        ({"NCCL_P2P_DISABLE": "1"}, "warning"),
        ({"TF_ENABLE_ONEDNN_OPTS": "0"}, "warning"),
        ({"XLA_FLAGS": "--xla_gpu_autotune_level=2 --xla_dump_to=/tmp/x"}, "warning"),
        ({"NCCL_P2P_DISABLE": "1", "CUDA_LAUNCH_BLOCKING": "1"}, "severe"),
        ({"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default"}, "warning"),
        ({"MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "MKL_DEBUG_CPU_TYPE": "5"}, "warning"),
        ({"OPENBLAS_CORETYPE": "Haswell"}, "warning"),
        ({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}, "warning"),
        ({"ONEDNN_VERBOSE": "all"}, "severe"),
    ],
)
def test_variables_that_slow_a_framework_down_are_named_with_what_they_do(environment, severity):
    [check] = doubts(replace(TWO, environment=environment))
    assert (check.name, check.severity) == ("debug_environment", severity)
    for name, value in environment.items():
        assert f"{name}={value}" in check.message
        assert name in check.remedy


@pytest.mark.parametrize(
    "environment",
    [
        {"CUDA_LAUNCH_BLOCKING": "0", "NCCL_P2P_DISABLE": "", "PYTHONDEVMODE": "off"},
        {"TORCH_DISTRIBUTED_DEBUG": "INFO", "NCCL_DEBUG": "WARN", "TF_CPP_MIN_LOG_LEVEL": "2"},
        {"OMP_NUM_THREADS": "1", "TF_CPP_MAX_VLOG_LEVEL": "0", "TF_ENABLE_ONEDNN_OPTS": "1", "LD_PRELOAD": ""},
        {"ONEDNN_MAX_CPU_ISA": "DEFAULT", "ONEDNN_VERBOSE": "0", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100"},
        {"MXNET_ENGINE_TYPE": "ThreadedEnginePerDevice", "XLA_FLAGS": "--xla_gpu_autotune_level=2"},
    ],
)
def test_variables_that_do_no_harm_are_left_alone(environment):
    assert doubts(replace(TWO, environment=environment)) == []


def test_what_spoils_one_launch_and_what_spoils_the_work_are_told_apart():
    assert {"foreign_load", "no_steady_state"} <= CONDITIONS
    assert not {"world_size", "replicas_differ", "parameters", "samples_counted", "loss_not_finite"} & CONDITIONS


def test_the_checks_import_neither_numpy_nor_pandas():
    code = "import gpubench.analysis.checks, sys; print({'numpy', 'pandas', 'scipy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_a_machine_that_swapped_is_doubted():
    record = make_record()
    assert "swap" not in names(record)
    assert "swap" not in names(replace(record, host=Host(swap_in_bytes=0, swap_out_bytes=0)))
    assert "swap" in names(replace(record, host=Host(swap_in_bytes=0, swap_out_bytes=4096)))


def test_a_debug_build_is_doubted():
    record = make_record()
    assert "debug_build" not in names(record)
    assert "debug_build" in names(replace(record, software={"torch": "2.13.0 (debug build)"}))
