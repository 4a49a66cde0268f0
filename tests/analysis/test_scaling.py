"""From records to summaries: throughput, baselines, efficiency, and what takes a number away."""

from dataclasses import replace

import pytest

from gpubench.analysis.scaling import CaseSummary, summarize
from gpubench.spec.record import Check, Round, RunRecord
from tests.builders import make_case, make_launches, make_lost, make_machine, make_record


def summary_of(records: list[RunRecord], strategy: str, n: int) -> CaseSummary:
    [found] = [s for s in summarize(records) if s.case.strategy == strategy and s.case.n_devices == n]
    return found


def two_devices(one: float = 100.0, own: float = 95.0, two: float = 180.0, launches: int = 3) -> list[RunRecord]:
    cases = [(make_case("single", 1), one), (make_case("ddp", 1), own), (make_case("ddp", 2), two)]
    return [record for case, rate in cases for record in make_launches(case, [rate] * launches)]


def test_efficiency_is_against_single_on_one_device_with_the_strategys_own_beside_it():
    two = summary_of(two_devices(), "ddp", 2)
    assert two.samples_per_second == pytest.approx(180)
    assert two.samples_per_second_per_device == pytest.approx(90)
    assert two.speedup == pytest.approx(1.8)
    assert two.scaling_efficiency == pytest.approx(0.9)
    assert two.own_scaling_efficiency == pytest.approx(180 / 95 / 2)


def test_a_strategys_fixed_cost_shows_on_one_device():
    one = summary_of(two_devices(), "ddp", 1)
    assert one.scaling_efficiency == pytest.approx(0.95)
    assert one.own_scaling_efficiency is None


def test_the_headline_is_the_median_across_launches():
    [summary] = summarize(make_launches(make_case(), [90.0, 100.0, 140.0]))
    assert summary.samples_per_second == pytest.approx(100)
    assert summary.samples_per_second_interval is not None


def test_a_round_takes_as_long_as_its_slowest_rank():
    seconds, cpu_seconds = [6.0, 6.4], [6.0, 6.0]
    slow = Round(
        index=0,
        start_ns=0,
        end_ns=6_400_000_000,
        steps=10,
        samples=640,
        rank_seconds=seconds,
        rank_cpu_seconds=cpu_seconds,
    )
    [summary] = summarize([replace(make_record(make_case("ddp", 2)), rounds=[slow])])
    assert summary.samples_per_second == pytest.approx(100)


def test_throughput_times_time_is_the_samples_counted():
    record = make_record(make_case("ddp", 2), samples_per_second=123.4)
    [summary] = summarize([record])
    seconds = sum(each.seconds for each in record.rounds)
    assert summary.samples_per_second is not None
    assert summary.samples_per_second * seconds == pytest.approx(sum(each.samples for each in record.rounds))


def test_weak_and_strong_are_never_compared():
    weak = make_launches(make_case("single", 1, batch=64), [100.0] * 3)
    strong = make_launches(make_case("ddp", 2, batch=64, scaling="strong"), [150.0] * 3)
    assert summary_of(weak + strong, "ddp", 2).speedup is None


def test_the_strong_baseline_runs_the_whole_global_batch_on_one_device():
    one = make_launches(make_case("single", 1, batch=64, scaling="strong"), [100.0] * 3)
    other = make_launches(make_case("single", 1, batch=32, scaling="strong"), [70.0] * 3)
    two = make_launches(make_case("ddp", 2, batch=64, scaling="strong"), [150.0] * 3)
    assert summary_of(one + other + two, "ddp", 2).speedup == pytest.approx(1.5)


@pytest.mark.parametrize(
    "other",
    [
        make_case("single", 1, batch=64),
        make_case("single", 1, framework="mxnet"),
        make_case("single", 1, workload="mlp"),
        make_case("single", 1, precision="bf16"),
        make_case("single", 1, device_kind="gpu"),
        replace(make_case("single", 1), cores_per_device=2),
    ],
)
def test_a_baseline_that_differs_in_anything_is_none(other):
    records = make_launches(other, [100.0] * 3) + make_launches(make_case("ddp", 2), [150.0] * 3)
    assert summary_of(records, "ddp", 2).speedup is None


