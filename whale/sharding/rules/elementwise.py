"""Element-wise ops with broadcasting.

Sharded operands must be cut on the same output dim; replicated operands are sliced where they span that dim. Sums of
copies (partial values) pass through what is linear in them and are added up before anything else reads them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import EACH, PARTIAL, REPLICATED, Placement, Sharded
from whale.sharding.call import Call, is_partial, partial_or_zero
from whale.sharding.facts import Decision, Decline, Fact, Want
from whale.sharding.values import broadcast, evaluate

Rule = Callable[[Call], Decision]


def spread(call: Call, operands: Sequence[int] | None = None) -> tuple[list[Want], Placement, tuple[Dim, ...] | None]:
    """Aligns broadcast operands: what is wanted of each, where the result is, its sizes.

    Partial operands are summed first. The first sharded operand decides the cut.
    """
    which = list(range(len(call.ins))) if operands is None else list(operands)
    wants: list[Want] = [REPLICATED] * len(call.ins)
    facts = [call.ins[i] for i in which]
    dims: tuple[Dim, ...] | None = ()
    for fact in facts:
        if dims is not None and fact.dims is not None:
            for a, b in zip(reversed(dims), reversed(fact.dims)):
                if not call.batches.equate(a, b):
                    call.batches.must_agree(a, b)
        dims = None if dims is None or fact.dims is None else broadcast(dims, fact.dims)
    if not any(f.sharded for f in facts):
        return wants, REPLICATED, dims
    ranks = [call.rank(i) for i in which]
    rank = max(ranks)
    lead: Sharded | None = None
    for index, fact in zip(which, facts):
        cut = fact.sharded
        if cut is None:
            continue
        at = cut.on(cut.dim + rank - len(fact.dims or ()))
        if lead is None:
            lead = at
        if call.one_cut(lead, at):
            wants[index] = None
    assert lead is not None
    for index, fact in zip(which, facts):
        if wants[index] is not None:
            wants[index] = piece_of(call, fact, lead, rank)
    return wants, lead, dims


def piece_of(call: Call, fact: Fact, lead: Sharded, rank: int) -> Want:
    """What is wanted of an operand that meets a tensor cut as ``lead``: its piece, or all where it is broadcast."""
    dims = fact.dims or ()
    dim = lead.dim - (rank - len(dims))
    if dim < 0 or dims[dim] == 1:
        return REPLICATED
    call.batches.equate(dims[dim], call.size(lead))
    if not call.batches.must_agree(dims[dim], call.size(lead)):
        raise Decline("its operands have different numbers of samples")
    if lead.plain:
        call.batches.fix(lead.batch, dims[dim])
    return lead.on(dim)


def own_values(call: Call) -> Decision | None:
    """Every copy computes with its own small vectors of sizes or axes, beside whole operands; None for other cases."""
    if not any(f.placement == EACH for f in call.ins) or len(call.op.outputs) != 1:
        return None
    if any(f.sharded or is_partial(f) for f in call.ins):
        return None
    dims: tuple[Dim, ...] | None = ()
    for fact in call.ins:
        dims = None if dims is None or fact.dims is None else broadcast(dims, fact.dims)
    value = evaluate(call.op, call.ins)
    return call.decide([None] * len(call.ins), dataclasses.replace(call.fact(EACH, dims), value=value))


def nonlinear(call: Call) -> Decision:
    """Any element-wise function: partial operands are summed first."""
    own = own_values(call)
    if own is not None:
        return own
    wants, placement, dims = spread(call)
    return call.decide(wants, *(call.fact(placement, dims, i) for i in range(len(call.op.outputs))))


def additive(call: Call) -> Decision:
    """Sums and differences: partial with partial stays partial."""
    if any(is_partial(f) for f in call.ins) and all(partial_or_zero(f) for f in call.ins):
        _, _, dims = spread(dataclasses.replace(call, ins=tuple(Fact(REPLICATED, f.dims) for f in call.ins)))
        return call.decide([PARTIAL] * len(call.ins), call.fact(PARTIAL, dims))
    decision = nonlinear(call)
    zero = all(f.zero for f in call.ins)
    return dataclasses.replace(decision, outputs=tuple(dataclasses.replace(f, zero=zero) for f in decision.outputs))


def multiplicative(call: Call) -> Decision:
    """Products: partial times a value every copy holds stays partial."""
    partial = [i for i, f in enumerate(call.ins) if is_partial(f)]
    others = [f for f in call.ins if not is_partial(f)]
    if len(partial) == 1 and not any(f.sharded for f in others):
        _, _, dims = spread(dataclasses.replace(call, ins=tuple(Fact(REPLICATED, f.dims) for f in call.ins)))
        wants: list[Want] = [REPLICATED] * len(call.ins)
        wants[partial[0]] = None
        return call.decide(wants, call.fact(PARTIAL, dims))
    decision = nonlinear(call)
    if any(f.zero for f in call.ins):
        decision = dataclasses.replace(
            decision, outputs=tuple(dataclasses.replace(f, zero=True) for f in decision.outputs)
        )
    return decision


def divisive(call: Call) -> Decision:
    """Quotients: partial divided by a value every copy holds stays partial."""
    if is_partial(call.ins[0]) and not any(f.sharded for f in call.ins[1:]):
        wants: list[Want] = [REPLICATED] * len(call.ins)
        wants[0] = None
        _, _, dims = spread(dataclasses.replace(call, ins=tuple(Fact(REPLICATED, f.dims) for f in call.ins)))
        return call.decide(wants, call.fact(PARTIAL, dims))
    return nonlinear(call)


def linear(call: Call) -> Decision:
    """A linear function of one operand: sums, pieces and wholes stay what they are."""
    fact = call.ins[0]
    return call.decide([None], call.fact(fact.placement, fact.dims, zero=fact.zero))


def unchanged(call: Call) -> Decision:
    """One operand, passed on as it is with all that is known of it."""
    fact = call.ins[0]
    out = call.fact(fact.placement, fact.dims, value=fact.value, zero=fact.zero, iota=fact.iota)
    return call.decide([None], dataclasses.replace(out, origin=fact.origin))


def unchanged_all(call: Call) -> Decision:
    """Several operands, each passed on as it is: what ``tf.custom_gradient`` puts around a function's values."""
    outputs = [
        dataclasses.replace(
            call.fact(fact.placement, fact.dims, i, value=fact.value, zero=fact.zero, iota=fact.iota),
            origin=fact.origin,
        )
        for i, fact in enumerate(call.ins)
    ]
    return call.decide([None] * len(outputs), *outputs)


