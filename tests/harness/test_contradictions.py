"""What the harness writes never contradicts itself; a record of it that was changed gives no unmarked number.

Every field of a record is named here, by what a change of it may do: a new one fails these tests until it is named too.
"""

import dataclasses
import math
import typing
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench.analysis.checks import doubts
from gpubench.analysis.scaling import CaseSummary, summarize
from gpubench.files import store
from gpubench.harness import machine, runner
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.plan import Cases, Plan, cases
from gpubench.harness.runner import Timing
from gpubench.harness.session import Session
from gpubench.spec.record import RunRecord, Schedule, to_json
from gpubench.spec.steady import steady_seconds
from tests.builders import make_case, make_launches, make_machine

# Changed alone, each of these contradicts another field, whatever it is changed to.
HELD = {
    "Case": "n_devices per_device_batch global_batch cores_per_device device_kind workload framework",
    "Device": "kind cores",
    "Round": "index start_ns end_ns steps samples rank_seconds rank_spans_ns",
    "WarmUp": "seconds steps first_step_seconds step_seconds steady round_seconds",
    "Observed": "world_size device_ids parameters flops_per_step loss_finite replica_digests replicas_equal "
    "moving_digests",
    "Outcome": "rank phase message remedy log log_tail",
    "Machine": "cpu cores memory_bytes os driver cuda cpu_quota_cores cpuset",
    "RunRecord": "devices rounds launch",
    "Schedule": "pair_id paired_as",
    "DeviceTelemetry": "id rounds",
    "RoundTelemetry": "index power_watts energy_integrated_joules",
}
# Measured, with nothing else in the record to hold it against but what can be: only the impossible is found.
MEASURED = {
    "Round": "rank_cpu_seconds cpu_periods cpu_throttled_periods cpu_throttled_seconds",
    "WarmUp": "empty_round_seconds",
    "Observed": "loss_first loss_last peak_memory_bytes parameter_types input_types product_types tf32",
    "RoundTelemetry": "utilization_percent memory_used_bytes energy_joules energy_source energy_error_joules "
    "energy_problem throttle_ns steal_percent clock_event_reasons xids ecc_uncorrected processes",
    "DeviceTelemetry": "time_ns series xids",
    "Telemetry": "devices reason control other_xids",
    "Host": "swap_in_bytes swap_out_bytes stood_still_seconds",
    "GpuFacts": "power_limit_watts memory_used_bytes utilization_percent processes mps_processes",
    "SamplerCost": "sweeps dropped_ticks call_seconds",
    "Device": "memory_bytes",
}
# What a launch is known by: it then counts as another one, or not at all, as if the line were taken out of the file.
NAMES = {
    "Case": "strategy n_nodes precision scaling seed",
    "Device": "id name vendor",
    "Machine": "name devices name_from",
    "RunRecord": "schema record_id run_id started_at case machine software environment checks outcome",
    "Outcome": "status",
}
# Shown or kept as it is; no other figure is made of it.
FREE = {
    "Observed": "peak_memory_of cpu_capability",
    "WarmUp": "verdict",
    "Machine": "nvml_reason amd_reason gpu_refusal cpu_quota_source",
    "RunRecord": "environment_kept_away observed warmup telemetry schedule host",
    "Schedule": "order seed launches position until until_of waited_for_quiet_seconds quiet batch_from",
    "Check": "name severity message remedy",
    "Telemetry": "source period_seconds system cost series_file series_inside",
    "DeviceTelemetry": "name unavailable methods",
    "SamplerCost": "cpu_seconds seconds sweep_seconds_p50 sweep_seconds_p99 late_seconds_p99 slowed_calls",
    "GpuProcess": "pid memory_bytes",
    "GpuSystem": "driver cuda nvml binding cuda_device_order cuda_visible_devices mps_device_enumeration gpus links "
    "p2p",
    "RoundTelemetry": "samples utilization_source memory_reserved_bytes power_average_watts sm_clock_mhz "
    "memory_clock_mhz temperature_celsius memory_temperature_celsius pcie_tx_bytes pcie_rx_bytes pcie_replays "
    "pcie_link_generation pcie_link_width nvlink_tx_bytes nvlink_rx_bytes ecc_corrected remapped_rows gpm unavailable",
    "GpuFacts": "id name index bus_id architecture capability numa_node cpus power_default_limit_watts "
    "power_most_watts sm_clock_max_mhz memory_clock_max_mhz boost_sm_clock_max_mhz application_sm_clock_mhz "
    "default_application_sm_clock_mhz clock_event_reasons ecc mig mig_instances persistence compute_mode "
    "pcie_generation_max pcie_gpu_generation_max pcie_width pcie_width_max nvlinks nvlink_version nvswitch fabric "
    "fabric_clique fabric_degraded gpm memory_bytes ecc_corrected ecc_uncorrected remap_pending unavailable",
}


