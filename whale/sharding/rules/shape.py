"""Ops that ask for shapes or change them.

``Shape`` and its kin speak of the whole tensor. Ops that take a target shape get each copy's own: the elements that
scale with the batch are replaced by the copy's share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import EACH, PARTIAL, REPLICATED, Sharded
from whale.sharding.call import Call, is_partial, partial_or_zero
from whale.sharding.facts import Decision, Decline, Fact, Local, Value, Want
from whale.sharding.values import array, broadcast

Rule = Callable[[Call], Decision]


def shape_of(call: Call) -> Decision:
    """Shape and Size: of the whole tensor; from a piece they are completed by the batch size."""
    fact = call.ins[0]
    if fact.sharded is None:
        return call.decide([None], call.fact(REPLICATED, () if call.op.type == "Size" else None))
    return call.decide([None], call.fact(REPLICATED, None), recipe="global_" + call.op.type.lower())


def shape_n(call: Call) -> Decision:
    """Shapes of several tensors."""
    outputs = [
        call.fact(REPLICATED, None, i, value=None if f.dims is None else array(list(f.dims)))
        for i, f in enumerate(call.ins)
    ]
    recipe = "global_shape_n" if any(f.sharded for f in call.ins) else "copy"
    return call.decide([None] * len(call.ins), *outputs, recipe=recipe)


def rank_of(call: Call) -> Decision:
    """Rank: the same for a piece as for the whole."""
    return call.decide([None], call.fact(REPLICATED, ()))


def split_cut(call: Call, cut: Sharded, dims: Sequence[Dim], target: Sequence[Dim]) -> Sharded:
    """Where the cut of a tensor is after a reshape.

    The batch has stride ``R`` (in elements) in the input, row-major. The one output dim whose interval of strides
    holds ``[R, R * batch)`` is cut, with what is left on either side as its inner and outer counts.
    """
    stride = D.multiply(cut.inner, D.product(dims[cut.dim + 1 :]))
    size = call.batches.size(cut.batch)
    found = _match(cut, stride, size, target)
    if found is None:
        found = _match_numbers(call, cut, stride, target)
    if found is None:
        raise Decline(f"the reshape to {[str(t) for t in target]} does not keep the batch in one dim")
    return found


def _match(cut: Sharded, stride: Dim, size: Dim, target: Sequence[Dim]) -> Sharded | None:
    below: Dim = 1
    for dim in range(len(target) - 1, -1, -1):
        inner = D.divide(stride, below)
        outer = None if inner is None else D.divide(target[dim], D.multiply(size, inner))
        if inner is not None and outer is not None:
            return Sharded(dim, cut.batch, outer, inner)
        below = D.multiply(below, target[dim])
    return None


def _match_numbers(call: Call, cut: Sharded, stride: Dim, target: Sequence[Dim]) -> Sharded | None:
    """The script wrote the batch size as a number into the target: compare with the size of this run."""
    if not isinstance(stride, int) or not all(isinstance(t, int) for t in target):
        return None
    count = call.batches.pin(cut.batch)
    return None if count is None else _match(cut, stride, count, target)


def resolve(call: Call, target: Sequence[Dim], dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """A reshape target with its -1 worked out."""
    if -1 not in target:
        return tuple(target)
    at = list(target).index(-1)
    known = D.product(t for i, t in enumerate(target) if i != at)
    missing = D.divide(D.product(dims), known)
    if missing is None:
        static = call.op.outputs[0].shape
        missing = static[at] if static is not None and at < len(static) else None
    if missing is None:
        missing = D.opaque("reshape", D.product(dims), known)
    return tuple(missing if i == at else t for i, t in enumerate(target))


def reshape(call: Call) -> Decision:
    """Reshape, by the stride rule."""
    fact, target = call.ins[0], call.ins[1].value
    out: tuple[Dim, ...] | None = None
    if target is not None and fact.dims is not None:
        out = resolve(call, list(target), fact.dims)
    if fact.sharded is None:
        placement = fact.placement
        value = None
        return call.decide([None, REPLICATED], call.fact(placement, out, value=value, zero=fact.zero))
    if out is None:
        out = _from_static(call)
    cut = split_cut(call, fact.sharded, call.dims(0), out)
    explicit = target is None or target[cut.dim] != -1
    fixed: tuple[tuple[int, int], ...] = ()
    if explicit and target is not None and -1 in target:
        at = list(target).index(-1)
        inferred = out[at]
        fixed = ((at, inferred),) if isinstance(inferred, int) else ()
    want: Want = REPLICATED
    if explicit:
        want = Local(cut.batch, (cut.dim,), fixed)
    return call.decide([None, want], call.fact(cut, out, zero=fact.zero))


def _from_static(call: Call) -> tuple[Dim, ...]:
    static = call.op.outputs[0].shape
    dims = call.dims(0)
    if static is None or sum(d is None for d in static) > 1:
        raise Decline("the target of the reshape is not known before the run")
    return resolve(call, [-1 if d is None else d for d in static], dims)


def expand_dims(call: Call) -> Decision:
    """A dim of size one is put in."""
    fact = call.ins[0]
    if fact.dims is None:
        return _unranked(call)
    axis = call.axis(1, len(fact.dims) + 1)
    dims = (*fact.dims[:axis], 1, *fact.dims[axis:])
    placement = fact.placement
    if isinstance(placement, Sharded):
        placement = placement.on(placement.dim + (axis <= placement.dim))
    return call.decide([None, REPLICATED], call.fact(placement, dims, zero=fact.zero))


def _unranked(call: Call) -> Decision:
    if any(f.sharded for f in call.ins):
        raise Decline("the rank of the input is unknown")
    return call.whole()


def squeeze(call: Call) -> Decision:
    """Dims of size one are taken out."""
    fact = call.ins[0]
    if fact.dims is None:
        return _unranked(call)
    rank = len(fact.dims)
    axes = {a % rank for a in call.attr("squeeze_dims", ())}
    if not axes:
        static = call.op.outputs[0].shape
        axes = {i for i, d in enumerate(fact.dims) if d == 1}
        if static is None or len(static) != rank - len(axes):
            if fact.sharded:
                raise Decline("squeezes dims whose size is not known before the run")
            return call.whole()
    if fact.sharded and fact.sharded.dim in axes:
        raise Decline("squeezes the batch dim")
    dims = tuple(d for i, d in enumerate(fact.dims) if i not in axes)
    placement = fact.placement
    params: dict[str, Any] = {}
    if isinstance(placement, Sharded):
        placement = placement.on(placement.dim - sum(a < placement.dim for a in axes))
        params = {"attrs": {"squeeze_dims": sorted(axes)}}
    return call.decide([None], call.fact(placement, dims, zero=fact.zero), **params)


def transpose(call: Call) -> Decision:
    """Dims change places."""
    fact = call.ins[0]
    if fact.dims is None or call.ins[1].value is None:
        if fact.sharded:
            raise Decline("the permutation is not known before the run")
        return call.decide([None, REPLICATED], call.fact(fact.placement, None, zero=fact.zero))
    permutation = call.numbers(1)
    dims = tuple(fact.dims[p] for p in permutation)
    placement = fact.placement
    if isinstance(placement, Sharded):
        placement = placement.on(permutation.index(placement.dim))
    return call.decide([None, REPLICATED], call.fact(placement, dims, zero=fact.zero))


def pack(call: Call) -> Decision:
    """Tensors of one shape stacked along a new dim."""
    facts = call.ins
    rank = next((f.rank for f in facts if f.rank is not None), None)
    if rank is None:
        return _unranked(call)
    axis = call.attr("axis", 0) % (rank + 1)
    first = next(f.dims for f in facts if f.dims is not None)
    dims = (*first[:axis], len(facts), *first[axis:])
    zero = all(f.zero for f in facts)
    if any(is_partial(f) for f in facts) and all(partial_or_zero(f) for f in facts):
        return call.decide([PARTIAL] * len(facts), call.fact(PARTIAL, dims))
    cut = next((f.sharded for f in facts if f.sharded), None)
    iota = facts[0].iota if axis == rank else None
    if cut is None:
        return call.decide([REPLICATED] * len(facts), call.fact(REPLICATED, dims, zero=zero, iota=iota))
    out = cut.on(cut.dim + (axis <= cut.dim))
    return call.decide([_match_cut(call, f, cut) for f in facts], call.fact(out, dims, zero=zero, iota=iota))


def _match_cut(call: Call, fact: Fact, cut: Sharded) -> Want:
    if fact.sharded and call.one_cut(fact.sharded, cut):
        return None
    return cut


def unpack(call: Call) -> Decision:
    """A dim taken apart."""
    fact = call.ins[0]
    if fact.dims is None:
        return _unranked(call)
    axis = call.attr("axis", 0) % len(fact.dims)
    dims = tuple(d for i, d in enumerate(fact.dims) if i != axis)
    placement = fact.placement
    if isinstance(placement, Sharded):
        if placement.dim == axis:
            raise Decline("takes the batch apart into single samples")
        placement = placement.on(placement.dim - (axis < placement.dim))
    outputs = [
        call.fact(
            placement,
            dims,
            i,
            value=_unpacked(fact, axis, i) if placement == REPLICATED else None,
            zero=fact.zero,
        )
        for i in range(len(call.op.outputs))
    ]
    return call.decide([None], *outputs)


def _unpacked(fact: Fact, axis: int, index: int) -> Value | None:
    if fact.value is None or axis != 0:
        return None
    return np.asarray(fact.value[index], dtype=object)


def concat(call: Call) -> Decision:
    """ConcatV2. Along the batch, whole batches follow each other on every copy: the dim's outer count adds up."""
    facts = call.ins[:-1]
    rank = next((f.rank for f in facts if f.rank is not None), None)
    if rank is None or any(f.dims is None for f in facts):
        return _unranked(call)
    if call.ins[-1].value is None and not any(f.sharded or is_partial(f) for f in facts):
        return call.whole()
    axis = call.axis(len(facts), rank)
    total: Dim = 0
    for fact in facts:
        total = D.add(total, (fact.dims or ())[axis])
    first = facts[0].dims or ()
    dims = (*first[:axis], total, *first[axis + 1 :])
    zero = all(f.zero for f in facts)
    if any(is_partial(f) for f in facts) and all(partial_or_zero(f) for f in facts):
        return call.decide([*([PARTIAL] * len(facts)), REPLICATED], call.fact(PARTIAL, dims))
    cut = next((f.sharded for f in facts if f.sharded), None)
    iota = facts[0].iota if axis == rank - 1 and axis else None
    if cut is None:
        return call.decide([REPLICATED] * len(call.ins), call.fact(REPLICATED, dims, zero=zero, iota=iota))
    if cut.dim != axis:
        wants = [_match_cut(call, f, cut) for f in facts]
        return call.decide([*wants, REPLICATED], call.fact(cut, dims, zero=zero, iota=iota))
    outer: Dim = 0
    for fact in facts:
        other = fact.sharded
        if other is None or other.dim != axis or other.inner != cut.inner:
            raise Decline("joins pieces of the batch with something that is not cut alike")
        if not call.batches.meet(other.batch, cut.batch):
            raise Decline("joins two batches of different sizes")
        outer = D.add(outer, other.outer)
    out = Sharded(axis, cut.batch, outer, cut.inner)
    return call.decide([*([None] * len(facts)), REPLICATED], call.fact(out, dims, zero=zero))


