"""Ops where values enter: constants, random numbers; and ops that run once for all copies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from whale.ir.placement import REPLICATED, Sharded
from whale.sharding.call import Call
from whale.sharding.facts import Decision, Local

Rule = Callable[[Call], Decision]


def constant(call: Call) -> Decision:
    """A constant: whole; zeros are remembered."""
    value = call.op.value
    zero = value is not None and value.dtype.kind in "fiu" and not np.any(value)
    return call.decide([], call.fact(REPLICATED, None, zero=zero))


def random(call: Call) -> Decision:
    """A random op draws what one device would draw; pieces of it are taken where it meets pieces."""
    target = call.ins[0].value if call.ins else None
    dims = tuple(target) if target is not None and target.ndim == 1 else None
    if call.independent and dims is not None:
        for batch in call.batches.roots():
            size = call.batches.size(batch)
            if size in dims:
                cut = Sharded(dims.index(size), batch)
                own = call.decide([Local(batch, (cut.dim,))], call.fact(cut, dims))
                return dataclasses.replace(own, approximate="each replica draws its own random numbers (random.mode)")
    return call.decide([REPLICATED] * len(call.ins), call.fact(REPLICATED, dims))


RANDOM = frozenset(
    [
        "RandomUniform",
        "RandomStandardNormal",
        "RandomUniformInt",
        "TruncatedNormal",
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomShuffle",
        "RandomGamma",
        "RandomPoissonV2",
        "UniformCandidateSampler",
        "LogUniformCandidateSampler",
        "LearnedUnigramCandidateSampler",
        "ThreadUnsafeUnigramCandidateSampler",
        "FixedUnigramCandidateSampler",
        "AllCandidateSampler",
    ]
)
"""Ops with a generator of their own, seeded by attributes ``seed`` and ``seed2``."""

SHAPED = frozenset({"RandomUniform", "RandomStandardNormal", "RandomUniformInt", "TruncatedNormal"})
"""Random ops whose first input is the shape of what they draw."""

RULES: dict[str, Rule] = {"Const": constant, **{name: random for name in SHAPED}}
