"""The page for the meeting: the verdict first, everything that it rests on at the end, and nothing live from a file."""

import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from gpubench.analysis.compare import Side, compare, side_of
from gpubench.analysis.cost import Price, Purchase
from gpubench.analysis.draws import Estimate
from gpubench.analysis.mix import Work
from gpubench.analysis.study import Study, study
from gpubench.report import compare_caveats, compare_plots, compare_summary, compare_words, units
from gpubench.report.compare_html import Source, render, write_html
from gpubench.report.compare_tables import as_dict, to_rich
from gpubench.report.words import DASH
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


# resnet20: 2e8 / 190 / 3600 = 292.4 h on 2 of 8 devices; mlp: 3e9 / 9000 / 3600 = 92.59 h on 1 of 8: 84.67 of a whole
# machine's hours, one machine, in use 84.67 / 730 = 11.6 % of the time. 250,000 over 48 months is 5,208.3 a month.
# 292.4 h x 0.8 kW + 92.59 h x 0.4 kW = 270.96 kWh, x 1.3 x 0.21 = 73.97. Bought 5,282; rented 84.67 x 18.4 = 1,558.
# b is 1.5 times as fast: 84.67 / 1.5 x 25 = 1,411.
def test_the_page_opens_with_a_short_table_and_one_sentence(offers):
    heads, cells = compare_summary.summary(offers)
    assert [row[0] for row in cells] == ["a", "b"]
    cost, verdict = heads.index("EUR a month, the cheaper way"), heads.index("verdict")
    assert [row[cost].partition(" ")[0] for row in cells] == ["1,558", "1,411"]
    assert all(row[cost].endswith(" rented") for row in cells)
    assert cells[1][verdict] == "faster; costs least"
    told = compare_summary.headline(offers)
    assert told == "The mix costs least on b rented: 1,411 EUR a month, less than the next, a rented with 1,558 EUR."
    text = words(page(offers))
    assert text.index("times as fast at the mix") < text.index(told) < text.index("In words")


def test_a_use_that_the_prices_state_and_the_mix_does_not_have_is_said(offers):
    [total, _] = offers.totals
    assert total.bought.value == pytest.approx(250_000 / 48 + 270.96 * 1.3 * 0.21, rel=1e-4)
    assert total.use.value == pytest.approx(84.67 / 730, rel=1e-3)
    told = "The prices state that a trains 60 % of its lifetime; the mix keeps it busy 12 %, which is less."
    assert told in words(page(offers)).replace("&#39;", "'")
    assert as_dict(offers)["mix"][0]["stated_use"] == 0.6


def test_hours_to_break_even_stand_beside_the_hours_of_use(offers):
    # 35,040 h of lifetime, 60 % of them in use
    assert "21,024 hours of use in its lifetime, as stated" in words(page(offers))
    assert "the 35,040 hours" not in words(page(offers))


def test_the_page_says_when_it_was_measured_and_when_it_was_made(offers):
    text = words(page(offers))
    assert "measured" in text
    assert "2026-01-01" in text
    assert re.search(r"Page made on \d{4}-\d\d-\d\d", text)
    assert as_dict(offers)["sides_measured"] == {"a": "2026-01-01", "b": "2026-01-01"}


def test_money_is_written_as_people_read_it():
    shown = {250_000: "250,000", 1_234_567: "1.23 M", 2.534: "2.53", 0.0000031: "under 0.01", 0: "0", None: DASH}
    assert {value: units.money(value) for value in shown} == shown


def test_a_cost_is_for_as_many_samples_as_make_it_one_or_more():
    costs = [Estimate(2.4e-5), Estimate(3.7e-5), Estimate(None)]
    scale = units.scale_of(costs)
    assert [units.per_samples(each, scale) for each in costs] == ["24.0 per trillion", "37.0 per trillion", DASH]
    assert units.scale_of([Estimate(100.0)]).name == "million"


def test_energy_has_the_prefix_that_suits_it():
    assert [units.joules(Estimate(value)) for value in (9.24e-5, 4.0, 0.0928, 2500.0, None)] == [
        "92.4 µJ",
        "4.00 J",
        "92.8 mJ",
        "2.50 kJ",
        DASH,
    ]


def test_the_plot_of_costs_says_who_is_bought_and_who_is_rented(offers, shares):
    assert compare_plots.ways_in_words({"rented"}) == "rented"
    label = compare_plots.pareto_figure(offers, "resnet20").axes[0].get_xlabel()
    assert "rented" in label
    assert "bought at the stated use" in label


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
    told = compare_words.details(shares)
    assert any("In 3 cases the work differs too (precision)" in each for each in told)
    assert "at other work (precision)" in compare_summary.headline(shares)
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