def classes(kind: Any, found: dict[str, type]) -> dict[str, type]:
    """All dataclasses that a record is made of."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        found[kind.__name__] = kind
        for hint in get_type_hints(kind).values():
            classes(hint, found)
    elif get_origin(kind) is not typing.Literal:
        for part in get_args(kind):
            classes(part, found)
    return found


def named(*tables: dict[str, str]) -> list[str]:
    return [f"{name}.{word}" for table in tables for name, words in table.items() for word in words.split()]


def test_every_field_of_a_record_is_named_once_by_what_a_change_of_it_may_do():
    there = {
        f"{name}.{each.name}" for name, kind in classes(RunRecord, {}).items() for each in dataclasses.fields(kind)
    }
    told = named(HELD, MEASURED, NAMES, FREE)
    assert sorted(told) == sorted(set(told))
    assert set(told) == there


class Silent:
    def phase(self, launch: object, phase: object, samples_per_second: float | None = None) -> None:
        pass


def measured(folder: Path, strategy: str, n_devices: int, launches: int = 3) -> list[RunRecord]:
    """Launches of the fake framework, as the harness writes them in one session."""
    this = machine.describe("box")
    plan = Plan(frameworks=("fake",), strategies=(strategy,), devices=(1, 2), device_kind="cpu")
    found = cases(plan, this, Interpreters(), strict_devices=True)
    wanted = next(one for one in found.runnable if one.case.n_devices == n_devices)
    session = Session(this, Cases([], []), Timing(rounds=3, round_seconds=1.0), Silent(), doubts, logs=folder)
    schedule = Schedule(order="interleaved", seed=0, launches=launches, position=0)
    with session:
        return [session.launch(wanted, number, schedule) for number in range(1, launches + 1)]


class Sessions(dict[str, list[RunRecord]]):
    """Launches by what they are of; a test that fails does not print them all."""

    def __repr__(self) -> str:
        return f"Sessions of {', '.join(self)}"


@pytest.fixture(scope="module")
def sessions(tmp_path_factory) -> dict[str, list[RunRecord]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "TIMING_COST_LIMIT", 1e9)
        folder = tmp_path_factory.mktemp("logs")
        found = {f"{name} {n}": measured(folder, name, n) for name, n in (("ranks", 2), ("replicas", 2), ("single", 1))}
    return Sessions(found | {"gpus": gpus()})


def gpus() -> list[RunRecord]:
    """As of two GPUs, with all that is sampled."""
    made = make_launches(make_case("ddp", 2, device_kind="gpu"), [100.0, 101.0, 99.0], power_watts=500.0)
    found = []
    for record in made:
        spans = [[(each.start_ns, each.end_ns)] * 2 for each in record.rounds]
        rounds = [replace(each, rank_spans_ns=span) for each, span in zip(record.rounds, spans, strict=True)]
        devices = [
            replace(device, rounds=[replace(one, energy_integrated_joules=one.energy_joules) for one in device.rounds])
            for device in record.telemetry.devices
        ]
        found.append(replace(record, rounds=rounds, telemetry=replace(record.telemetry, devices=devices)))
    return found


def test_what_the_harness_writes_reads_back_without_a_contradiction(sessions):
    for records in sessions.values():
        for record in [store.decode(to_json(each)) for each in records]:
            names = {check.name for check in doubts(record)}
            assert not names & {"contradiction", "telemetry_contradiction", "time_does_not_add_up", "samples_counted"}
        [summary] = summarize(records)
        assert "contradiction" not in {check.name for check in summary.checks}


def figures(summary: CaseSummary) -> tuple[list[float | None], list[float | None]]:
    """The rates of a case, and what was sampled of it."""
    interval, usage = summary.samples_per_second_interval, summary.usage
    rates = [summary.samples_per_second, interval and interval.low, interval and interval.high, summary.speedup]
    return rates, [usage.utilization_percent, usage.power_watts, summary.joules_per_sample]


def assert_marked(records: list[RunRecord], changed: RunRecord) -> None:
    """Of a session whose second record was changed: it is refused, or counts nowhere, or in figures as they were.

    What is sampled may be gone or marked alone.
    """
    try:
        read = store.decode(to_json(changed))
    except ValueError:
        return
    [before] = summarize(records)
    for after in summarize([records[0], read, records[2]]):
        if after.samples_per_second is None or read.record_id not in {each.record_id for each in after.counted}:
            continue
        marks = {check.name for check in after.checks}
        if "parameters" in marks:  # of a workload that nobody knows
            continue
        assert after.case == before.case
        (rates, sampled), (rates_before, sampled_before) = figures(after), figures(before)
        assert alike(rates, rates_before)
        assert "telemetry_contradiction" in marks or alike(sampled, sampled_before)


def alike(one: list[float | None], two: list[float | None]) -> bool:
    pairs = list(zip(one, two, strict=True))
    return all(a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-9)) for a, b in pairs)


def places(value: Any, wanted: set[str]) -> list[tuple[Any, ...]]:
    """Where in a record a field of these names is: attribute names and list indices from its root."""
    found = []
    if dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            if f"{type(value).__name__}.{each.name}" in wanted:
                found.append((each.name,))
            found += [(each.name, *rest) for rest in places(getattr(value, each.name), wanted)]
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            found += [(index, *rest) for rest in places(item, wanted)]
    return found


def changed_at(value: Any, place: tuple[Any, ...], change: Any) -> Any:
    if not place:
        return change(value)
    head, *rest = place
    if isinstance(head, str):
        return replace(value, **{head: changed_at(getattr(value, head), tuple(rest), change)})
    return type(value)([changed_at(item, tuple(rest), change) if i == head else item for i, item in enumerate(value)])


def other(value: Any, factor: float, which: int) -> Any:
    """Something else of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return max(value + 1 if factor > 1 else value - 1, round(value * factor) if factor > 1 else 0)
    if isinstance(value, float):
        return value * factor
    if isinstance(value, str):
        return {"cpu": "gpu", "gpu": "cpu", "fake": "torch", "torch": "mxnet"}.get(value, value + "x")
    if isinstance(value, (list, tuple)) and value:
        index = which % len(value)
        if which % 3 == 0:
            return type(value)([*value, value[index]])
        if which % 3 == 1 or dataclasses.is_dataclass(value[0]):
            return value[:index] + value[index + 1 :]
        return type(value)([other(item, factor, which) if i == index else item for i, item in enumerate(value)])
    return value


