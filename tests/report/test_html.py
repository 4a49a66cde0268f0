"""The page as text: what stands in it, and that nothing from a record is more than text."""

import html
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from gpubench.report.html import render, write_html
from gpubench.spec.record import Check, GpuFacts, GpuSystem, RunRecord, SamplerCost
from gpubench.spec.verification import Verification
from tests.builders import make_case, make_launches, make_lost, make_record, make_run


@dataclass(frozen=True)
class SavedRun:
    name: str
    records: list[RunRecord]
    path: Path = Path("unused")
    warnings: list[str] = field(default_factory=list)
    verifications: list[Verification] = field(default_factory=list)


def words(page: str) -> str:
    """The page without its tags, as it is read."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", body))


CPU = SavedRun("0001_first", make_run("cpu"), warnings=["1 line was torn and is left out"])
PAGE = render([CPU])
TEXT = words(PAGE)


def test_the_verdict_stands_before_every_table():
    assert PAGE.index('class="verdicts"') < PAGE.index("<table>")
    assert "torch ddp, resnet20: 2 CPU shares train 1." in TEXT
    assert "1 launch failed (1 rank died); 1 case skipped" in TEXT


def test_a_cpu_run_says_so_in_the_verdict_and_above_the_table():
    head, tail = PAGE.split("<table>", 1)
    assert head.count("CPU shares (1 core each): not GPU figures") >= 2
    assert "CPU shares (1 core each): not GPU figures" in tail  # the plot's caption


def test_failed_and_skipped_cases_have_their_reason_remedy_and_log():
    assert "rank died in round on rank 0: rank 0 of 1 ended with exit code -9 in round 2" in TEXT
    assert "To do: the kernel ended it" in TEXT
    assert "Killed" in TEXT
    assert "nn.DataParallel silently uses one device on a CPU" in TEXT


def test_the_environment_is_there_with_the_reason_for_no_nvml():
    for told in (
        "test-machine",
        "Test OS 1",
        "Test CPU, 16 cores, 8.00 GiB",
        "libnvidia-ml.so.1 was not found",
        "1.2.3",
    ):
        assert told in TEXT
    assert "1 line was torn and is left out" in TEXT


def test_every_sampled_case_has_a_trace_with_its_rounds():
    sampled = {record.case for record in CPU.records if record.telemetry.devices}
    assert PAGE.count('<figure class="trace"') == len(sampled)
    keys = 1  # in the legend
    assert PAGE.count('class="round"') == 3 * len(sampled) + keys


def test_eight_gpus_have_a_panel_each():
    page = render([SavedRun("x", make_launches(make_case("ddp", 8, device_kind="gpu"), [100.0]))])
    assert page.count("<polyline") == 8
    assert "GPU-00000007" in words(page)


def test_the_legend_explains_every_kind_of_mark_that_is_there_and_no_other():
    record = make_record(make_case("ddp", 2), utilization_percent=99.0)
    control = replace(record.rounds[0], index=9)
    told = words(render([SavedRun("x", [replace(record, telemetry=replace(record.telemetry, control=control))])]))
    assert "timed round control round, with the sampler paused" in told
    assert "others disturbed" not in told
    assert "held down by heat" not in told


def test_a_lost_launch_has_the_number_of_its_log():
    told = words(render([SavedRun("x", [make_lost(make_case(), "oom", "out of memory", launch=1)])]))
    assert "resnet20-torch-single-1x32-fp32, launch 1: oom" in told


def test_launches_that_were_lost_alike_are_told_of_once():
    case = make_case()
    lost = [make_lost(case, "oom", "out of memory", launch=i, log_tail=[f"the log of {i}"]) for i in range(30)]
    page = render([SavedRun("x", [*lost, make_lost(case, "failed", "it broke", launch=30)])])
    told = words(page)
    assert "launches 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 20 more: oom" in told
    assert "launch 30: failed" in told
    assert page.count('<div class="lost">') == 2
    assert "the log of 0" in told
    assert "the log of 1" not in told


def test_a_page_draws_no_more_figures_and_traces_than_it_has_room_for(monkeypatch):
    monkeypatch.setattr("gpubench.report.plots.MOST_FIGURES", 2)
    monkeypatch.setattr("gpubench.report.html.MOST_TRACES", 2)
    page = render([SavedRun("x", [make_record(make_case(workload=f"w{i}")) for i in range(5)])])
    assert page.count('<figure class="plot">') == 2
    assert page.count('<figure class="trace') == 2
    told = words(page)
    assert "3 more figures would be too many to draw" in told
    assert re.search("No trace of w2-[^ ]*, w3-[^ ]*, w4-[^ ]*: the page has those of 2 others", told)


def test_a_case_whose_series_are_elsewhere_says_so():
    record = make_record()
    bare = [replace(device, time_ns=[], series={}) for device in record.telemetry.devices]
    telemetry = replace(record.telemetry, devices=bare, series_file="x.series/a.parquet")
    told = words(render([SavedRun("x", [replace(record, telemetry=telemetry)])]))
    assert "resnet20-torch-single-1x32-fp32: its readings are in x.series/a.parquet, which was not there" in told


def sampled(cost: SamplerCost, control: bool) -> list[RunRecord]:
    """Three launches whose steps take 2 % longer than in their control rounds."""
    records = make_launches(make_case(), [100.0, 101.0, 102.0])
    for i, record in enumerate(records):
        first, last = record.rounds[0], record.rounds[-1]
        without = replace(
            first,
            start_ns=first.end_ns,
            end_ns=first.end_ns,
            rank_seconds=[last.seconds / 1.02 / last.steps * first.steps],
        )
        telemetry = replace(record.telemetry, cost=cost, control=without if control else None)
        records[i] = replace(record, telemetry=telemetry)
    return records


COST = SamplerCost(
    cpu_seconds=0.02,
    seconds=10.0,
    sweeps=100,
    sweep_seconds_p50=0.0012,
    sweep_seconds_p99=0.002,
    late_seconds_p99=0.0005,
    dropped_ticks=1,
    slowed_calls=["processes"],
)


def test_what_sampling_cost_and_did_is_told():
    told = words(render([SavedRun("x", sampled(COST, control=True))]))
    assert (
        "Sampling took 0.200 % of a core; a sweep took 1.2 ms (99 % under 2.0 ms); 99 % of sweeps were less than "
        "0.50 ms late; 3 ticks were dropped; too slow for every sweep: processes. Steps were 2.00 % longer with "
        "sampling than without (95 % interval +2.00 to +2.00 %), by 3 control rounds."
    ) in told


def test_without_a_control_round_the_effect_of_sampling_is_not_known():
    told = words(render([SavedRun("x", sampled(SamplerCost(cpu_seconds=0.02, sweeps=2), control=False))]))
    assert "what it did to the training is not known" in told
    assert "% of a core" not in told


def test_the_environment_has_what_was_read_of_the_gpus_folded():
    gpus = [GpuFacts(id=HOSTILE, name="Test GPU", index=i, power_limit_watts=700.0, cpus=f"{i}") for i in range(2)]
    system = GpuSystem(nvml="12.1", gpus=gpus, links=[["X", "SYS"], ["SYS", "X"]], p2p=[["X", "OK"], [HOSTILE, "X"]])
    record = make_record(make_case(device_kind="gpu"))
    page = render([SavedRun("x", [replace(record, telemetry=replace(record.telemetry, system=system))])])
    folded = "".join(re.findall(r"<details>.*?</details>", page, flags=re.S))
    for told in ("power limit", "700 W", "CPUs near it", "GPU 1", "SYS: between NUMA nodes", "P2P"):
        assert told in folded
    assert page.count("<script") == 1


def test_each_doubt_is_there_once_with_its_cases_and_its_remedy():
    records = [
        replace(record, observed=replace(record.observed, replicas_equal=False))
        for case in (make_case("ddp", 2), make_case("trainer", 2))
        for record in make_launches(case, [100.0])
    ]
    text = words(render([SavedRun("x", records)]))
    assert text.count("check the all-reduce") == 1
    assert text.count("the replicas hold different parameters at the end") >= 2


def test_the_page_refers_to_nothing_outside_itself():
    targets = re.findall(r'\b(?:src|href|action)="([^"]*)"', PAGE) + re.findall(r"url\(([^)]*)\)", PAGE)
    assert targets
    assert all(target.startswith(("data:", "#")) for target in targets)
    assert "default-src 'none'" in html.unescape(PAGE)


def test_no_id_is_used_twice():
    ids = re.findall(r'\bid="([^"]*)"', render([CPU, SavedRun("0002_gpu", make_run("gpu"))]))
    assert ids
    assert len(ids) == len(set(ids))


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m'


def test_hostile_names_are_text():
    case = make_case(HOSTILE, 2, framework=HOSTILE, workload=HOSTILE)
    check = Check(name=HOSTILE, severity="severe", message=HOSTILE, remedy=HOSTILE)
    device = replace(make_record().machine.devices[0], id=HOSTILE, name=HOSTILE)
    record = make_record(case, checks=[check], software={HOSTILE: HOSTILE}, environment={HOSTILE: HOSTILE})
    record = replace(
        record,
        started_at=HOSTILE,
        machine=replace(record.machine, name=HOSTILE, os=HOSTILE, cpu=HOSTILE, devices=[device], nvml_reason=HOSTILE),
    )
    telemetry = replace(record.telemetry, devices=[replace(record.telemetry.devices[0], id=HOSTILE)])
    lost = make_lost(case, "failed", HOSTILE, remedy=HOSTILE, log_tail=[HOSTILE], launch=1)
    page = render([SavedRun(HOSTILE, [replace(record, telemetry=telemetry), lost], warnings=[HOSTILE])])
    assert page.count("<script") == 1
    assert "<img src=x" not in page
    assert "\x1b" not in page


@pytest.mark.parametrize("runs", [[], [SavedRun("empty", [])]], ids=["no run", "no record"])
def test_nothing_to_report_is_said(runs):
    assert "There are no records to report." in render(runs)


def test_gpus_and_cpu_shares_stand_in_sections_of_their_own():
    page = render(
        [SavedRun("both", [*make_launches(make_case(), [9.0]), *make_launches(make_case(device_kind="gpu"), [9.0])])]
    )
    assert page.count("<section>") == 2


def test_a_single_device_gives_no_verdict():
    assert "nothing to say about scaling" in render([SavedRun("one", make_launches(make_case(), [100.0]))])


def test_the_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    output = tmp_path / "deep" / "report.html"
    write_html([CPU], output)
    before = output.read_text(encoding="utf-8")
    made_at = re.compile("Page made [0-9: UTC-]+")
    assert made_at.sub("", before) == made_at.sub("", PAGE)

    def full_disk(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_html([], output)
    assert output.read_text(encoding="utf-8") == before
    assert [path.name for path in output.parent.iterdir()] == ["report.html"]
