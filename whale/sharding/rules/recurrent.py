"""Recurrent cells, and layers of them, that are one op: each sample has a row of its own, all read the same weights.

A rule is written as labels of dims, as in an einsum: ``b`` is the sample, ``t`` the time. An output without samples is
the gradient of something that all samples read: a sum over them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from whale.ir.dims import Dim
from whale.ir.placement import PARTIAL, REPLICATED, Sharded
from whale.sharding.call import Call
from whale.sharding.facts import Decision, Decline, Want

Rule = Callable[[Call], Decision]


@dataclasses.dataclass(frozen=True)
class Labels:
    """What the dims of an op's inputs and outputs are."""

    ins: str
    """Labels of each input, separated by blanks; ``-`` is a scalar."""
    outs: str
    """Labels of each output."""
    unwritten: bool = False
    """Whether TensorFlow's kernel leaves sums over samples unwritten where there are none."""


def labelled(labels: Labels) -> Rule:
    """The rule of an op whose dims have labels."""
    ins, outs = labels.ins.split(), labels.outs.split()

    def rule(call: Call) -> Decision:
        sizes: dict[str, Dim] = {}
        for names, fact in zip(ins, call.ins):
            if fact.dims is not None and len(fact.dims) == len(names):
                sizes = {**dict(zip(names, fact.dims)), **sizes}
        dims = [[sizes.get(name) for name in names] for names in outs]
        cut = _cut(call, ins)
        if cut is None:
            return call.whole(outputs=[call.fact(REPLICATED, d, i) for i, d in enumerate(dims)])
        wants: list[Want] = [
            call.piece(i, cut.on(names.index("b"))) if "b" in names else REPLICATED for i, names in enumerate(ins)
        ]
        placed = [cut.on(names.index("b")) if "b" in names else PARTIAL for names in outs]
        facts = [call.fact(p, d, i) for i, (p, d) in enumerate(zip(placed, dims))]
        if labels.unwritten:
            return call.decide(wants, *facts, recipe="zero_if_empty", batch=cut.batch)
        return call.decide(wants, *facts)

    return rule


def _cut(call: Call, ins: list[str]) -> Sharded | None:
    """How the first of the inputs that have samples is cut; None where none is."""
    found: Sharded | None = None
    for names, fact in zip(ins, call.ins):
        if fact.sharded is None:
            continue
        if "b" not in names:
            raise Decline("an input that every sample reads is cut")
        if fact.sharded.dim != names.index("b"):
            raise Decline("it is cut on a dim that is not that of its samples")
        found = found or fact.sharded
    return found


_WEIGHTS = "kg u u u g"
_LSTM = f"- tbi bu bu {_WEIGHTS}"
_GATES = " ".join(["tbu"] * 7)
_LAYER = Labels(_LSTM, _GATES)
_LAYER_GRAD = Labels(f"{_LSTM} {_GATES} tbu tbu", f"tbi bu bu {_WEIGHTS}", unwritten=True)

RULES: dict[str, Rule] = {
    "BlockLSTM": labelled(_LAYER),
    "BlockLSTMV2": labelled(_LAYER),
    "BlockLSTMGrad": labelled(_LAYER_GRAD),
    "BlockLSTMGradV2": labelled(_LAYER_GRAD),
    "LSTMBlockCell": labelled(Labels(f"bi bu bu {_WEIGHTS}", "bu bu bu bu bu bu bu")),
    "LSTMBlockCellGrad": labelled(Labels(f"bi bu bu {_WEIGHTS} bu bu bu bu bu bu bu bu", "bu bg u u u")),
    "GRUBlockCell": labelled(Labels("bi bu kr ku r u", "bu bu bu bu")),
    "GRUBlockCellGrad": labelled(Labels("bi bu kr ku r u bu bu bu bu", "bi bu bu br")),
}
