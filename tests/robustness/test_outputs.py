"""Where a command writes is looked at before its work begins."""

import pytest

from gpubench.files import outputs, store
from gpubench.spec.errors import UsageError
from tests.builders import make_record
from tests.robustness.conftest import one_now


@pytest.fixture
def run(tmp_path):
    journal = store.Journal.create(tmp_path / "results", "box", "a")
    journal.append(make_record())
    return str(journal.path)


@pytest.mark.parametrize(
    "words",
    one_now(
        "run --frameworks fake --strategies single --devices 1 --results NOWHERE",
        "report RUN -o NOWHERE.html",
        "report RUN -o NOWHERE/page.html",
        "compare RUN RUN --fail-if-slower 3% -o NOWHERE/page.html",
        "pack RUN -o NOWHERE/a.gpubench.zip",
        "export RUN --format csv -o NOWHERE",
        "doctor --record NOWHERE/driver.json",
        "verify --frameworks fake --results NOWHERE",
    ),
)
def test_no_command_begins_where_it_could_not_write(harness, run, tmp_path, words):
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "below")
    done = harness.run(*(word.replace("RUN", run).replace("NOWHERE", nowhere) for word in words.split()))
    assert done.returncode == 2, done.stderr
    assert "Cannot write" in done.stderr
    assert "Not a directory" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_folder_on_a_full_or_a_read_only_disk_is_found_out(mounted):
    for options in ("ro", "size=4k,nr_inodes=1"):
        with pytest.raises(UsageError, match="Cannot write to"):
            outputs.may_fill(mounted(options) / "verified")


def test_looking_leaves_nothing_behind(tmp_path):
    outputs.may_fill(tmp_path / "a" / "b")
    outputs.may_write(tmp_path / "page.html", (".html",))
    assert list(tmp_path.iterdir()) == []
