"""Where a command writes is looked at before its work begins."""

import pytest

from gpubench.files import outputs
from gpubench.spec.errors import UsageError


@pytest.fixture
def run(harness):
    done = harness.run(*harness.bench("--strategies", "single", "--devices", "1", "--launches", "1", "--save", "a"))
    assert done.returncode == 0, done.stderr
    return str(harness.journal())


def test_no_command_begins_where_it_could_not_write(harness, run, tmp_path):
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "below")
    commands = [
        ("report", run, "-o", f"{nowhere}.html"),
        ("report", run, "-o", f"{nowhere}/page.html"),
        ("compare", run, run, "--fail-if-slower", "3%", "-o", f"{nowhere}/page.html"),
        ("pack", run, "-o", f"{nowhere}/a.gpubench.zip"),
        ("export", run, "--format", "csv", "-o", nowhere),
        ("doctor", "--record", f"{nowhere}/driver.json"),
        ("verify", "--frameworks", "fake", "--results", nowhere),
        harness.bench("--strategies", "single", "--devices", "1")[:-1] + ("1", "--results", nowhere),
    ]
    for words in commands:
        done = harness.run(*words)
        assert done.returncode == 2, (words, done.stderr)
        assert "Cannot write" in done.stderr, words
        assert "Not a directory" in done.stderr, words
        assert "Traceback" not in done.stderr, words
        assert done.stdout == "", words


def test_a_folder_on_a_full_or_a_read_only_disk_is_found_out(mounted):
    for options in ("ro", "size=4k,nr_inodes=1"):
        with pytest.raises(UsageError, match="Cannot write to"):
            outputs.may_fill(mounted(options) / "verified")


def test_looking_leaves_nothing_behind(tmp_path):
    outputs.may_fill(tmp_path / "a" / "b")
    outputs.may_write(tmp_path / "page.html", (".html",))
    assert list(tmp_path.iterdir()) == []
