"""The buyer's files: units are checked, and an error names the key and what it should be."""

import re

import pytest

from gpubench.analysis import quantities
from gpubench.analysis.compare import Side, side_of
from gpubench.cli.buying import read_mix, read_prices
from gpubench.spec.errors import UsageError
from tests.builders import make_case, make_launches

PRICES = """
currency = "EUR"
[machines.vendor_a]
devices = 8
capital_cost = "250_000 EUR"
lifetime = "4 years"
utilization = "60 %"
power_tariff = "210 EUR/MWh"
pue = 1.3
hourly_price = "441.6 EUR/day"
power = "6.5 kW"
"""
MIX = """
[[work]]
workload = "resnet20"
samples_per_month = 2e9
framework = "torch"
"""


@pytest.fixture
def sides() -> list[Side]:
    return [side_of("vendor_a", make_launches(make_case(), [100.0] * 3))]


def prices(tmp_path, text: str, sides):
    path = tmp_path / "prices.toml"
    path.write_text(text)
    return read_prices(path, sides)


def mix(tmp_path, text: str, sides):
    path = tmp_path / "mix.toml"
    path.write_text(text)
    return read_mix(path, sides)


def test_a_price_is_read_in_base_units(tmp_path, sides):
    price = prices(tmp_path, PRICES, sides)["vendor_a"]
    assert price.purchase.capital_cost == 250_000
    assert price.purchase.lifetime_hours == 4 * 8760
    assert price.purchase.utilization == pytest.approx(0.6)
    assert price.purchase.tariff_per_kwh == pytest.approx(0.21)
    assert price.rent_per_hour == pytest.approx(18.4)
    assert (price.power_watts, price.devices, price.currency) == (6500, 8, "EUR")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('currency = "EUR"', 'currency = "euro"', "three letters"),
        ("capital_cost", "capital_costs", "capital_cost?"),
        ('"250_000 EUR"', '"250_000 USD"', "is in 'USD'; it must be in EUR"),
        ('"250_000 EUR"', "250000", "not a number with its unit, as in '250000 EUR'"),
        ('"250_000 EUR"', '"1,5 EUR"', "not a number with its unit"),
        ('"4 years"', '"4 decades"', "machines.vendor_a.lifetime: '4 decades' is in 'decades'"),
        ('"4 years"', '"0 years"', "lifetime: '0 years' is nothing at all"),
        ('"6.5 kW"', '"0 kW"', "power: '0 kW' is nothing at all"),
        ('"60 %"', '"160 %"', "between 0 % and 100 %"),
        ('"60 %"', '"0 %"', "between 0 % and 100 %"),
        ('"60 %"', "0.6", "as in '60 %'"),
        ('"210 EUR/MWh"', '"0.21 EUR"', "is in 'EUR'; it must be in EUR/kWh"),
        ("pue = 1.3", "pue = 0.9", "not a number from 1"),
        ("pue = 1.3", "", "also takes pue"),
        ('"441.6 EUR/day"', '"441.6 EUR"', "EUR/hour"),
        ("devices = 8", "", "devices must say for how many devices"),
        ("devices = 8", "devices = 0", "devices must say for how many devices"),
        ("machines.vendor_a", "machines.vendora", "no price for 'vendor_a'; did you mean vendora?"),
        ('"6.5 kW"', '"6.5 kWh"', "is in 'kWh'; it must be in W or kW or MW"),
        ('currency = "EUR"', "currency = ", "is not TOML"),
    ],
)
def test_a_mistake_in_the_prices_is_named(tmp_path, sides, old, new, message):
    assert old in PRICES
    with pytest.raises(UsageError, match=re.escape(message)):
        prices(tmp_path, PRICES.replace(old, new), sides)


def test_a_machine_needs_a_price_of_some_kind(tmp_path, sides):
    with pytest.raises(UsageError, match="or hourly_price"):
        prices(tmp_path, 'currency = "EUR"\n[machines.vendor_a]\ndevices = 1\n', sides)


def test_a_mix_is_read(tmp_path, sides):
    [work] = mix(tmp_path, MIX, sides)
    assert (work.workload, work.samples_per_month, work.framework, work.precision) == ("resnet20", 2e9, "torch", None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("resnet20", "resnet2", "no run here has the workload 'resnet2'; did you mean resnet20?"),
        ("torch", "troch", "did you mean torch?"),
        ("samples_per_month", "samples", "did you mean samples_per_month?"),
        ("2e9", "0", "must be a number over 0"),
        ("2e9", '"2e9"', "must be a number over 0"),
        ("2e9", "inf", "must be a number over 0"),
        ("[[work]]", "[work]", "under [[work]]"),
        ('framework = "torch"', "n_devices = 16", "no run here has a case of resnet20 on 16 devices"),
        ('workload = "resnet20"', "", "does not say its workload"),
    ],
)
def test_a_mistake_in_the_mix_is_named(tmp_path, sides, old, new, message):
    assert old in MIX
    with pytest.raises(UsageError, match=re.escape(message)):
        mix(tmp_path, MIX.replace(old, new), sides)


def test_a_file_that_is_not_there_is_an_error_and_no_traceback(tmp_path, sides):
    with pytest.raises(UsageError, match="Cannot read"):
        read_prices(tmp_path / "none.toml", sides)


def test_a_year_is_twelve_months():
    assert quantities.hours("1 year") == quantities.hours("12 months") == 8760
