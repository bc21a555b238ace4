"""Offers ranked, against counting what is better."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable

import pytest

from tests.planner.report import plans
from whale.errors import PlanError
from whale.planner.report import Offer, offers_data, offers_text, rank_offers
from whale.planner.search.search import Found

SAMPLES = 1e6


def _offers() -> list[Offer]:
    cluster = plans.two_hosts()
    pipeline = plans.found(cluster, plans.pipeline(cluster, rows=4, micro_batches=16))
    copies = plans.found(cluster, plans.data(cluster, micro_batches=2))
    return [
        Offer("four in a row", 8.0, pipeline),
        Offer("eight copies", 20.0, copies),
        Offer("eight copies, spot", 6.5, copies),
        Offer("one small card", 0.35, PlanError("the model fits on no plan of these devices", fix="use larger ones")),
    ]


def test_the_table(golden: Callable[..., None]) -> None:
    golden(offers_text(rank_offers(_offers(), SAMPLES), SAMPLES))


def test_without_prices_the_table_has_no_costs() -> None:
    free = [Offer(offer.name, 0.0, offer.outcome) for offer in _offers()]
    text = offers_text(rank_offers(free, SAMPLES), SAMPLES)
    assert "cost" not in text and "price" not in text


@pytest.mark.parametrize("by", ["time", "cost"])
def test_ranks_are_those_of_counting_what_is_better(by: str) -> None:
    draw = random.Random(3)
    cluster = plans.two_hosts()
    founds = [
        plans.found(cluster, plans.pipeline(cluster, rows=rows, micro_batches=pieces, global_batch=batch))
        for rows, pieces, batch in itertools.product((1, 2, 4), (4, 8), (64, 128))
    ]
    offers = [Offer(f"offer {n}", draw.choice((1.0, 2.0, 7.5)), found) for n, found in enumerate(founds)]
    offers += [Offer("none", 1.0, PlanError("too small"))]
    ranked = rank_offers(offers, SAMPLES, by)  # type: ignore[arg-type]

    def brute(offer: Offer) -> tuple[float, float]:
        assert isinstance(offer.outcome, Found)
        seconds = SAMPLES / (offer.outcome.plan.global_batch / offer.outcome.estimate.step_seconds)
        return seconds, seconds / 3600 * offer.price_per_hour

    figures = {offer.name: brute(offer) for offer in offers if offer.name != "none"}
    for each in ranked[:-1]:
        seconds, cost = figures[each.name]
        assert (each.train_seconds, each.cost) == pytest.approx((seconds, cost))
        assert each.time_place == 1 + sum(other < seconds * (1 - 1e-12) for other, _ in figures.values())
        assert each.cost_place == 1 + sum(other < cost * (1 - 1e-12) for _, other in figures.values())
    places = [each.time_place if by == "time" else each.cost_place for each in ranked[:-1]]
    assert places == sorted(places)  # type: ignore[type-var]
    assert ranked[-1].name == "none" and not ranked[-1].fits and ranked[-1].reason == "too small"


def test_the_order_of_offers_makes_no_difference() -> None:
    results = {rank_offers(order, SAMPLES) for order in itertools.permutations(_offers())}
    assert len(results) == 1


def test_data_is_json() -> None:
    ranked = rank_offers(_offers(), SAMPLES, "cost")
    data = json.loads(json.dumps(offers_data(ranked, SAMPLES)))
    assert [each["name"] for each in data["offers"]] == [each.name for each in ranked]
    assert data["offers"][0]["cost_place"] == 1


@pytest.mark.parametrize(
    ("offers", "samples", "told"),
    [
        ([*_offers(), _offers()[0]], SAMPLES, "two offers are named 'four in a row'"),
        ([Offer("gift", -1.0, PlanError("no"))], SAMPLES, "a price of -1.0 an hour"),
        ([Offer("odd", float("nan"), PlanError("no"))], SAMPLES, "a price of nan an hour"),
        (_offers(), 0, "0 samples to train on"),
    ],
)
def test_what_cannot_be_compared_is_refused(offers: list[Offer], samples: float, told: str) -> None:
    with pytest.raises(PlanError, match=told):
        rank_offers(offers, samples)