def test_a_baseline_of_another_machine_is_none():
    elsewhere = make_launches(make_case("single", 1), [100.0] * 3, machine=make_machine(name="elsewhere"))
    assert summary_of(elsewhere + make_launches(make_case("ddp", 2), [150.0] * 3), "ddp", 2).speedup is None


def test_under_three_launches_there_is_a_number_but_no_interval():
    two = summary_of(two_devices(launches=2), "ddp", 2)
    assert two.scaling_efficiency == pytest.approx(0.9)
    assert two.scaling_efficiency_interval is None


def unsteady(record: RunRecord) -> RunRecord:
    assert record.warmup is not None
    return replace(record, warmup=replace(record.warmup, steady=False, verdict="step times kept falling"))


def test_a_launch_under_bad_conditions_is_set_aside_and_the_others_count():
    records = make_launches(make_case("ddp", 2), [180.0, 182.0, 90.0])
    records[-1] = unsteady(records[-1])
    [summary] = summarize(records)
    assert summary.samples_per_second == pytest.approx(181)
    assert [launch.samples_per_second for launch in summary.launches] == pytest.approx([180, 182])
    assert [record.launch for record in summary.counted] == [0, 1]
    assert [(one.launch, one.check.name) for one in summary.set_aside] == [(2, "no_steady_state")]
    assert len(summary.records) == 3
    assert summary.samples_per_second_interval is None  # two launches give none


def test_a_launch_set_aside_is_told_and_nothing_beside_a_number_is_severe():
    records = make_launches(make_case("ddp", 2), [180.0, 182.0, 90.0])
    [summary] = summarize([*records[:2], unsteady(records[2])])
    told, why = summary.checks
    assert (told.name, told.severity) == ("launches_set_aside", "warning")
    assert told.message == "2 of 3 launches count; set aside: launch 2 for no steady state"
    assert (why.name, why.severity) == ("no_steady_state", "warning")
    assert why.message == "step times kept falling (in 1 of 3 launches)"


def test_where_over_half_of_the_launches_are_set_aside_there_is_no_number():
    records = make_launches(make_case("ddp", 2), [180.0, 182.0, 90.0, 91.0, 92.0])
    [summary] = summarize([*records[:2], *map(unsteady, records[2:])])
    assert summary.samples_per_second is None
    assert summary.scaling_efficiency is None
    assert summary.no_number is not None
    assert summary.no_number.name == "no steady state"
    assert summary.no_number.message.endswith("; 2 of 5 launches count: it takes half of them, and two")
    assert summary.checks[0].severity == "severe"


def test_where_all_launches_are_set_aside_the_reason_stands_alone():
    [summary] = summarize([unsteady(record) for record in make_launches(make_case(), [100.0] * 3)])
    assert str(summary.no_number) == "no steady state: step times kept falling"


def test_unequal_work_in_one_launch_takes_the_headline_away():
    records = two_devices()
    records[-1] = replace(records[-1], observed=replace(records[-1].observed, replicas_equal=False))
    two = summary_of(records, "ddp", 2)
    assert two.samples_per_second is None
    assert two.scaling_efficiency is None
    assert two.no_number is not None
    assert two.no_number.name == "replicas differ"
    assert two.no_number.message.endswith("(in 1 of 3 launches)")


def test_unequal_work_comes_before_bad_conditions():
    records = [unsteady(record) for record in make_launches(make_case(), [100.0] * 3)]
    records[-1] = replace(records[-1], observed=replace(records[-1].observed, world_size=7))
    [summary] = summarize(records)
    assert summary.no_number is not None
    assert summary.no_number.name == "world size"


def test_a_baselines_launches_that_were_set_aside_do_not_count_in_the_speedup():
    records = make_launches(make_case("single", 1), [100.0, 100.0, 40.0])
    records[-1] = unsteady(records[-1])
    two = summary_of(records + make_launches(make_case("ddp", 2), [180.0] * 3), "ddp", 2)
    assert two.speedup == pytest.approx(1.8)
    assert two.speedup_interval is None