def picked(sessions: dict[str, list[RunRecord]], table: dict[str, str], index: int) -> tuple[list[RunRecord], Any]:
    """A session, and a place in its second record where a field of the table is."""
    records = list(sessions.values())[index % len(sessions)]
    found = places(records[1], set(named(table)))
    return records, found[index // len(sessions) % len(found)]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    index=st.integers(0, 10**6),
    factor=st.floats(0.01, 0.98) | st.floats(1.02, 100.0),
    which=st.integers(0, 8),
)
def test_a_record_changed_in_a_figure_that_others_depend_on_gives_no_unmarked_number(sessions, index, factor, which):
    records, place = picked(sessions, HELD, index)
    assert_marked(records, changed_at(records[1], place, lambda value: other(value, factor, which)))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(index=st.integers(0, 10**6), which=st.integers(0, 8))
def test_what_no_figure_is_made_of_changes_none(sessions, index, which):
    records, place = picked(sessions, FREE, index)
    assert_marked(records, changed_at(records[1], place, lambda value: other(value, 1.5, which)))


def sampled(**changes: Any) -> RunRecord:
    record = gpus()[1]
    [first, second] = record.telemetry.devices
    first = replace(first, rounds=[replace(first.rounds[0], **changes), *first.rounds[1:]])
    return replace(record, telemetry=replace(record.telemetry, devices=[first, second]))


