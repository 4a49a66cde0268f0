"""`pytest benchmarks/`: pytest-benchmark's own options, on rounds that were measured elsewhere."""

import json
import shutil
from pathlib import Path

import pytest

from gpubench.files import store

TRAINING = Path(__file__).parent.parent / "benchmarks" / "test_training.py"


@pytest.fixture
def bench(pytester, monkeypatch):
    """Runs pytest on the real benchmark file with the fake framework."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):  # of the session that runs these tests
        monkeypatch.delenv(name, raising=False)
    shutil.copy(TRAINING, pytester.path / "test_training.py")

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
    result.stdout.fnmatch_lines(["*no workload 'resnet5'; did you mean*"])
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
    bench("--gpubench-machine", "a b").stdout.fnmatch_lines(["*UsageError: 'a b' cannot name a machine*"])


def test_each_batch_is_a_case_of_its_own(bench):
    result = bench("--strategies", "ranks", "--devices", "1,2", "--per-device-batch", "16,32", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["*ranks-2x16-fp32*", "*ranks-2x32-fp32*", "6 tests collected*"])


@pytest.mark.parametrize("word", ["auto", "knee"])
def test_a_search_for_a_batch_is_refused_from_an_option_and_from_a_plan(bench, pytester, word):
    (pytester.path / "plan.toml").write_text(f'per_device_batch = "{word}"\n')
    for words in (("--per-device-batch", word), ("--plan", "plan.toml")):
        result = bench(*words, "--collect-only")
        assert result.ret != 0
        result.stdout.fnmatch_lines([f"*per_device_batch = {word}: pytest does not search for a batch*"])
