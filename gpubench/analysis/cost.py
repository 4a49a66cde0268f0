"""What a sample costs, on a machine that is bought or rented, and from when on buying is the cheaper.

`FORMULAS` says in words what the functions do; the report prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpubench.analysis import draws
from gpubench.analysis.draws import Estimate, combined
from gpubench.analysis.scaling import CaseSummary

SECONDS_PER_HOUR = 3600
JOULES_PER_KWH = 3.6e6
MILLION = 1_000_000

Way = Literal["bought", "rented"]


@dataclass(frozen=True, kw_only=True)
class Purchase:
    """`capital_cost` in the currency, for all devices of the price; `utilization` is the share of the lifetime in which
    the machine trains, as the buyer states it. `tariff_per_kwh` in the currency; `pue` is the site's power over the
    machines' (1 is ideal).
    """

    capital_cost: float
    lifetime_hours: float
    utilization: float
    tariff_per_kwh: float
    pue: float

    @property
    def use_hours(self) -> float:
        """Hours of use in the lifetime: those in which it trains, and pays itself back."""
        return self.lifetime_hours * self.utilization


@dataclass(frozen=True, kw_only=True)
class Price:
    """What `devices` devices cost, to buy, to rent, or both. Electricity is in a rent.

    `power_watts` is the buyer's own figure for all `devices` while they train, host and all; it takes the place of
    measured energy.
    """

    currency: str
    devices: int
    purchase: Purchase | None = None
    rent_per_hour: float | None = None
    power_watts: float | None = None


@dataclass(frozen=True)
class Formula:
    """A derived figure as the report explains it."""

    name: str
    unit: str
    text: str


FORMULAS = (
    Formula(
        "energy per sample",
        "J",
        "energy of all devices over the timed rounds / samples counted in them; "
        "or, where the prices state a power: power x share / samples/s",
    ),
    Formula("samples per joule", "1/J", "1 / energy per sample"),
    Formula("share", "1", "devices of the case / devices that the price is for"),
    Formula(
        "cost per sample, bought, at the stated utilization",
        "currency",
        "capital cost x share / (lifetime x utilization x 3600 s/h x samples/s) "
        "+ energy per sample x PUE x tariff / 3.6e6 J/kWh",
    ),
    Formula("cost per sample, rented", "currency", "price per hour x share / (3600 s/h x samples/s)"),
    Formula("cost per million samples", "currency", "cost per sample x 1,000,000"),
    Formula(
        "break-even",
        "samples",
        "capital cost x share / (cost per sample, rented - energy per sample x PUE x tariff / 3.6e6 J/kWh); "
        "in hours: samples / (3600 s/h x samples/s of the bought machine)",
    ),
    Formula("hours of use in the lifetime", "h", "lifetime x utilization, as the prices state them"),
)


def energy(summary: CaseSummary, price: Price | None = None) -> Estimate:
    """Joules per sample: from the buyer's figure for the machine's power where there is one, else as measured."""
    if price is None or price.power_watts is None:
        return draws.energy(summary)
    watts = price.power_watts * share(summary, price)
    return combined(lambda rate: watts / rate, draws.throughput(summary))


def cost_per_sample(summary: CaseSummary, price: Price, way: Way) -> Estimate:
    """In the currency of the price."""
    rate = draws.throughput(summary)
    if way == "rented":
        if price.rent_per_hour is None:
            return Estimate(None, reason="there is no price to rent it")
        per_second = price.rent_per_hour * share(summary, price) / SECONDS_PER_HOUR
        return combined(lambda rate: per_second / rate, rate)
    if price.purchase is None:
        return Estimate(None, reason="there is no price to buy it")
    seconds = price.purchase.use_hours * SECONDS_PER_HOUR
    capital = price.purchase.capital_cost * share(summary, price) / seconds
    return combined(lambda rate, power: capital / rate + power, rate, _electricity(summary, price, price.purchase))


def cost_per_million(summary: CaseSummary, price: Price, way: Way) -> Estimate:
    """In the currency of the price, for a million samples."""
    return combined(lambda cost: cost * MILLION, cost_per_sample(summary, price, way))


def break_even(bought: CaseSummary, price: Price, rented: CaseSummary, rent: Price) -> Estimate:
    """Samples from which buying the one machine is cheaper than renting the other; the reason where it never is."""
    if price.purchase is None or rent.rent_per_hour is None:
        return Estimate(None, reason="it takes a machine to buy and one to rent")
    capital = price.purchase.capital_cost * share(bought, price)
    renting = cost_per_sample(rented, rent, "rented")
    saved = combined(lambda one, other: one - other, renting, _electricity(bought, price, price.purchase))
    return paid_back(capital, saved)


def paid_back(capital: float, saved: Estimate) -> Estimate:
    """`capital` over what is saved by the unit; never where nothing is, and without interval where that is open."""
    if saved.value is not None and saved.value <= 0:
        return Estimate(None, reason="never: the rent is less than the electricity")
    if saved.draws is not None and saved.draws.min() <= 0:
        saved = Estimate(saved.value)
    return combined(lambda each: capital / each, saved)


def _electricity(summary: CaseSummary, price: Price, purchase: Purchase) -> Estimate:
    """Cost per sample; nothing where the tariff is, whatever the energy."""
    if purchase.tariff_per_kwh == 0:
        return combined(lambda rate: 0 * rate, draws.throughput(summary))
    factor = purchase.pue * purchase.tariff_per_kwh / JOULES_PER_KWH
    return combined(lambda joules: joules * factor, energy(summary, price))


def share(summary: CaseSummary, price: Price) -> float:
    """How many of what the price is for a case takes: a half for four devices of eight."""
    return summary.case.n_devices / price.devices
