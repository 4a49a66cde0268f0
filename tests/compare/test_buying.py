"""The buyer's files: units are checked, and an error names the key and what it should be."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
        ('"250_000 EUR"', '"250.000 EUR"', "'250.000' could be 250000 or 250.000: write 250000, or 250.0000"),
        ('"250_000 EUR"', '"250,000 EUR"', "'250,000' could be 250000 or 250.000: write 250000, or 250.0000"),
        ('"250_000 EUR"', '"1,5 EUR"', "write digits and at most one decimal point, as in 250000 or 1234.50"),
        ('"250_000 EUR"', '"1.234,50 EUR"', "'1.234,50' has separators"),
        ('"250_000 EUR"', '"250 000 EUR"', "'250 000' has separators"),
        ('"250_000 EUR"', '"250\u202f000 EUR"', "'250 000' has separators"),
        ('"250_000 EUR"', '"250\'000 EUR"', "has separators"),
        ('"250_000 EUR"', '"25_0000 EUR"', "has separators"),
        ('"250_000 EUR"', '"250000 €"', "is in '€'; it must be in EUR"),
        ('"250_000 EUR"', '"€250000"', "not a number with its unit"),
        ('"250_000 EUR"', '"\u0662\u0665\u0660 EUR"', "not a number with its unit"),
        ('"250_000 EUR"', '"-5 EUR"', "'-5' is less than nothing"),
        ('"250_000 EUR"', '"\u22125 EUR"', "is less than nothing"),
        ('"250_000 EUR"', '"nan EUR"', "not a number with its unit"),
        ('"250_000 EUR"', '"1e400 EUR"', "'1e400' is too large"),
        ('"250_000 EUR"', '"1e-200 EUR"', "is too small"),
        ('"441.6 EUR/day"', '"1.500 EUR/day"', "'1.500' could be 1500 or 1.500"),
        ('"6.5 kW"', '"6,500 W"', "'6,500' could be 6500 or 6.500"),
        ('"4 years"', '"4.000 hours"', "'4.000' could be 4000 or 4.000"),
        ("pue = 1.3", "pue = 1.300", "'1.300' could be 1300 or 1.300"),
        ("pue = 1.3", "pue = nan", "pue is not a finite number"),
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
        ("devices = 8", f"devices = {10**400}", "devices is a whole number beyond TOML's 64 bits"),
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
        ("2e9", "inf", "samples_per_month is not a finite number"),
        ("2e9", "100.000", "'100.000' could be 100000 or 100.000"),
        ("2e9", "-2e9", "must be a number over 0"),
        ("2e9", "1e999", "samples_per_month is not a finite number"),
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


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("250000.00 EUR", 250_000),
        ("250_000 EUR", 250_000),
        ("2.5e5 EUR", 250_000),
        ("1234.567 EUR", 1234.567),  # nobody groups four digits
        ("0.215 EUR", 0.215),  # and no group of thousands begins with 0
        ("0 EUR", 0),
    ],
)
def test_a_number_that_can_mean_one_thing_only_is_read(text, value):
    assert quantities.money(text, "EUR") == value


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 999), st.integers(0, 999), st.sampled_from(".,"))
def test_three_digits_behind_one_point_or_comma_are_never_guessed_at(whole, rest, mark):
    with pytest.raises(ValueError, match=f"write {whole}{rest:03}, or {whole}.{rest:03}0"):
        quantities.plain(f"{whole}{mark}{rest:03}")


def test_a_year_is_twelve_months():
    assert quantities.hours("1 year") == quantities.hours("12 months") == 8760