def partial_linear(call: Call) -> Decision:
    """Linear in a whole or partial operand; has no rule for pieces."""
    if call.ins[0].sharded:
        raise Decline("mixes samples")
    return call.decide([None], call.fact(call.ins[0].placement, None))


def cast(call: Call) -> Decision:
    """Between floating types a cast is linear up to rounding; to and from integers it is not."""
    source, target = call.ins[0], call.op.outputs[0].dtype
    floating = all(t.startswith(("float", "bfloat", "complex")) for t in (call.attr("SrcT"), target))
    widening = call.attr("SrcT") in ("int32", "int64", "bool", "uint8", "int8", "int16") and target != "bool"
    if is_partial(source) and not floating and not (widening and call.attr("SrcT") in ("int32", "int64")):
        return call.decide([REPLICATED], call.fact(REPLICATED, source.dims))
    value = source.value if target != "bool" else None
    iota = source.iota if target in ("int32", "int64") else None
    return call.decide([None], call.fact(source.placement, source.dims, value=value, zero=source.zero, iota=iota))


def zeros_like(call: Call) -> Decision:
    """Zeros of the shape of a tensor: known to be zero, cut as the tensor is; a partial tensor lends its shape only."""
    fact = call.ins[0]
    placement = REPLICATED if is_partial(fact) else fact.placement
    return call.decide([None], call.fact(placement, fact.dims, zero=call.op.type == "ZerosLike"))


