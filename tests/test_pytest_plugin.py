"""`pytest benchmarks/`: pytest-benchmark's own options, on rounds that were measured elsewhere."""

import json
import shutil
from pathlib import Path

import pytest

from gpubench.files import store

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def bench(pytester, monkeypatch):
    """Runs pytest on the real benchmark file with the fake framework."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):  # of the session that runs these tests
        monkeypatch.delenv(name, raising=False)
    for file in ("test_training.py", "conftest.py"):
        shutil.copy(BENCHMARKS / file, pytester.path / file)

    def run(*words):
        words = ("--frameworks", "fake", "--launches", "1", "--benchmark-storage=file://results", *words)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *words)

    return run


def saved(pytester, number="0001", name="first"):
    (path,) = pytester.path.glob(f"results/*/{number}_{name}.json")
    return json.loads(path.read_text())


def test_ids_name_the_case_and_skips_have_their_reason(bench):
    result = bench("-v", "-rs")
    result.assert_outcomes(passed=5, skipped=2)
    result.stdout.fnmatch_lines(["*test_training[[]resnet20-fake-ranks-2x*-fp32[]]*PASSED*"])
    result.stdout.fnmatch_lines(["SKIPPED*needs a GPU by design"])
    result.stdout.fnmatch_lines(["*throughput and scaling*", "*CPU shares*"])


def test_where_it_is_no_terminal_the_table_is_whole(bench, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    result = bench()
    result.stdout.fnmatch_lines(["*framework*strategy*devices*samples/s*speed-up*efficiency*launches*notes*"])
    result.stdout.no_fnmatch_line("*Too narrow*")


def test_save_puts_both_files_side_by_side_with_exact_durations(bench, pytester, fake):
    fake(step_seconds=0.1)
    result = bench("--benchmark-save=first", "--benchmark-save-data")
    written = saved(pytester)
    (journal,) = pytester.path.glob("results/*/0001_first.jsonl")
    assert written["gpubench_journal"] == journal.name
    records = {r.record_id: r for r in store.load(journal).records}
    assert len(written["benchmarks"]) == 5
    for one in written["benchmarks"]:
        (record,) = one["extra_info"]["records"]
        measured = records[record["record_id"]]
        assert one["stats"]["data"] == [r.seconds / r.steps for r in measured.rounds]
        assert one["options"]["timer"] == "gpubench.playback"
    two = next(b for b in written["benchmarks"] if "ranks-2x" in b["name"])
    assert two["extra_info"]["samples_per_second"] == pytest.approx(20 * two["extra_info"]["per_device_batch"])
    result.stdout.fnmatch_lines(["report *results*0001_first.html", "plot *.png", "plot *.svg"])


def test_a_number_taken_by_gpubench_run_is_not_used_twice(bench, pytester):
    store.Journal.create(pytester.path / "results", store.machine_folder(), "by-the-command")
    bench("--benchmark-save=first", "-k", "single")
    assert saved(pytester, "0002")
    assert list(pytester.path.glob("results/*/0002_first.jsonl"))


def test_compare_fails_only_when_a_case_got_slower(bench, pytester, fake):
    fake(step_seconds=0.1)
    bench("--benchmark-save=first", "-k", "single")
    same = bench("--benchmark-compare=0001", "--benchmark-compare-fail=mean:5%", "-k", "single")
    assert same.ret == 0
    fake(step_seconds=0.12)
    slower = bench("--benchmark-compare=0001", "--benchmark-compare-fail=mean:5%", "-k", "single")
    assert slower.ret != 0
    slower.stderr.fnmatch_lines(["*Performance has regressed*"])
    assert "Traceback" not in slower.stdout.str() + slower.stderr.str()


def test_json_autosave_histogram_columns_and_the_compare_command(bench, pytester):
    result = bench(
        "--benchmark-autosave",
        "--benchmark-json=out.json",
        "--benchmark-histogram=hist",
        "--benchmark-columns=ops",
        "-k",
        "single or ranks",
    )
    assert result.ret == 0
    assert len(json.loads((pytester.path / "out.json").read_text())["benchmarks"]) == 3
    assert list(pytester.path.glob("hist*.svg"))
    (autosaved,) = pytester.path.glob("results/*/0001_*.json")
    compared = pytester.run("pytest-benchmark", "--storage=file://results", "compare", autosaved.stem[:4])
    compared.stdout.fnmatch_lines(["*resnet20-fake-single-1x*"])


def test_markers_and_words_select(bench):
    bench("-m", "ranks").assert_outcomes(passed=2, deselected=5)
    bench("-k", "2x and not gpu_only", "--workloads", "mlp").assert_outcomes(passed=2, deselected=5)


def test_a_launch_that_fails_fails_its_test_with_the_rank_and_the_log(bench, fake):
    fake(misbehave={"rank": 1, "phase": "build", "how": "raise", "message": "the moon is full"})
    result = bench()
    result.assert_outcomes(passed=4, failed=1, skipped=2)
    result.stdout.fnmatch_lines(["*failed: Rank 1 of 2 failed in build: RuntimeError: the moon is full*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_work_that_is_not_what_was_asked_for_fails_its_test(bench, fake):
    fake(world_size=1)
    result = bench("-k", "replicas")
    result.assert_outcomes(passed=1, failed=1, deselected=5)
    result.stdout.fnmatch_lines(["*the framework counted 1 device*"])


def test_xdist_is_refused_with_the_reason(bench):
    result = bench("-n", "2")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*run them without -n*"])


def test_a_wrong_word_is_a_usage_error(bench):
    result = bench("--workloads", "resnet5")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*no workload 'resnet5'; did you mean*"])
    assert "Traceback" not in result.stdout.str()


def test_benchmark_disable_is_one_short_launch(bench):
    bench("--benchmark-disable", "--launches", "3", "-k", "single").assert_outcomes(passed=1, deselected=6)


def test_people_without_training_cases_notice_nothing(pytester):
    pytester.makepyfile("def test_nothing(benchmark): benchmark(lambda: 1)")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    assert "throughput and scaling" not in result.stdout.str()


def test_the_machine_is_called_as_it_was_named(bench, pytester):
    bench("--benchmark-save=first", "--gpubench-machine", "rig", "-k", "single").assert_outcomes(passed=1)
    (journal,) = pytester.path.glob("results/*/0001_first.jsonl")
    assert {(r.machine.name, r.machine.name_from) for r in store.load(journal).records} == {("rig", "given")}
    bench("--gpubench-machine", "a b").stderr.fnmatch_lines(["*'a b' cannot name a machine*"])


def test_each_batch_is_a_case_of_its_own(bench):
    result = bench("--strategies", "ranks", "--devices", "1,2", "--per-device-batch", "16,32", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["*ranks-2x16-fp32*", "*ranks-2x32-fp32*", "6 tests collected*"])


@pytest.mark.parametrize("word", ["auto", "knee"])
def test_a_search_for_a_batch_is_refused_from_an_option_and_from_a_plan(bench, pytester, word):
    (pytester.path / "plan.toml").write_text(f'per_device_batch = "{word}"\n')
    for words in (("--per-device-batch", word), ("--plan", "plan.toml")):
        result = bench(*words, "--collect-only")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f'*cannot honour per_device_batch = "{word}"*'])


def loaded_strictly(path):
    """JSON has no word for NaN and infinity; a reader that holds to it would refuse the file."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    text = path.read_text()
    assert "UNSERIALIZABLE" not in text
    return json.loads(text, parse_constant=refuse)


