"""Products that contract dims: MatMul, BatchMatMul, Einsum.

All three are one rule over labelled dims. A cut of a label that the output keeps stays a cut of the output; a cut of a
label that is summed away on both sides makes the output partial.
"""

from __future__ import annotations

from collections.abc import Callable

from whale.ir.dims import Dim
from whale.ir.placement import PARTIAL, REPLICATED
from whale.sharding.call import Call, is_partial
from whale.sharding.facts import Decision, Decline, Want

Rule = Callable[[Call], Decision]


def contract(call: Call, labels: tuple[str, ...], out: str) -> Decision:
    """The rule of a product of one or two operands whose dims carry the given labels."""
    facts = call.ins
    sizes: dict[str, Dim] = {}
    for index, names in enumerate(labels):
        for name, size in zip(names, call.dims(index)):
            if sizes.get(name, 1) == 1:
                sizes[name] = size
    dims = tuple(sizes[name] for name in out)
    partial = [i for i, f in enumerate(facts) if is_partial(f)]
    if partial:
        others = [f for i, f in enumerate(facts) if i != partial[0]]
        if len(partial) == 1 and not any(f.sharded for f in others):
            return call.decide(
                [None if i in partial else REPLICATED for i in range(len(facts))], call.fact(PARTIAL, dims)
            )
    cuts = [(i, labels[i][f.sharded.dim], f.sharded) for i, f in enumerate(facts) if f.sharded]
    if not cuts:
        return call.decide(call.settled(), call.fact(REPLICATED, dims))
    # The cut that keeps most in place: one both operands share, else one the output keeps, else the first.
    shared = [c for c in cuts if sum(c[1] == other[1] for other in cuts) > 1]
    kept = [c for c in cuts if c[1] in out]
    _, label, cut = (shared or kept or cuts)[0]
    wants: list[Want] = []
    for index, (fact, names) in enumerate(zip(facts, labels)):
        position = names.find(label)
        if position < 0 or (call.dims(index)[position] == 1 and not fact.sharded):
            wants.append(REPLICATED if fact.placement != REPLICATED else None)
            continue
        wants.append(call.piece(index, cut.on(position)))
    placement = cut.on(out.index(label)) if label in out else PARTIAL
    return call.decide(wants, call.fact(placement, dims))


def matmul(call: Call) -> Decision:
    """``MatMul(a, b)`` with transpose flags."""
    a = "ki" if call.attr("transpose_a") else "ik"
    b = "jk" if call.attr("transpose_b") else "kj"
    return contract(call, (a, b), "ij")


def batch_matmul(call: Call) -> Decision:
    """``BatchMatMul``: leading dims broadcast."""
    left, right = call.rank(0), call.rank(1)
    lead = "abcdefgh"[: max(left, right) - 2]
    a = "ki" if call.attr("adj_x") else "ik"
    b = "jk" if call.attr("adj_y") else "kj"
    return contract(call, (lead[len(lead) - left + 2 :] + a, lead[len(lead) - right + 2 :] + b), lead + "ij")


def einsum(call: Call) -> Decision:
    """``Einsum``, without repeated labels within an operand."""
    inputs, _, out = call.attr("equation").replace(" ", "").partition("->")
    labels = inputs.split(",")
    if "..." in out or any("..." in names for names in labels):
        ranks = [call.rank(i) - len(names.replace("...", "")) for i, names in enumerate(labels) if "..." in names]
        dots = "ABCDEFGH"[: max(ranks)]
        rank_of = iter(ranks)
        labels = [
            names.replace("...", dots[len(dots) - next(rank_of) :]) if "..." in names else names for names in labels
        ]
        out = out.replace("...", dots)
    if any(len(set(names)) != len(names) for names in (*labels, out)) or len(labels) > 2:
        raise Decline("the equation repeats a label")
    return contract(call, tuple(labels), out)


def fourier(call: Call) -> Decision:
    """FFT and its kin: of each sample by itself, where the batch is none of the dims that are transformed."""
    fact, rest = call.ins[0], len(call.ins) - 1
    others: list[Want] = [REPLICATED] * rest
    kept = None if fact.dims is None else (*fact.dims[: -_transformed(call)], *(None,) * _transformed(call))
    if fact.sharded is None:
        if is_partial(fact):
            return call.decide([None, *others], call.fact(PARTIAL, kept))
        return call.decide([REPLICATED, *others], call.fact(REPLICATED, kept))
    if fact.sharded.dim >= call.rank(0) - _transformed(call):
        raise Decline("transforms along the batch")
    return call.decide([None, *others], call.fact(fact.sharded, kept))


def _transformed(call: Call) -> int:
    """Number of last dims that a Fourier transform runs over."""
    return {"2D": 2, "3D": 3}.get(call.op.type[-2:], 1)


RULES: dict[str, Rule] = {
    **{f"{name}{dims}": fourier for name in ("FFT", "IFFT", "RFFT", "IRFFT") for dims in ("", "2D", "3D")},
    "MatMul": matmul,
    "BatchMatMul": batch_matmul,
    "BatchMatMulV2": batch_matmul,
    "BatchMatMulV3": batch_matmul,
    "Einsum": einsum,
}
