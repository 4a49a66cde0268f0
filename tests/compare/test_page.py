"""The page for the meeting: the verdict first, everything that it rests on at the end, and nothing live from a file."""

import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from gpubench.analysis.compare import Side, compare, side_of
from gpubench.analysis.cost import Price, Purchase
from gpubench.analysis.mix import Work
from gpubench.analysis.study import Study, study
from gpubench.report import compare_caveats, compare_words
from gpubench.report.compare_html import Source, render, write_html
from gpubench.report.compare_tables import as_dict, to_rich
from tests.builders import make_case, make_launches, make_machine

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202eevil"
NEEDED = [shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")]


def side(name: str, factor: float, kind: str = "gpu", precision: str = "fp32", framework: str = "torch") -> Side:
    machine, records = make_machine(kind, 8, name=f"host of {name}"), []
    for workload, strategy, n, rate in (
        ("resnet20", "single", 1, 100.0),
        ("resnet20", "ddp", 2, 190.0),
        ("mlp", "single", 1, 9000.0),
    ):
        case = make_case(
            strategy, n, workload=workload, device_kind=kind, precision=precision, framework=framework, batch=16
        )
        rates = [rate * factor * noise for noise in (0.99, 1.0, 1.01, 1.0)]
        records += make_launches(case, rates, machine=machine, power_watts=None if kind == "cpu" else 400.0)
    return side_of(name, records)


PURCHASE = Purchase(capital_cost=250_000, lifetime_hours=35_040, utilization=0.6, tariff_per_kwh=0.21, pue=1.3)
PRICES = {
    "a": Price(currency="EUR", devices=8, purchase=PURCHASE, rent_per_hour=18.4),
    "b": Price(currency="EUR", devices=8, rent_per_hour=25.0),
}
WORKS = [Work(workload="resnet20", samples_per_month=2e8), Work(workload="mlp", samples_per_month=3e9)]


@pytest.fixture(scope="module")
def offers() -> Study:
    return study(compare([side("a", 1.0), side("b", 1.5)]), PRICES, WORKS)


@pytest.fixture(scope="module")
def shares() -> Study:
    return study(compare([side("a", 1.0, "cpu"), side("b", 1.5, "cpu", precision="bf16")]))


@pytest.fixture(scope="module")
def hostile() -> Study:
    sides = [side(name, factor, framework=HOSTILE) for name, factor in ((HOSTILE, 1.0), ("b", 1.1))]
    return study(compare(sides), {HOSTILE: PRICES["a"], "b": PRICES["b"]}, WORKS)


def page(made: Study) -> str:
    return render(made, {each.name: Source(each.name, (f"{each.name}.jsonl",)) for each in made.comparison.sides})


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html.partition("<body>")[2]))


# resnet20: 2e8 / 190 / 3600 = 292.4 h on 2 of 8 devices; mlp: 3e9 / 9000 / 3600 = 92.59 h on 1 of 8.
# 250,000 / (35,040 x 0.6) = 11.891 an hour: (292.4 x 2/8 + 92.59 x 1/8) x 11.891 = 1006.8.
# 292.4 h x 0.8 kW + 92.59 h x 0.4 kW = 270.96 kWh, x 1.3 x 0.21 = 73.97. Together 1,081.
def test_the_verdict_is_one_paragraph_that_names_machines_ratios_and_the_cheapest(offers):
    told = compare_words.verdict(offers)
    assert "b against a: faster in all 3 cases" in told
    assert "The mix costs least on a bought: 1,081 EUR a month" in told
    assert "\n" not in told
    assert told in page(offers).replace("&#39;", "'")


def test_every_input_stands_in_the_appendix(offers):
    text = words(page(offers))
    for given in ("250,000.00 EUR", "35,040 h", "60 %", "0.21 EUR/kWh", "1.3", "18.4 EUR/h", "25 EUR/h"):
        assert given in text
    assert "resnet20: 200 million samples a month" in text
    assert "host of a" in text


def test_every_formula_stands_in_the_appendix(offers):
    text = words(page(offers))
    for formula in compare_words.FORMULAS:
        assert formula.text in text


def test_other_work_is_marked_and_kept_out_of_the_count(shares):
    told = compare_words.verdict(shares)
    assert "In 3 cases the work differs too (precision)" in told
    assert "faster, other work" in words(page(shares))


def test_a_page_of_cpu_shares_says_so_above_everything_and_in_the_caveats(shares):
    text = words(page(shares))
    assert text.index("CPU shares (1 core each): not GPU figures") < text.index("the work differs too")
    assert "Nothing here says how fast any GPU is" in text


def test_energy_that_was_not_measured_is_a_dash_with_a_caveat(shares):
    assert "Energy was not measured on a, b: the dash there is not a zero." in compare_caveats.caveats(shares)
    assert all(row["joules_per_sample"] is None for row in as_dict(shares)["cases"])


def test_json_has_the_figures_of_the_page(offers):
    made = as_dict(offers)
    assert [row["verdict"] for row in made["cases"]] == ["reference", "faster"] * 3
    assert made["currency"] == "EUR"
    assert {row["side"] for row in made["mix"]} == {"a", "b"}
    assert any(row["case"] is None and row["months_of_the_mix"] for row in made["break_even"])
    single = next(row for row in made["cases"] if row["case"].startswith("resnet20-torch-single"))
    assert single["joules_per_sample"] == pytest.approx(4)  # 400 W at 100 samples/s
    assert single["samples_per_joule"] == pytest.approx(0.25)


def test_the_terminal_gets_the_same_verdict_and_nothing_to_obey(hostile):
    from rich.console import Console

    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, closed with the console
    console.print(to_rich(hostile))
    text = console.export_text()
    console.file.close()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "times as long as" in text


def test_nothing_from_a_file_is_live(hostile):
    html = page(hostile)
    assert "<script" not in html
    assert "<img src=x" not in html
    assert "\x1b" not in html
    assert "&lt;script&gt;" in html


def test_the_page_needs_no_other_file(offers):
    html = unescape(page(offers))
    assert "default-src 'none'" in html
    assert not re.findall(r"(?:src|href)=\"(?!data:)[^\"#]", html)
    assert "url(" not in html


@pytest.fixture(scope="module")
def chromium(tmp_path_factory) -> Iterator:
    if not all(NEEDED):
        pytest.skip("needs Chromium and chromedriver")
    from tests.report.test_browser import browser

    driver = browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.mark.parametrize("name", ["offers", "shares", "hostile"])
@pytest.mark.parametrize(("width", "medium"), [(400, ""), (1400, ""), (688, "print")])  # A4 upright, less its margins
def test_no_page_scrolls_sideways_or_logs_anything(chromium, request, tmp_path, name, width, medium):
    made = request.getfixturevalue(name)
    path = Path(tmp_path / "page.html")
    write_html(made, {each.name: Source(each.name, ("x.jsonl",)) for each in made.comparison.sides}, path)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium})
    chromium.get(path.as_uri())
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
    assert all(size > 100 for size in chromium.execute_script("return [...document.images].map((i) => i.naturalWidth)"))
    assert chromium.get_log("browser") == []
