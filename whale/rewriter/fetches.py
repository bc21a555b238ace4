"""Fetched tensors as one value: what one device would fetch, or what the script's collections ask for instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from whale.ir.placement import REPLICATED

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


def merge_rules(collections: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """By tensor: how its pieces are merged, where not by joining them all.

    A rule is ``mean`` or ``sum`` over all pieces, or ``local_concat``, ``local_mean`` or ``local_sum`` over those of
    the first replica, its micro-batches.

    Args:
        collections: names of tensors by key, one of ``GraphKeys``.
    """
    rules: dict[str, str] = {}
    for key, tensors in collections.items():
        extent, how, _ = key.split("_")
        rule = f"local_{how}" if extent == "local" else how
        if rule != "concat":
            rules.update(dict.fromkeys(tensors, rule))
    return rules


def fetch(lowering: Lowering, tensor: str, rule: str) -> str:
    """The node output to fetch for a tensor.

    A rule speaks of pieces; what is whole, or a sum over the batch, is the same under each. ``mean`` and ``sum`` are
    element-wise and need pieces of one shape, so a batch that the copies share evenly.
    """
    cut = lowering.fact(tensor).sharded
    if cut is None or not rule:
        return lowering.get(tensor, REPLICATED, 0)
    extent, _, how = rule.rpartition("_")
    copies = lowering.mesh.of_first_replica if extent == "local" else lowering.copies
    build, place, dtype = lowering.builder, lowering.place(tensor, 0), lowering.dtype(tensor)
    if how == "concat":
        pieces = [lowering.totals.rows(tensor, copy) for copy in copies]
        return lowering.bridges.gather(place, pieces, cut, lowering.fact(tensor).rank or 0, dtype)
    pieces = [lowering.totals.sum_of_micro_batches(tensor, lowering.get(tensor, cut, copy), copy) for copy in copies]
    total = build.add_n(place, pieces, dtype)
    if how == "sum":
        return total
    count = len(pieces) * lowering.mesh.micro_batches
    return build.binary(place, "Div", total, build.const(place, count, dtype), dtype)