@pytest.mark.parametrize(
    "changes",
    [
        {"utilization_percent": 137.0},
        {"utilization_percent": -50.0},
        {"memory_used_bytes": 81 * 2**30},
        {"energy_joules": 0.001},
        {"energy_joules": 1e6},
        {"power_watts": 300.0},
        {"index": 7},
        {"throttle_ns": {"thermal": 10**10}},
        {"energy_joules": 100.0, "energy_source": "integrated power", "energy_integrated_joules": None},
    ],
)
def test_impossible_telemetry_is_taken_away_and_the_throughput_stays(changes):
    records = gpus()
    [before] = summarize(records)
    [after] = summarize([sampled(**changes)])
    assert after.samples_per_second == pytest.approx(101.0)
    assert (after.usage.utilization_percent, after.usage.power_watts, after.joules_per_sample) == (None, None, None)
    assert after.usage.memory_used_bytes is None
    assert before.usage.memory_used_bytes is not None
    assert "telemetry_contradiction" in {check.name for check in after.checks}
    assert before.usage.power_watts == pytest.approx(1000.0)


@pytest.mark.parametrize("factor", [1.4, 100.0, 1.001])
def test_a_cut_rank_time_is_found_for_any_number_of_ranks(sessions, factor):
    for name, records in sessions.items():
        cut = [replace(each, rank_seconds=[s / factor for s in each.rank_seconds]) for each in records[1].rounds]
        changed = replace(records[1], rounds=cut)
        assert "time_does_not_add_up" in {check.name for check in doubts(changed)}, name
        older = replace(changed, rounds=[replace(each, rank_spans_ns=None) for each in cut])
        if factor > 1.1:
            assert "time_does_not_add_up" in {check.name for check in doubts(older)}, name


def rising(record: RunRecord, step_seconds: list[float]) -> RunRecord:
    sums = {"seconds": sum(step_seconds), "steps": len(step_seconds), "first_step_seconds": step_seconds[0]}
    sums["round_seconds"] = (record.rounds[0].steps - 0.5) * steady_seconds(step_seconds)
    return replace(record, warmup=replace(record.warmup, step_seconds=step_seconds, **sums))


@pytest.mark.parametrize(
    "step_seconds",
    [[0.1 * 1.1**i for i in range(20)], [0.1 + 0.01 * i for i in range(20)], [0.1 * 0.9**i for i in range(20)]],
)
def test_steps_that_rise_or_fall_are_not_steady_whatever_the_verdict_says(sessions, step_seconds):
    [summary] = summarize([rising(sessions["single 1"][0], step_seconds)])
    assert summary.samples_per_second is None
    assert summary.no_number.name == "no steady state"


def test_gpus_of_one_host_name_are_told_apart_in_one_session():
    case = make_case(device_kind="gpu")
    records = make_launches(case, [100.0] * 3)
    other_machine = replace(make_machine("gpu"), cpu="Other CPU")
    for summary in summarize([*records[:2], replace(records[2], machine=other_machine)]):
        assert summary.no_number.name == "contradiction"