def select(call: Call) -> Decision:
    """``where(c, a, b)``: old form (a vector condition picks rows) and broadcasting form."""
    summed = all(map(partial_or_zero, call.ins[1:3])) and any(map(is_partial, call.ins[1:3]))
    if summed and not call.ins[0].sharded:
        return call.decide([REPLICATED, PARTIAL, PARTIAL], call.fact(PARTIAL, call.ins[1].dims))
    condition, data = call.ins[0], call.ins[1]
    if data.iota is not None and data.placement == REPLICATED and _chosen(call, data.iota):
        counted = call.fact(REPLICATED, data.dims, value=data.value, iota=data.iota)
        return call.decide([REPLICATED] * 3, counted)
    if call.op.type == "Select" and condition.rank == 1 and (data.rank or 0) > 1:
        wants, placement, dims = spread(call, [1, 2])
        cut = condition.sharded
        if isinstance(placement, Sharded) and placement.dim == 0:
            wants[0] = call.piece(0, placement)
        elif cut and placement == REPLICATED:
            placement = cut
            wants = [None, call.piece(1, cut), call.piece(2, cut)]
        else:
            wants[0] = REPLICATED
        return call.decide(wants, call.fact(placement, dims))
    return nonlinear(call)


def _chosen(call: Call, batch: int) -> bool:
    """Whether what is chosen counts the samples of a batch, either way: they are counted where there are several.

    ``tf.vectorized_map`` counts so: ``where(size > 1, range(size), 0)``.
    """
    condition, size = call.ins[0].value, call.batches.size(batch)
    if condition is None or condition.ndim:
        return False
    several = D.opaque("Greater", size, 1)
    return condition[()] == 1 or (condition[()] == several and call.ins[2].zero)


def add_n(call: Call) -> Decision:
    """The sum of tensors of one shape."""
    return additive(call)


def _table(rule: Rule, names: str) -> dict[str, Rule]:
    return {name: rule for name in names.split()}


RULES: dict[str, Rule] = {
    **_table(
        unchanged,
        "Identity StopGradient PreventGradient CheckNumerics Snapshot RefIdentity DeepCopy MirrorIdentity EnsureShape",
    ),
    **_table(unchanged_all, "IdentityN"),
    **_table(linear, "Neg Conj Real Imag"),
    **_table(partial_linear, "Diag DiagPart"),
    **_table(additive, "Add AddV2 Sub AddN AccumulateNV2"),
    **_table(multiplicative, "Mul"),
    **_table(divisive, "RealDiv Div DivNoNan"),
    **_table(select, "Select SelectV2"),
    **_table(zeros_like, "ZerosLike OnesLike"),
    **_table(cast, "Cast"),
    **_table(
        nonlinear,
        "Abs Acos Acosh Asin Asinh Atan Atan2 Atanh Bitcast BitwiseAnd BitwiseOr BitwiseXor Bucketize Ceil ClipByValue "
        "Complex ComplexAbs Angle Cos Cosh Digamma Elu EluGrad Equal Erf Erfc Erfinv Exp Expm1 Floor FloorDiv FloorMod "
        "Greater GreaterEqual Igamma IgammaGradA Igammac Inv InvGrad Invert IsFinite IsInf IsNan LeakyRelu "
        "LeakyReluGrad Less LessEqual Lgamma Log Log1p LogicalAnd LogicalNot LogicalOr Maximum Minimum Mod MulNoNan "
        "Ndtri NextAfter NotEqual Polygamma Pow Reciprocal ReciprocalGrad Relu ReluGrad Relu6 Relu6Grad Rint Round "
        "Rsqrt RsqrtGrad Selu SeluGrad Sigmoid SigmoidGrad Sign Sin Sinh Softplus SoftplusGrad Softsign SoftsignGrad "
        "Sqrt SqrtGrad Square SquaredDifference Tan Tanh TanhGrad TruncateDiv TruncateMod Xdivy Xlogy Xlog1py Zeta "
        "ApproximateEqual LeftShift RightShift PopulationCount BesselI0e BesselI1e QuantizeAndDequantizeV2 "
        "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient StringToNumber StringStrip StringLower StringUpper "
        "AsString StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringLength RegexReplace "
        "RegexFullMatch DecodeBase64 StaticRegexReplace StaticRegexFullMatch Substr",
    ),
}