def split(call: Call) -> Decision:
    """Split and SplitV along a dim that is not cut, or between whole batches of one that is."""
    data_at, axis_at = (1, 0) if call.op.type == "Split" else (0, 2)
    fact = call.ins[data_at]
    if fact.dims is None:
        return _unranked(call)
    axis = call.axis(axis_at, len(fact.dims))
    parts = len(call.op.outputs)
    sizes: list[Dim | None]
    if call.op.type == "Split":
        sizes = [D.divide(fact.dims[axis], parts)] * parts
    else:
        sizes = list(call.ins[1].value) if call.ins[1].value is not None else [None] * parts
    placement = fact.placement
    wants: list[Want] = [None if i == data_at else REPLICATED for i in range(len(call.ins))]
    if isinstance(placement, Sharded) and placement.dim == axis:
        outer = D.divide(placement.outer, parts)
        if call.op.type != "Split" or outer is None:
            raise Decline("splits the batch")
        placement = Sharded(axis, placement.batch, outer, placement.inner)
    outputs: list[Fact] = []
    for i, size in enumerate(sizes):
        dims: list[Dim | None] = [*fact.dims]
        dims[axis] = None if size is None or size == -1 else size
        outputs.append(call.fact(placement, dims, i, zero=fact.zero))
    return call.decide(wants, *outputs)


