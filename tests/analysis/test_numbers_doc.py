"""docs/numbers.md tells of every doubt that there is, and of no other."""

import re
from pathlib import Path

import gpubench
from gpubench.spec.invariants import OF_LAUNCH, OF_TELEMETRY, together

PACKAGE = Path(gpubench.__file__).parent
PAGE = PACKAGE.parent / "docs" / "numbers.md"


def test_the_page_on_numbers_has_a_row_for_each_doubt():
    files = [*(PACKAGE / "analysis" / "checks").glob("*.py"), PACKAGE / "analysis" / "scaling.py"]
    raised = {name for file in files for name in re.findall(r'\bname="([a-z_]+)"', file.read_text())}
    told = set(re.findall(r"^\| `([a-z_]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert told == raised


def test_the_page_tells_every_invariant_as_the_code_states_it():
    told = " ".join(PAGE.read_text(encoding="utf-8").split())
    sentences = [*(each.sentence for each in (*OF_LAUNCH, *OF_TELEMETRY)), *together.SENTENCES]
    assert [sentence for sentence in sentences if f"- {sentence}" not in told] == []