@pytest.mark.parametrize("name", ["foreign_load", "a_doubt_of_another_version"])
def test_a_severe_check_written_at_run_time_counts_too(name):
    check = Check(name=name, severity="severe", message="another process took 40 % of core 0")
    [summary] = summarize([make_record(checks=[check])])
    assert summary.samples_per_second is None
    assert summary.checks == (check,)


def test_a_severe_check_that_is_not_known_takes_the_case():
    records = make_launches(make_case(), [100.0] * 3)
    strange = Check(name="a_doubt_of_another_version", severity="severe", message="who knows")
    [summary] = summarize([*records[:2], replace(records[2], checks=[strange])])
    assert summary.samples_per_second is None


def test_what_is_compared_with_a_baseline_without_a_number_has_no_speedup():
    records = two_devices()
    records[0] = replace(records[0], observed=replace(records[0].observed, replicas_equal=False))
    two = summary_of(records, "ddp", 2)
    assert two.samples_per_second == pytest.approx(180)
    assert two.speedup is None


def test_failed_launches_are_listed_and_the_others_still_count():
    case = make_case("ddp", 2)
    [summary] = summarize([*make_launches(case, [100.0, 102.0]), make_lost(case, "oom", "out of memory", launch=2)])
    assert summary.samples_per_second == pytest.approx(101)
    assert [(lost.launch, lost.outcome.status) for lost in summary.lost] == [(2, "oom")]


def test_a_case_that_never_ran_says_why():
    [summary] = summarize([make_lost(make_case("ddp", 4), "skipped", "needs 4 devices, 2 found")])
    assert str(summary.no_number) == "skipped: needs 4 devices, 2 found"


def test_rounds_that_took_no_time_give_no_number_and_no_crash():
    record = make_record()
    broken = replace(record, rounds=[replace(each, rank_seconds=[0.0]) for each in record.rounds])
    [summary] = summarize([broken])
    assert summary.samples_per_second is None
    assert summary.no_number is not None


def test_energy_and_power_add_up_the_devices():
    [summary] = summarize(
        [make_record(make_case("ddp", 2, device_kind="gpu"), samples_per_second=100.0, power_watts=300.0)]
    )
    assert summary.usage.power_watts == pytest.approx(600)
    assert summary.joules_per_sample == pytest.approx(6)  # 600 W at 100 samples/s


def test_energy_is_unknown_where_one_devices_is():
    record = make_record(make_case("ddp", 2, device_kind="gpu"), power_watts=300.0)
    first, second = record.telemetry.devices
    second = replace(second, rounds=[replace(each, energy_joules=None) for each in second.rounds])
    [summary] = summarize([replace(record, telemetry=replace(record.telemetry, devices=[first, second]))])
    assert summary.joules_per_sample is None


def test_power_is_unknown_where_a_device_was_not_sampled():
    record = make_record(make_case("ddp", 2, device_kind="gpu"), power_watts=300.0)
    [summary] = summarize([replace(record, telemetry=replace(record.telemetry, devices=record.telemetry.devices[:1]))])
    assert summary.usage.power_watts is None


def test_a_utilisation_of_zero_is_kept_as_a_measurement():
    [summary] = summarize([make_record(make_case(device_kind="gpu"), utilization_percent=0.0)])
    assert summary.usage.utilization_percent == 0
    [summary] = summarize([make_record(utilization_percent=None)])
    assert summary.usage.utilization_percent is None


def test_memory_is_the_devices_on_a_gpu_and_the_workers_own_on_cpu_shares():
    [gpu] = summarize([make_record(make_case(device_kind="gpu"))])
    [cpu] = summarize([make_record()])
    assert (gpu.usage.memory_used_bytes, gpu.usage.memory_of) == (30 * 1024**3, None)
    assert (cpu.usage.memory_used_bytes, cpu.usage.memory_of) == (400 * 1024**2, "process")


def test_an_efficiency_above_one_is_no_headline():
    two = summary_of(two_devices(two=230.0), "ddp", 2)
    assert two.samples_per_second is None
    assert two.no_number is not None
    assert two.no_number.name == "efficiency above one"
