"""The buyer's two files: prices.toml, what each machine costs, and mix.toml, what work there is. Every unit is checked.

currency = "EUR"
[machines.vendor_a]              # the name under which the machine's runs are compared
devices = 8                      # that the price is for
capital_cost = "250000 EUR"      # to buy: this and the next four
lifetime = "4 years"
utilization = "60 %"             # of its lifetime the machine trains
power_tariff = "0.21 EUR/kWh"
pue = 1.3
hourly_price = "18.40 EUR/hour"  # to rent, electricity included
power = "6.5 kW"                 # where it is known better than the devices' own meters know it

[[work]]
workload = "resnet50"
samples_per_month = 2e9
precision = "bf16"               # these narrow the choice: framework, strategy, precision, n_devices
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from gpubench.analysis import quantities
from gpubench.analysis.compare import Side
from gpubench.analysis.cost import Price, Purchase
from gpubench.analysis.mix import Work
from gpubench.files.toml import read_toml
from gpubench.spec.errors import UsageError, nearest

MOST_DEVICES = 1_000_000
PURCHASE = ("capital_cost", "lifetime", "utilization", "power_tariff", "pue")
MACHINE = ("devices", *PURCHASE, "hourly_price", "power")
WORK = ("workload", "samples_per_month", "framework", "strategy", "precision", "n_devices")


def read_prices(path: Path, sides: Sequence[Side]) -> dict[str, Price]:
    """The price of every side, by its name. UsageError names the key that is wrong, and the nearest valid one."""
    content = read_toml(path, parse_float=Decimal)
    _known(path, "", content, ("currency", "machines"))
    currency = content.get("currency")
    if not isinstance(currency, str) or not re.fullmatch(r"[A-Z]{3}", currency):
        raise UsageError(f'{path}: currency must be a code of three letters, as in currency = "EUR".')
    machines = content.get("machines", {})
    if not isinstance(machines, dict) or not all(isinstance(entry, dict) for entry in machines.values()):
        raise UsageError(f"{path}: each machine is a table of its own, as in [machines.NAME].")
    prices = {name: _price(path, f"machines.{name}", entry, currency) for name, entry in machines.items()}
    for side in sides:
        if side.name not in prices:
            told = nearest(side.name, list(prices)) if prices else "there are no [machines.NAME] tables in it."
            raise UsageError(f"{path} has no price for {side.name!r}; {told}")
    return {side.name: prices[side.name] for side in sides}


def read_mix(path: Path, sides: Sequence[Side]) -> list[Work]:
    """UsageError where a key is wrong, or where a work is of a workload that no side has."""
    content = read_toml(path, parse_float=Decimal)
    _known(path, "", content, ("work",))
    entries = content.get("work")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: write each work as a table of its own, under [[work]].")
    works = [_work(path, f"work {index}", entry) for index, entry in enumerate(entries, 1)]
    for index, work in enumerate(works, 1):
        _on_some_side(path, f"work {index}", work, sides)
    return works


def _price(path: Path, where: str, entry: Mapping[str, Any], currency: str) -> Price:
    _known(path, where, entry, MACHINE)
    devices = entry.get("devices")
    if isinstance(devices, bool) or not isinstance(devices, int) or not 1 <= devices <= MOST_DEVICES:
        raise UsageError(f"{path}: {where}.devices must say for how many devices the price is, as in devices = 8.")

    def read(key: str, parse: Callable[..., float], *more: object) -> float:
        try:
            return parse(entry[key], *more)
        except ValueError as error:
            raise UsageError(f"{path}: {where}.{key}: {error}.") from None

    given = [key for key in PURCHASE if key in entry]
    if given and len(given) < len(PURCHASE):
        missing = ", ".join(key for key in PURCHASE if key not in entry)
        raise UsageError(f"{path}: {where} is to be bought, which also takes {missing}.")
    if not given and "hourly_price" not in entry:
        raise UsageError(f"{path}: {where} needs capital_cost and what goes with it, or hourly_price.")
    purchase = None
    if given:
        purchase = Purchase(
            capital_cost=read("capital_cost", quantities.money, currency),
            lifetime_hours=read("lifetime", quantities.hours),
            utilization=read("utilization", quantities.fraction),
            tariff_per_kwh=read("power_tariff", quantities.money_per_kilowatt_hour, currency),
            pue=read("pue", quantities.number, 1),
        )
    rented = "hourly_price" in entry
    return Price(
        currency=currency,
        devices=devices,
        purchase=purchase,
        rent_per_hour=read("hourly_price", quantities.money_per_hour, currency) if rented else None,
        power_watts=read("power", quantities.watts) if "power" in entry else None,
    )


def _work(path: Path, where: str, entry: Mapping[str, Any]) -> Work:
    _known(path, where, entry, WORK)
    for key in ("workload", "framework", "strategy", "precision"):
        if not isinstance(entry.get(key, ""), str):
            raise UsageError(f"{path}: {where}: {key} must be a name in quotes.")
    if not entry.get("workload"):
        raise UsageError(f"{path}: {where} does not say its workload.")
    devices = entry.get("n_devices", 1)
    try:
        samples = quantities.number(entry.get("samples_per_month"))
    except ValueError as error:
        raise UsageError(f"{path}: {where}: samples_per_month must be a number over 0, as in 2e9: {error}.") from None
    if not samples:
        raise UsageError(f"{path}: {where}: samples_per_month must be a number over 0, as in 2e9.")
    if isinstance(devices, bool) or not isinstance(devices, int) or not 1 <= devices <= MOST_DEVICES:
        raise UsageError(f"{path}: {where}: n_devices must be a whole number from 1.")
    return Work(**{**entry, "samples_per_month": samples})


def _on_some_side(path: Path, where: str, work: Work, sides: Sequence[Side]) -> None:
    cases = [summary.case for side in sides for summary in side.summaries]
    for key in ("workload", "framework", "strategy", "precision"):
        known = sorted({str(getattr(case, key)) for case in cases})
        value = getattr(work, key)
        if value is not None and value not in known:
            raise UsageError(f"{path}: {where}: no run here has the {key} {value!r}; {nearest(value, known)}")
    if not any(work.fits(summary) for side in sides for summary in side.summaries):
        raise UsageError(f"{path}: {where}: no run here has a case of {work}.")


def _known(path: Path, where: str, entry: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in entry:
        if key not in known:
            name = f"{where}.{key}" if where else key
            raise UsageError(f"{path}: there is no setting {name!r}; {nearest(key, list(known))}")
