"""Offers of devices compared: what a step takes on each, and what training costs.

Training N samples takes ``N / samples per second`` and costs that time at the offer's price. Offers are ranked by both;
where all have the same batch, the order by time is that of their steps.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal

from rich.console import Group
from rich.table import Table
from rich.text import Text

from whale.errors import PlanError, WhaleError
from whale.planner.report.table import plain_text, simple_table
from whale.planner.report.words import (
    counted,
    duration_words,
    layout_words,
    money_words,
    number_words,
    rate_words,
    seconds_words,
)
from whale.planner.search.families import family_of
from whale.planner.search.search import Found

Order = Literal["time", "cost"]

_PRICED = ["cost", "price/h", "by cost"]
"""Columns that only offers with a price have."""


@dataclasses.dataclass(frozen=True)
class Offer:
    """Devices that may be had for a price."""

    name: str
    price_per_hour: float
    """Of all its devices, used or not, in any currency."""
    outcome: Found | WhaleError
    """The best plan on its devices, or the error that says why there is none."""


@dataclasses.dataclass(frozen=True)
class Ranked:
    """An offer and what training on it comes to; the figures are None where no plan fits."""

    name: str
    price_per_hour: float
    fits: bool
    step_seconds: float | None = None
    samples_per_second: float | None = None
    train_seconds: float | None = None
    """For all samples that were asked for."""
    cost: float | None = None
    """Of those, in the currency of the price."""
    time_place: int | None = None
    """1 for the offer that trains fastest; equal times share a place."""
    cost_place: int | None = None
    """1 for the cheapest; equal costs share a place."""
    devices: int = 0
    """That the plan uses."""
    family: str = ""
    layout: str = ""
    reason: str = ""
    """Why no plan fits."""


def rank_offers(offers: Sequence[Offer], samples: float, by: Order = "time") -> tuple[Ranked, ...]:
    """Offers from the best to the worst; those that do not fit last, by name.

    The order of the argument makes no difference: what is equal by time and cost is ordered by name.

    Args:
        offers: what to compare.
        samples: how many are to be trained on, over all steps.
        by: whether the shortest time or the smallest cost is best.

    Raises:
        PlanError: two offers have one name, a price is negative, or there is nothing to train on.
    """
    _check(offers, samples)
    fitting = [ranked for ranked in (_judge(offer, samples) for offer in offers) if ranked.fits]
    others = [ranked for ranked in (_judge(offer, samples) for offer in offers) if not ranked.fits]
    times = sorted(_time(ranked) for ranked in fitting)
    costs = sorted(_cost(ranked) for ranked in fitting)
    placed = [
        dataclasses.replace(r, time_place=times.index(_time(r)) + 1, cost_place=costs.index(_cost(r)) + 1)
        for r in fitting
    ]
    first, second = (_time, _cost) if by == "time" else (_cost, _time)
    placed.sort(key=lambda ranked: (first(ranked), second(ranked), ranked.name))
    return (*placed, *sorted(others, key=lambda ranked: ranked.name))


def offers_data(ranked: Sequence[Ranked], samples: float) -> dict[str, object]:
    """Ranked offers as what ``json.dumps`` takes."""
    return {"version": 1, "samples": samples, "offers": [dataclasses.asdict(each) for each in ranked]}


def offers_tables(ranked: Sequence[Ranked], samples: float) -> Group:
    """Ranked offers for ``rich`` to print, in their order."""
    priced = any(each.price_per_hour for each in ranked)
    headings = ["offer", "step", "speed", f"{number_words(samples)} samples", *_PRICED * priced]
    table = simple_table(*headings)
    for column in table.columns[1:]:
        column.justify = "right"
    for each in ranked:
        cells = ["-"] * 3 + ["-", money_words(each.price_per_hour), "-"] * priced
        if each.step_seconds is not None and each.samples_per_second is not None:
            cells[:2] = [seconds_words(each.step_seconds), rate_words(each.samples_per_second)]
        if each.train_seconds is not None and each.cost is not None:
            cells[2] = duration_words(each.train_seconds)
            cells[3:] = [money_words(each.cost), money_words(each.price_per_hour), str(each.cost_place)] * priced
        table.add_row(Text(each.name), *cells)
    return Group(table, Text(), *_notes(ranked))


def offers_text(ranked: Sequence[Ranked], samples: float, width: int = 80) -> str:
    """Ranked offers as plain text of so many columns."""
    return plain_text(offers_tables(ranked, samples), width)


def _notes(ranked: Sequence[Ranked]) -> list[Text | Table]:
    """What the best plan of each offer is, or why there is none."""
    notes = Table.grid(padding=(0, 2))
    for each in ranked:
        plan = f"{each.family} on {counted(each.devices, 'device')}: {each.layout}"
        notes.add_row(Text(each.name), Text(plan if each.fits else f"nothing fits: {each.reason}"))
    return [notes] if ranked else [Text("no offers")]


def _check(offers: Sequence[Offer], samples: float) -> None:
    names = [offer.name for offer in offers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PlanError(f"two offers are named {twice[0]!r}", fix="give each its own name")
    for offer in offers:
        if not (offer.price_per_hour >= 0 and math.isfinite(offer.price_per_hour)):
            raise PlanError(
                f"offer {offer.name!r} has a price of {offer.price_per_hour} an hour",
                fix="use zero or a positive number",
            )
    if not (samples > 0 and math.isfinite(samples)):
        raise PlanError(f"{samples} samples to train on", fix="use a positive number")


def _judge(offer: Offer, samples: float) -> Ranked:
    outcome = offer.outcome
    if isinstance(outcome, WhaleError):
        return Ranked(offer.name, offer.price_per_hour, fits=False, reason=outcome.what)
    plan, step = outcome.plan, outcome.estimate.step_seconds
    seconds = samples * step / plan.global_batch
    return Ranked(
        name=offer.name,
        price_per_hour=offer.price_per_hour,
        fits=True,
        step_seconds=step,
        samples_per_second=plan.global_batch / step if step else 0.0,
        train_seconds=seconds,
        cost=seconds / 3600 * offer.price_per_hour,
        devices=len(plan.devices),
        family=family_of(plan).name,
        layout=layout_words(plan),
    )


def _time(ranked: Ranked) -> float:
    return ranked.train_seconds if ranked.train_seconds is not None else math.inf


def _cost(ranked: Ranked) -> float:
    return ranked.cost if ranked.cost is not None else math.inf