def test_what_is_saved_is_json_that_every_reader_takes(bench, pytester):
    bench("--benchmark-save=first", "--benchmark-json=out.json", "-k", "single")
    (path,) = pytester.path.glob("results/*/0001_first.json")
    for file in (path, pytester.path / "out.json"):
        (one,) = loaded_strictly(file)["benchmarks"]
        assert one["params"] == {"gpubench_case": one["param"]}
        assert one["extra_info"]["case"] == one["param"]


def test_a_case_whose_number_was_taken_away_is_red_and_not_saved(bench, pytester, fake):
    fake(world_size=1)
    result = bench("--benchmark-save=first", "-k", "ranks")
    result.assert_outcomes(passed=1, failed=1, deselected=5)
    result.stdout.fnmatch_lines(["*ranks-2x*has no number: world size: the framework counted 1 device*"])
    assert ["ranks-1x" in one["name"] for one in saved(pytester)["benchmarks"]] == [True]


def test_only_launches_that_count_are_played(pytester):
    from gpubench.analysis.scaling import summarize
    from gpubench.playback import extra_info
    from gpubench.spec.record import Check
    from tests.builders import make_case, make_record

    loaded = [Check(name="foreign_load", severity="severe", message="other processes took 40 %")]
    records = [make_record(make_case(), launch=launch, checks=loaded if launch == 2 else []) for launch in (1, 2, 3)]
    (summary,) = summarize(records)
    info = extra_info(summary)
    assert [record["launch"] for record in info["records"]] == [1, 3]
    assert info["launches_set_aside"] == 1
    json.dumps(info, allow_nan=False)


GATE = ("--benchmark-compare=0001", "--benchmark-compare-fail=mean:5%")


def test_a_case_that_the_reference_lacks_is_not_resolved(bench):
    bench("--benchmark-save=first", "-k", "single")
    result = bench(*GATE, "-k", "single or replicas-1")
    result.assert_outcomes(passed=1, failed=1, deselected=5)
    result.stdout.fnmatch_lines(
        ["*not resolved: --benchmark-compare-fail cannot judge*0001_first.json*does not have it*"]
    )


def test_a_gate_without_a_reference_is_refused_before_anything_is_measured(bench, pytester):
    result = bench("--benchmark-save=first", *GATE, "-k", "single")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*has nothing to compare with*"])
    assert not list(pytester.path.glob("results/*/*.jsonl"))


def test_a_gate_that_compared_nothing_is_not_green(bench):
    bench("--benchmark-save=first", "-k", "single")
    assert bench(*GATE, "--benchmark-disable", "-k", "single").ret == pytest.ExitCode.TESTS_FAILED
    result = bench(*GATE, "-k", "gpu_only")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*had no number to compare*"])
    assert bench(*GATE, "--collect-only", "-k", "single").ret == 0


