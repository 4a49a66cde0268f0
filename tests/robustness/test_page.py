"""docs/robustness.md names tests that exist, and each file of this folder that tests faults of a run is in it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "robustness.md").read_text()
TABLES = [block for block in PAGE.split("\n\n") if block.startswith("| fault |")]
ROWS = [row for table in TABLES for row in table.splitlines()[2:]]


def test_every_row_names_a_fault_what_is_done_and_a_test_that_exists():
    assert len(ROWS) > 30
    for row in ROWS:
        fault, done, test = (cell.strip() for cell in row.strip("|").split(" | "))
        assert fault, row
        assert done, row
        file, name = re.fullmatch(r"`(tests/\S+\.py)::(test_\w+)`", test).groups()
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), row


def test_no_row_stands_twice():
    tests = re.findall(r"`tests/\S+::\w+`", PAGE)
    assert len(tests) == len(set(tests))


def test_every_file_of_tests_of_a_run_has_a_row():
    others = {"test_page.py", "test_resume_others.py", "test_untrusted_files.py"}  # of files from elsewhere
    for file in Path(__file__).parent.glob("test_*.py"):
        assert file.name in others or file.name in PAGE, file.name
