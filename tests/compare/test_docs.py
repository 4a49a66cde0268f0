"""The pages about comparing and exporting say what the tool does."""

import importlib.util
import re
from pathlib import Path

import pytest

from gpubench.cli.buying import read_mix, read_prices
from gpubench.exporting.tables import exported
from gpubench.report.compare_words import FORMULAS
from tests.builders import make_run

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS.parent / "results" / "examples"


def console():
    spec = importlib.util.spec_from_file_location("console", DOCS / "console.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_output_on_the_page_is_what_its_commands_print():
    page = (DOCS / "buying.md").read_text()
    missing = [
        name for name in re.findall(r"results/examples/[\w-]+\.jsonl", page) if not (DOCS.parent / name).exists()
    ]
    if missing:
        pytest.skip(f"not measured yet: {', '.join(sorted(set(missing)))}")
    assert console().rewritten(page) == page


def test_the_readme_shows_the_table_of_its_example_as_a_pipe_gets_it():
    [shown] = re.findall(r"\$ (gpubench show \S+)\n(.*?)```", (DOCS.parent / "README.md").read_text(), re.DOTALL)
    assert console().output(shown[0]) == shown[1]


def test_a_command_on_a_page_is_run_and_its_output_put_there():
    page = "before\n```console\n$ gpubench --version\nold\n```\nafter\n"
    made = console().rewritten(page)
    assert re.fullmatch(r"before\n```console\n\$ gpubench --version\ngpubench, version [\d.]+\n```\nafter\n", made)


def test_the_page_shows_the_example_files_as_they_are():
    page = (DOCS / "buying.md").read_text()
    for name in ("prices.toml", "mix.toml"):
        assert f"```toml\n{(DOCS / 'examples' / name).read_text()}```" in page


def test_the_page_has_every_formula():
    page = (DOCS / "buying.md").read_text()
    for formula in FORMULAS:
        assert f"| {formula.name} ({formula.unit}) | {formula.text} |" in page


def test_the_example_files_are_read():
    prices = read_prices(DOCS / "examples" / "prices.toml", [])
    assert prices == {}
    with pytest.raises(Exception, match="no run here has the workload"):
        read_mix(DOCS / "examples" / "mix.toml", [])


@pytest.mark.parametrize(
    "table", ["raw-launches", "raw-rounds", "raw-rank-rounds", "raw-device-rounds", "derived-cases"]
)
def test_every_exported_column_is_on_its_page(table):
    section = (DOCS / "export.md").read_text().partition(f"## {table}\n")[2].partition("\n## ")[0]
    [columns] = [each.columns for each in exported({"x": make_run("gpu")})[0].tables if each.name == table]
    assert set(columns) <= set(re.findall(r"`(\w+)`", section))
