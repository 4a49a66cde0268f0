"""Which launches are of one machine: unlike devices, drivers, hosts and CPU limits are never one case."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from gpubench.analysis.compare import compare, side_of
from gpubench.analysis.scaling import summarize, summarize_runs
from gpubench.files.redaction import redact
from gpubench.files.store import Run, decode
from gpubench.report import plots, tables
from gpubench.report.html import render
from gpubench.spec.case import Device
from gpubench.spec.errors import UsageError
from gpubench.spec.identity import identity, labels
from gpubench.spec.record import Machine, RunRecord, as_dict, to_json
from tests.builders import make_case, make_launches, make_machine

GIB = 1024**3
CONTAINER = replace(make_machine("cpu", name="3f2a9c01d4e5"), name_from="container")


def gpu_box(model: str, uuid: str, memory: int, **changes: object) -> Machine:
    gpu = Device(kind="gpu", id=f"GPU-{uuid}-0000-0000-0000-000000000000", name=model, memory_bytes=memory * GIB)
    return replace(make_machine("gpu", name="box"), devices=[gpu], **changes)


H200 = gpu_box("NVIDIA H200", "aaaaaaaa", 141)
RTX_4090 = gpu_box("NVIDIA GeForce RTX 4090", "bbbbbbbb", 24)
CASE = make_case("single", 1, device_kind="gpu")


def launches(machine: Machine, *rates: float, run: str = "a", case=CASE) -> list[RunRecord]:
    made = make_launches(case, list(rates), machine=machine, run_id=run)
    return [replace(record, record_id=f"{run}-{record.record_id}-{case.id}") for record in made]


def saved(name: str, records: list[RunRecord]) -> Run:
    return Run(name=name, path=Path(f"0001_{name}.jsonl"), records=records)


FAST = launches(H200, 102_400.0, 102_400.0, 102_400.0, run="fast")
SLOW = launches(RTX_4090, 34_133.0, 34_133.0, 34_133.0, run="slow")


def test_two_gpus_under_one_host_name_and_driver_are_two_machines():
    found = {s.machine_label: s.samples_per_second for s in summarize(FAST + SLOW)}
    assert found == {
        "box (1x NVIDIA H200 of 141 GiB)": pytest.approx(102_400, rel=1e-3),
        "box (1x NVIDIA GeForce RTX 4090 of 24 GiB)": pytest.approx(34_133, rel=1e-3),
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"driver": "560.35"},
        {"os": "Test OS 2"},
        {"cpu": "Another CPU"},
        {"cores": 1},
        {"cpu_quota_cores": 1.0},
        {"memory_bytes": 16 * GIB},
        {"name": "other", "name_from": "given"},
        {"devices": [replace(H200.devices[0], id="GPU-cccccccc-0000-0000-0000-000000000000")]},
        {"devices": [replace(H200.devices[0], memory_bytes=94 * GIB)]},
    ],
)
def test_whatever_makes_a_machine_another_keeps_its_launches_apart_and_its_label_too(changes):
    other = replace(H200, **changes)
    found = summarize(FAST + launches(other, 50_000.0, run="other"))
    assert [len(s.records) for s in found] in ([3, 1], [1, 3])
    assert len({s.machine_label for s in found}) == 2
    assert {s.series for s in found} == {s.series for s in summarize(FAST)} | {
        s.series for s in summarize(launches(other, 1.0))
    }


def test_two_gpus_of_one_model_are_told_apart_by_their_uuid():
    twin = gpu_box("NVIDIA H200", "cccccccc", 141)
    assert sorted(labels([H200, twin]).values()) == ["box (GPU-aaaaaaaa)", "box (GPU-cccccccc)"]


def test_a_machine_with_gpus_stays_the_same_under_another_host_name():
    renamed = replace(H200, name="9b1c22d0e4f7", name_from="container")
    [summary] = summarize(FAST + launches(renamed, 102_400.0, run="night"))
    assert len(summary.records) == 4


def test_a_container_is_one_machine_every_night_and_takes_the_name_of_the_last():
    nights = [replace(CONTAINER, name=f"{night:012x}") for night in range(3)]
    case = make_case("single", 1)
    records = [r for i, each in enumerate(nights) for r in launches(each, 100.0, 101.0, 99.0, run=str(i), case=case)]
    records = [replace(r, started_at=f"2026-01-0{1 + i // 3}T00:00:0{i % 3}+00:00") for i, r in enumerate(records)]
    [summary] = summarize(records)
    assert (len(summary.counted), summary.machine_label) == (9, f"{2:012x}")


def test_two_hosts_of_one_kind_without_gpus_are_two_machines_also_after_their_names_are_redacted():
    case = make_case("single", 1)
    records = [r for name in ("a", "b") for r in launches(make_machine(name=name), 100.0, run=name, case=case)]
    assert len(summarize(records)) == 2
    hidden = [decode(to_json_of(each)) for each in redact([as_dict(record) for record in records])]
    assert len({s.machine_label for s in summarize(hidden)}) == 2
    assert not {"a", "b"} & {record.machine.name for record in hidden}


def test_redaction_keeps_one_machine_one_and_two_two():
    nights = [replace(H200, name="night-1"), replace(H200, name="night-2"), RTX_4090]
    machines = [decode(to_json_of(redact([as_dict(launches(each, 1.0)[0])])[0])).machine for each in nights]
    assert identity(machines[0]) == identity(machines[1]) != identity(machines[2])
    named = [replace(H200, name=name, name_from="given") for name in ("one", "two")]
    hidden = [decode(to_json_of(redact([as_dict(launches(each, 1.0)[0])])[0])).machine for each in named]
    assert identity(hidden[0]) != identity(hidden[1])


def to_json_of(record: dict) -> str:
    import json

    return json.dumps(record)


def test_a_record_that_knows_no_limits_is_of_the_machine_that_has_none():
    case = make_case("single", 1)
    [old] = launches(make_machine(), 100.0, case=case)
    new = replace(make_machine(), name_from="host")
    assert identity(old.machine) == identity(new)
    assert decode(to_json(old)).machine.cpu_quota_cores is None


def test_memory_that_the_kernel_keeps_for_itself_makes_no_other_machine():
    assert identity(replace(H200, memory_bytes=8 * GIB - 5)) == identity(replace(H200, memory_bytes=8 * GIB - 10**8))


def test_the_order_of_gpus_counts_as_a_case_on_one_device_takes_the_first():
    two = [*H200.devices, *RTX_4090.devices]
    assert identity(replace(H200, devices=two)) != identity(replace(H200, devices=two[::-1]))


def test_a_gang_is_never_measured_against_another_machines_single():
    gang = launches(RTX_4090, 60_000.0, case=make_case("ddp", 2, device_kind="gpu"), run="gang")
    [of_gang] = [s for s in summarize(FAST + gang) if s.case.n_devices == 2]
    assert (of_gang.baseline, of_gang.speedup) == (None, None)


def test_labels_are_unlike_in_whatever_order_machines_are_named():
    trap = replace(make_machine(name="box (1x NVIDIA H200 of 141 GiB)"), name_from="host")
    machines = [H200, RTX_4090, trap, replace(H200, driver="1"), replace(H200, name_from="given")]
    for order in permutations(machines):
        found = labels(order)
        assert len(found) == len(set(found.values())) == 5


def test_page_and_pictures_of_one_command_come_from_the_same_summaries():
    runs = [saved("fast", FAST), saved("again", launches(H200, 102_400.0, run="again")), saved("slow", SLOW)]
    summaries = summarize_runs(runs)
    page = render(runs, summaries)
    for label in ("box (1x NVIDIA H200 of 141 GiB)", "box (1x NVIDIA GeForce RTX 4090 of 24 GiB)"):
        assert f"<h2>{label}: Does it scale?</h2>" in page
        assert f"<h3>{label}</h3>" in page
    assert page.count("Does it scale?</h2>") == 2  # the two runs of one machine are one section
    assert {figure: figure in page for figure in ("68,267", "102,400", "34,133")} == {
        "68,267": False,
        "102,400": True,
        "34,133": True,
    }
    assert sorted(plots.figures_of(summaries)) == [
        "resnet20-fp32-weak-gpu-box_1x_NVIDIA_GeForce_RTX_4090_of_24_GiB",
        "resnet20-fp32-weak-gpu-box_1x_NVIDIA_H200_of_141_GiB",
    ]
    assert {row["machine"] for row in tables.rows(summaries)} == {s.machine_label for s in summaries}
    assert tables.to_markdown(summaries).count("**box (1x NVIDIA") == 2


def test_the_figures_of_one_machine_have_no_machine_in_their_names():
    assert list(plots.figures_of(summarize(FAST))) == ["resnet20-fp32-weak-gpu"]


def test_a_side_of_a_comparison_is_one_machine_in_one_state():
    with pytest.raises(UsageError, match=r"holds runs of 2 machines.*RTX 4090 of 24 GiB\); box \(1x NVIDIA H200"):
        side_of("both", FAST + SLOW)
    with pytest.raises(UsageError, match=r"driver 1\); box \(driver 2\)"):
        side_of("nights", launches(replace(H200, driver="1"), 1.0) + launches(replace(H200, driver="2"), 1.0, run="b"))


def factors_of(one: Machine, two: Machine, case=CASE) -> dict[str, tuple[str, str]]:
    sides = [side_of("a", launches(one, 1.0, 1.1, case=case)), side_of("b", launches(two, 1.0, run="b", case=case))]
    return {factor.name: (factor.reference, factor.other) for factor in compare(sides).pairs[0].factors}


def test_a_comparison_names_what_differs_and_no_name_of_a_container():
    assert factors_of(CONTAINER, replace(CONTAINER, name="ffffffffffff"), make_case("single", 1)) == {}
    assert factors_of(H200, replace(H200, name="elsewhere", driver="2")) == {"driver": ("999.00", "2")}
    limited = replace(CONTAINER, cpu_quota_cores=1.0, cpu_quota_source="cpu.max", cpuset="0-1")
    found = factors_of(CONTAINER, limited, make_case("single", 1))
    assert found == {"CPU limit": ("none", "a quota of 1 core (cpu.max) and a cpuset of 0-1")}
    assert factors_of(H200, RTX_4090)["machine"] == (
        "box (1x NVIDIA H200 of 141 GiB)",
        "box (1x NVIDIA GeForce RTX 4090 of 24 GiB)",
    )


@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "NCCL_P2P_DISABLE", "A_VARIABLE_OF_NO_LIBRARY"])
def test_a_comparison_names_every_recorded_variable_that_differs(name):
    case = make_case("single", 1)
    with_it = [replace(record, environment={name: "SSE41"}) for record in launches(CONTAINER, 1.0, run="b", case=case)]
    sides = [side_of("a", launches(CONTAINER, 1.0, case=case)), side_of("b", with_it)]
    [factor] = compare(sides).pairs[0].factors
    assert (factor.kind, factor.name, factor.reference, factor.other) == ("condition", name, "not recorded", "SSE41")


def test_a_variable_that_only_some_launches_of_a_side_have_is_named_too():
    case = make_case("single", 1)
    one, two = launches(CONTAINER, 1.0, 1.1, run="b", case=case)
    sides = [
        side_of("a", [replace(record, environment={"X": "1"}) for record in launches(CONTAINER, 1.0, case=case)]),
        side_of("b", [replace(one, environment={"X": "1"}), two]),
    ]
    [factor] = compare(sides).pairs[0].factors
    assert (factor.reference, factor.other) == ("1", "1 and not recorded")