def slice_(call: Call) -> Decision:
    """Slice: any part of other dims; whole batches, or all, of the dim that is cut."""
    fact = call.ins[0]
    if fact.dims is None:
        return _unranked(call)
    begin, size = call.ins[1].value, call.ins[2].value
    dims: list[Dim | None] = []
    for i, total in enumerate(fact.dims):
        length = None if size is None else size[i]
        if length == -1:
            length = None if begin is None else D.add(total, D.negate(begin[i]))
        dims.append(length)
    if fact.sharded is None:
        return call.decide([None, REPLICATED, REPLICATED], call.fact(fact.placement, dims, zero=fact.zero))
    cut = fact.sharded
    start, length = call.value(1)[cut.dim], dims[cut.dim]
    block = D.multiply(cut.inner, call.batches.size(cut.batch))
    first = D.divide(start, block)
    count = None if length is None else D.divide(length, block)
    if first is None or count is None:
        raise Decline("takes part of the batch")
    out = Sharded(cut.dim, cut.batch, count, cut.inner)
    begin_want: Want = REPLICATED if start == 0 else Local(cut.batch, (cut.dim,))
    size_want: Want = (
        REPLICATED if call.ins[2].value is not None and call.value(2)[cut.dim] == -1 else Local(cut.batch, (cut.dim,))
    )
    return call.decide([None, begin_want, size_want], call.fact(out, dims, zero=fact.zero))


