"""Fetched tensors as one value: what one device would fetch, or what the script's collections ask for instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from whale.ir.placement import REPLICATED

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


def merge_rules(collections: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """By tensor: how its pieces are merged, ``mean``, ``sum`` or ``first``, where that is not by joining them.

    Args:
        collections: names of tensors by key, one of ``GraphKeys``. Micro-batches of one replica are not there to be
            merged without a pipeline: under a LOCAL key the first replica's piece is fetched.
    """
    rules: dict[str, str] = {}
    for key, tensors in collections.items():
        extent, how, _ = key.split("_")
        rule = "first" if extent == "local" else how
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
    pieces = [lowering.get(tensor, cut, replica) for replica in lowering.replicas]
    if rule == "first":
        return pieces[0]
    build, place, dtype = lowering.builder, lowering.place(tensor, 0), lowering.dtype(tensor)
    total = build.add_n(place, pieces, dtype)
    if rule == "sum":
        return total
    return build.binary(place, "Div", total, build.const(place, len(pieces), dtype), dtype)