def test_a_case_that_cannot_run_now_but_has_a_reference_is_not_passed_over(bench, pytester):
    bench("--benchmark-save=first", "-k", "single")
    (path,) = pytester.path.glob("results/*/0001_first.json")
    written = json.loads(path.read_text())
    (one,) = written["benchmarks"]
    gone = json.loads(json.dumps(one).replace("fake-single", "fake-gpu_only"))
    path.write_text(json.dumps({**written, "benchmarks": [one, gone]}))
    result = bench(*GATE, "-k", "single or gpu_only-1")
    result.assert_outcomes(passed=1, failed=1, deselected=5)
    result.stdout.fnmatch_lines(["*not resolved: the reference has a number, and this cannot run now: needs a GPU*"])


@pytest.mark.parametrize(
    "line",
    [
        "until = 0.01",
        "until = 'throughput=0.01'",
        "budget_seconds = 60.0",
        'paired = "yes"',
        'paired = "auto"',
        'per_device_batch = "auto"',
    ],
)
def test_a_plans_setting_that_pytest_cannot_honour_is_refused_by_name(bench, pytester, line):
    (pytester.path / "plan.toml").write_text(f"{line}\n")
    result = bench("--plan", "plan.toml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*cannot honour {line.partition(' ')[0]} = *gpubench run*"])


def test_a_plan_that_waits_for_quiet_is_honoured_and_a_suites_defaults_are_not_refused(bench, pytester):
    (pytester.path / "plan.toml").write_text(
        'suite = "quick"\npaired = "no"\nmachine = "rig"\nwait_quiet_seconds = 1.5\n'
    )
    assert bench("--plan", "plan.toml", "--benchmark-save=first", "-k", "single").ret == 0
    (record,) = (r for r in store.load(store.find("first", pytester.path / "results")).records)
    assert record.machine.name == "rig"
    assert record.schedule.order == "case by case"
    assert record.schedule.waited_for_quiet_seconds is not None


def test_a_wrong_option_is_told_before_anything_is_collected(bench, pytester):
    (pytester.path / "test_broken.py").write_text("1 / 0\n")
    for words in (("--suite", "quikc"), ("--devices", ""), ("--gpubench-devices", "two"), ("--plan", "nowhere.toml")):
        result = bench(*words)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "ZeroDivisionError" not in result.stdout.str()
        assert "Traceback" not in result.stderr.str()


def test_a_picture_that_cannot_be_drawn_hides_neither_the_table_nor_the_exit_code(bench, pytester):
    with (pytester.path / "conftest.py").open("a") as file:
        file.write(
            "import gpubench.report.html as h\ndef broken(*a): raise ValueError('no ink')\nh.write_html = broken\n"
        )
    result = bench("--benchmark-save=first", "-k", "single")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*throughput and scaling*", "run *0001_first.jsonl", "*could not be drawn*no ink*"])
    assert "gpubench report" in result.stdout.str()


def test_a_users_matplotlib_does_not_end_a_measurement(bench, pytester, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "no_such")
    (pytester.path / "matplotlibrc").write_bytes(b"text.usetex: True\n\xff\n")
    result = bench("--benchmark-save=first", "-k", "single")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["plot *.svg"])


THEIRS = """
import pytest

def pytest_addoption(parser):
    for name in ("--devices", "--plan", "--suite", "--launches", "--python"):
        parser.addoption(name, default="theirs")

@pytest.fixture
def measure():
    return "their measure"

@pytest.fixture(params=[1, 2])
def training_case(request):
    return request.param
"""


@pytest.mark.parametrize("order", [(), ("-p", "gpubench"), ("-p", "theirs")])
@pytest.mark.parametrize("more", [(), ("-p", "no:benchmark")])
def test_a_project_with_options_and_fixtures_of_the_same_names_notices_nothing(pytester, monkeypatch, order, more):
    pytester.makepyfile(
        **{"theirs" if "theirs" in order else "conftest": THEIRS},
        test_it="def test_it(measure, training_case, pytestconfig):\n"
        "    assert (measure, pytestconfig.getoption('--devices')) == ('their measure', '3')\n",
    )
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    words = ("-p", "no:cacheprovider", "--strict-markers", "--plan", "x", "--devices", "3", *order, *more)
    pytester.runpytest_subprocess(*words).assert_outcomes(passed=2)


def test_benchmarks_leave_a_taken_spelling_to_its_owner(bench, pytester):
    folder = pytester.mkdir("benchmarks")
    for file in ("test_training.py", "conftest.py"):
        (pytester.path / file).rename(folder / file)
    (pytester.path / "conftest.py").write_text(THEIRS)
    words = ("--gpubench-frameworks=fake", "--gpubench-launches=1", "--devices=theirs", "-k", "single", "benchmarks")
    pytester.runpytest_subprocess("-p", "no:cacheprovider", *words).assert_outcomes(passed=1, deselected=6)