def strided_slice(call: Call) -> Decision:
    """StridedSlice: any index on other dims, all of the dim that is cut."""
    fact = call.ins[0]
    if fact.dims is None or any(f.value is None for f in call.ins[1:4]):
        if fact.sharded:
            raise Decline("its bounds are not known before the run")
        return call.decide([None, *([REPLICATED] * 3)], call.fact(fact.placement, None, zero=fact.zero))
    plan = _strided_plan(call, len(fact.dims))
    dims: list[Dim | None] = []
    placement = fact.placement
    moved: Sharded | None = None
    for source, kind, spec in plan:
        if kind == "new":
            dims.append(1)
            continue
        whole = kind == "all" or (kind == "slice" and _takes_all(spec, fact.dims[source]))
        if isinstance(placement, Sharded) and source == placement.dim:
            if not whole:
                raise Decline("takes part of the batch")
            moved = placement.on(len(dims))
        if kind == "one":
            continue
        dims.append(fact.dims[source] if whole else _length(spec, fact.dims[source]))
    if isinstance(placement, Sharded):
        if moved is None:
            raise Decline("its index does not name the batch dim")
        explicit = _explicit_entries(call, len(fact.dims), placement.dim)
        wants: list[Want] = [None, REPLICATED, REPLICATED, REPLICATED]
        if explicit is not None:
            wants[2] = Local(placement.batch, (explicit,))
        return call.decide(wants, call.fact(moved, dims, zero=fact.zero))
    return call.decide([None, *([REPLICATED] * 3)], call.fact(placement, dims, zero=fact.zero))


