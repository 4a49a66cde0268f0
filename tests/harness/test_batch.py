"""The batch that is found is the largest that fits, or the knee; a try that failed leaves nothing behind."""

import re

import pytest

from gpubench.files import store
from gpubench.harness.batch import Trial, knee, largest


@pytest.mark.parametrize(("limit", "start"), [(100, 32), (100, 400), (1, 64), (33, 32), (4096, 32)])
def test_the_search_ends_within_an_eighth_of_the_limit(limit, start):
    tried = []

    def try_batch(batch):
        tried.append(batch)
        return Trial(batch, 1.0 if batch <= limit else None)

    found = max(trial.batch for trial in largest(try_batch, start) if trial.samples_per_second)
    assert limit * 7 / 8 <= found + 1 <= limit + 1
    assert len(tried) == len(set(tried)) <= 16


def test_the_search_says_so_where_nothing_fits():
    assert not any(trial.samples_per_second for trial in largest(lambda batch: Trial(batch, None), 8))


def test_the_knee_is_the_smallest_batch_that_is_nearly_as_fast():
    rates = {32: 100.0, 64: 180.0, 128: 230.0, 256: 250.0, 512: 251.0}
    assert knee([Trial(batch, rate) for batch, rate in rates.items()] + [Trial(1024, None)]) == 256


def test_auto_finds_what_fits_and_keeps_it_for_the_whole_series(fake, gpubench, tmp_path):
    fake(step_seconds=0.01, sample_seconds=0.001, largest_batch=200)
    words = ("run", "--frameworks", "fake", "--strategies", "ranks", "--devices", "1,2", "--launches", "1")
    done = gpubench(*words, "--per-device-batch", "auto")
    assert done.returncode == 0, done.stderr
    records = store.load(store.find("last", tmp_path / "results")).records
    assert {record.case.per_device_batch for record in records} == {192}
    assert {record.case.global_batch for record in records} == {192, 384}
    assert {record.schedule.batch_from for record in records} == {"auto"}
    assert re.search(r"trying resnet20-fake-single-1x256-fp32: out of memory", done.stderr)


def test_knee_finds_a_smaller_batch_than_auto(fake, gpubench, tmp_path):
    # 32 samples in 0.026 s are 1231/s, 64 in 0.042 s 1524/s, 128 1730/s, 256 1855/s, 512 1924/s: 95 % of that is 1828.
    fake(step_seconds=0.01, sample_seconds=0.0005, largest_batch=512)
    done = gpubench("run", "--frameworks", "fake", "--strategies", "single", "--per-device-batch", "knee")
    assert done.returncode == 0, done.stderr
    assert "resnet20 in fake: per-device batch 256" in done.stderr


def test_a_word_that_is_no_batch_is_refused(gpubench):
    done = gpubench("run", "--per-device-batch", "many")
    assert done.returncode == 2
    assert "takes a number, numbers such as 16,32,64, auto or knee" in done.stderr


def test_a_search_that_was_cut_off_repeats_no_trial_and_finds_the_same_batch(fake, gpubench, tmp_path):
    fake(step_seconds=0.01, sample_seconds=0.001, largest_batch=200)
    words = ("run", "--frameworks", "fake", "--strategies", "ranks", "--devices", "1,2", "--launches", "1")
    whole = gpubench(*words, "--per-device-batch", "auto", "--budget", "0s", "--save", "first")
    assert whole.returncode == 4, whole.stderr  # no launch of the run itself was started
    (trials,) = (tmp_path / "results").rglob("*.trials")
    lines = trials.read_bytes().splitlines(keepends=True)
    tried = re.findall(r"trying (\S+):", whole.stderr)
    assert len(tried) == len(set(tried)) == len(lines) >= 5
    trials.write_bytes(b"".join(lines[:3]) + lines[3][:100])  # as if it had been killed in the fourth
    done = gpubench("run", "--resume", "first")
    assert done.returncode == 0, done.stderr
    assert re.findall(r"tried before (\S+):", done.stderr) == tried[:3]
    assert re.findall(r"trying (\S+):", done.stderr) == tried[3:]
    records = store.load(store.find("first", tmp_path / "results")).records
    assert {record.case.per_device_batch for record in records} == {192}
    assert {record.launch for record in records} == {1}  # no trial is among them
    again = gpubench("run", "--resume", "first", "--launches", "2")
    assert again.returncode == 0, again.stderr
    assert "trying" not in again.stderr
    assert len(store.load(store.find("first", tmp_path / "results")).records) == 2 * len(records)