def _strided_plan(call: Call, rank: int) -> list[tuple[int, str, tuple[Dim | None, Dim | None, Dim]]]:
    """What each entry of a StridedSlice does: (input dim, kind, (begin, end, stride))."""
    masks = {k: call.attr(f"{k}_mask", 0) for k in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    begin, end, strides = (list(call.value(i)) for i in (1, 2, 3))
    consumed = sum(not (masks["new_axis"] >> i & 1) and not (masks["ellipsis"] >> i & 1) for i in range(len(begin)))
    plan: list[tuple[int, str, tuple[Dim | None, Dim | None, Dim]]] = []
    source = 0
    everything: tuple[Dim | None, Dim | None, Dim] = (None, None, 1)
    for i in range(len(begin)):
        if masks["ellipsis"] >> i & 1:
            for _ in range(rank - consumed):
                plan.append((source, "all", everything))
                source += 1
        elif masks["new_axis"] >> i & 1:
            plan.append((-1, "new", everything))
        elif masks["shrink_axis"] >> i & 1:
            plan.append((source, "one", (begin[i], None, 1)))
            source += 1
        else:
            lower = None if masks["begin"] >> i & 1 else begin[i]
            upper = None if masks["end"] >> i & 1 else end[i]
            plan.append((source, "slice", (lower, upper, strides[i])))
            source += 1
    while source < rank:
        plan.append((source, "all", everything))
        source += 1
    return plan


def _explicit_entries(call: Call, rank: int, dim: int) -> int | None:
    """The entry of the end vector that names the size of a dim as a number; None where it is masked."""
    masks = {k: call.attr(f"{k}_mask", 0) for k in ("end", "ellipsis", "new_axis")}
    entries = len(list(call.value(1)))
    consumed = sum(not (masks["new_axis"] >> i & 1) and not (masks["ellipsis"] >> i & 1) for i in range(entries))
    source = 0
    for i in range(entries):
        if masks["ellipsis"] >> i & 1:
            source += rank - consumed
        elif not masks["new_axis"] >> i & 1:
            if source == dim:
                return None if masks["end"] >> i & 1 else i
            source += 1
    return None


def _takes_all(spec: tuple[Dim | None, Dim | None, Dim], size: Dim) -> bool:
    begin, end, stride = spec
    if stride == 1:
        return begin in (None, 0) and (end is None or end == size)
    return False


def _length(spec: tuple[Dim | None, Dim | None, Dim], size: Dim) -> Dim | None:
    begin, end, stride = spec
    if isinstance(size, int) and all(isinstance(v, int) or v is None for v in spec):
        return len(range(size)[slice(begin, end, stride)])  # type: ignore[misc]
    if stride == 1 and begin in (None, 0) and isinstance(end, int) and end < 0:
        return D.add(size, end)
    if stride == 1 and end is None and isinstance(begin, int) and begin >= 0:
        return D.add(size, -begin)
    return None


def strided_slice_grad(call: Call) -> Decision:
    """StridedSliceGrad: the gradient of a slice that took all of the dim that is cut."""
    grad = call.ins[4]
    target = call.ins[0].value
    dims = None if target is None else tuple(target)
    if grad.sharded is None:
        partial = is_partial(grad)
        return call.decide([REPLICATED] * 4 + [None], call.fact(PARTIAL if partial else REPLICATED, dims))
    if dims is None or any(f.value is None for f in call.ins[1:4]):
        raise Decline("its bounds are not known before the run")
    at = 0
    for source, kind, spec in _strided_plan(call, len(dims)):
        if kind == "one":
            continue
        if at == grad.sharded.dim:
            if kind == "new" or not (kind == "all" or _takes_all(spec, dims[source])):
                raise Decline("gives a gradient to part of the batch")
            cut = grad.sharded.on(source)
            wants: list[Want] = [Local(cut.batch, (source,)), REPLICATED, REPLICATED, REPLICATED, None]
            entry = _explicit_entries(call, len(dims), source)
            if entry is not None:
                wants[2] = Local(cut.batch, (entry,))
            return call.decide(wants, call.fact(cut, dims))
        at += 1
    raise Decline("its gradient is cut on a dim of its own")


def pad(call: Call) -> Decision:
    """Pad of dims that are not cut."""
    fact = call.ins[0]
    if fact.dims is None:
        return _unranked(call)
    paddings = call.ins[1].value
    dims: list[Dim | None] = [None] * len(fact.dims)
    if paddings is not None:
        dims = [D.add(d, D.add(p[0], p[1])) for d, p in zip(fact.dims, paddings)]
    rest: list[Want] = [REPLICATED] * (len(call.ins) - 1)
    if is_partial(fact) and call.op.type == "Pad":
        return call.decide([None, *rest], call.fact(PARTIAL, dims))
    if fact.sharded is None:
        return call.decide([REPLICATED, *rest], call.fact(REPLICATED, dims))
    row = call.value(1)[fact.sharded.dim]
    if any(isinstance(p, D.Poly) or p != 0 for p in row):
        raise Decline("pads the batch")
    if call.op.type == "MirrorPad" and call.batches[fact.sharded.batch].static is None:
        raise Decline("it cannot run on a piece that may be empty")
    return call.decide([None, *rest], call.fact(fact.sharded, dims))


def tile(call: Call) -> Decision:
    """Tile: other dims freely; repeating the batch dim repeats whole batches."""
    fact, multiples = call.ins[0], call.ins[1].value
    if fact.dims is None:
        return _unranked(call)
    dims: list[Dim | None] = [None] * len(fact.dims)
    if multiples is not None:
        dims = [D.multiply(d, m) for d, m in zip(fact.dims, multiples)]
    if fact.sharded is None:
        return call.decide([None, REPLICATED], call.fact(fact.placement, dims, zero=fact.zero))
    times = call.value(1)[fact.sharded.dim]
    cut = Sharded(fact.sharded.dim, fact.sharded.batch, D.multiply(fact.sharded.outer, times), fact.sharded.inner)
    if any(D.symbols_of(m) & D.symbols_of(call.batches.size(cut.batch)) for m in call.value(1)):
        raise Decline("repeats a tensor as often as there are samples")
    return call.decide([None, REPLICATED], call.fact(cut, dims, zero=fact.zero))


def broadcast_to(call: Call) -> Decision:
    """BroadcastTo: the cut dim keeps its size, others may grow."""
    fact, target = call.ins[0], call.ins[1].value
    dims = None if target is None else tuple(target)
    if fact.sharded is None:
        return call.decide([None, REPLICATED], call.fact(fact.placement, dims, zero=fact.zero))
    if dims is None:
        raise Decline("the target shape is not known before the run")
    at = fact.sharded.on(fact.sharded.dim + len(dims) - call.rank(0))
    return call.decide([None, Local(at.batch, (at.dim,))], call.fact(at, dims, zero=fact.zero))


def fill(call: Call) -> Decision:
    """Fill: the whole tensor; it is sliced where it meets pieces."""
    target = call.ins[0].value
    dims = None if target is None else tuple(target)
    value = call.op.outputs[0].dtype
    zero = call.ins[1].zero or (call.ins[1].value is not None and value != "bool" and call.ins[1].value[()] == 0)
    return call.decide([REPLICATED, REPLICATED], call.fact(REPLICATED, dims, zero=zero))


def one_hot(call: Call) -> Decision:
    """OneHot: a new dim for the classes."""
    fact = call.ins[0]
    if fact.dims is None:
        return _unranked(call)
    axis = call.attr("axis", -1)
    axis = len(fact.dims) if axis == -1 else axis
    depth = None if call.ins[1].value is None else call.ins[1].value.item()
    dims = (*fact.dims[:axis], depth, *fact.dims[axis:])
    rest: list[Want] = [REPLICATED] * (len(call.ins) - 1)
    if fact.sharded is None:
        return call.decide([REPLICATED, *rest], call.fact(REPLICATED, dims))
    out = fact.sharded.on(fact.sharded.dim + (axis <= fact.sharded.dim))
    return call.decide([None, *rest], call.fact(out, dims))


def decode_raw(call: Call) -> Decision:
    """DecodeRaw: a new last dim for the numbers in each string."""
    fact = call.ins[0]
    dims = None if fact.dims is None else (*fact.dims, None)
    rest: list[Want] = [REPLICATED] * (len(call.ins) - 1)
    return call.decide([None, *rest], call.fact(fact.placement, dims))


def range_(call: Call) -> Decision:
    """Range: whole; one that counts the samples is remembered as such."""
    iota = None
    values = [f.value.item() if f.value is not None else None for f in call.ins]
    dims: tuple[Dim | None, ...] = (None,)
    if values[0] == 0 and values[2] == 1 and values[1] is not None:
        dims = (values[1],)
        for batch in call.batches.roots():
            if values[1] == call.batches.size(batch):
                iota = batch
    return call.decide([REPLICATED] * 3, call.fact(REPLICATED, dims, iota=iota))


def reverse(call: Call) -> Decision:
    """ReverseV2 over dims that are not cut."""
    fact = call.ins[0]
    if fact.sharded:
        rank = call.rank(0)
        if fact.sharded.dim in {a % rank for a in call.numbers(1)}:
            raise Decline("reverses the batch")
    return call.decide([None, REPLICATED], call.fact(fact.placement, fact.dims, zero=fact.zero))


def broadcast_gradient_args(call: Call) -> Decision:
    """The axes over which gradients of a broadcast are summed, worked out by every copy for its own pieces."""
    left, right = call.ins[0].value, call.ins[1].value
    if left is None or right is None:
        return call.whole()
    rank = max(len(left), len(right))
    merged = broadcast(tuple(left), tuple(right))
    outputs: list[list[int]] = []
    for own in (left, right):
        axes: list[int] = []
        for i in range(rank):
            at = i - (rank - len(own))
            if at < 0 or (own[at] == 1 and merged[i] != 1):
                axes.append(i)
            elif isinstance(own[at], D.Poly) and own[at] != merged[i]:
                # Not comparable before the run: taken as equal, which is what elementwise ops of one shape are.
                continue
        outputs.append(axes)
    scaled = [_scaled(call, list(v)) for v in (left, right)]
    batch = next((s[0] for s in scaled if s), None)
    if batch is None or any(s and s[0] != batch for s in scaled):
        facts = [call.fact(REPLICATED, None, i, value=array(a)) for i, a in enumerate(outputs)]
        return call.decide([REPLICATED, REPLICATED], *facts)
    wants: list[Want] = [Local(batch, s[1]) if s else REPLICATED for s in scaled]
    facts = [call.fact(EACH, None, i, value=array(a)) for i, a in enumerate(outputs)]
    return call.decide(wants, *facts)


def _scaled(call: Call, sizes: list[Dim]) -> tuple[int, tuple[int, ...]] | None:
    """Which entries of a shape vector scale with a batch whose size is a symbol."""
    for batch in call.batches.roots():
        size = call.batches.size(batch)
        if isinstance(size, int):
            continue
        name = f"n{batch}"
        at = tuple(i for i, s in enumerate(sizes) if D.degree(s, name) == (1, 1))
        if at:
            return batch, at
    return None


def concat_offset(call: Call) -> Decision:
    """Offsets of concatenated tensors, of the whole."""
    facts: list[Fact] = []
    axis: int | None = None if call.ins[0].value is None else call.ins[0].value.item()
    running: Dim = 0
    shapes = [f.value for f in call.ins[1:]]
    for i, shape in enumerate(shapes):
        value = None
        if axis is not None and all(s is not None for s in shapes) and shape is not None:
            offsets: list[Dim] = [0] * len(shape)
            offsets[axis] = running
            running = D.add(running, shape[axis])
            value = array(offsets)
        facts.append(call.fact(REPLICATED, None, i, value=value))
    return call.decide([REPLICATED] * len(call.ins), *facts)


RULES: dict[str, Rule] = {
    "Shape": shape_of,
    "Size": shape_of,
    "ShapeN": shape_n,
    "Rank": rank_of,
    "Reshape": reshape,
    "ExpandDims": expand_dims,
    "Squeeze": squeeze,
    "Transpose": transpose,
    "Pack": pack,
    "Unpack": unpack,
    "ConcatV2": concat,
    "Split": split,
    "SplitV": split,
    "Slice": slice_,
    "StridedSlice": strided_slice,
    "StridedSliceGrad": strided_slice_grad,
    "Pad": pad,
    "PadV2": pad,
    "MirrorPad": pad,
    "Tile": tile,
    "BroadcastTo": broadcast_to,
    "Fill": fill,
    "OneHot": one_hot,
    "DecodeRaw": decode_raw,
    "DecodePaddedRaw": decode_raw,
    "Range": range_,
    "ReverseV2": reverse,
    "BroadcastGradientArgs": broadcast_gradient_args,
    "ConcatOffset": concat_offset,
}
