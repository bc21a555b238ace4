"""Parts of a tensor, and tensors padded: Slice, StridedSlice and its gradient, Pad, MirrorPad.

Other dims are sliced and padded freely. Of the dim that is cut, whole batches are taken or added.
"""

from __future__ import annotations

from collections.abc import Callable

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import PARTIAL, REPLICATED, Sharded
from whale.sharding.call import Call, is_partial
from whale.sharding.facts import Decision, Decline, Local, Want

Rule = Callable[[Call], Decision]


def slice_(call: Call) -> Decision:
    """Slice: any part of other dims; whole batches, or all, of the dim that is cut."""
    fact = call.ins[0]
    if fact.dims is None:
        return call.unranked()
    begin, size = call.elements(1), call.elements(2)
    dims: list[Dim | None] = []
    for i, total in enumerate(fact.dims):
        length = None if size is None else size[i]
        if length == -1:
            length = None if begin is None or begin[i] is None else D.add(total, D.negate(begin[i]))
        dims.append(length)
    if fact.sharded is None:
        return call.decide([None, REPLICATED, REPLICATED], call.fact(fact.placement, dims, zero=fact.zero))
    cut = fact.sharded
    if begin is None or size is None or begin[cut.dim] is None:
        raise Decline("its bounds are not known before the run")
    start, length = begin[cut.dim], dims[cut.dim]
    block = D.multiply(cut.inner, call.batches.size(cut.batch))
    first = D.divide(start, block)
    count = None if length is None else D.divide(length, block)
    if first is None or count is None:
        raise Decline("takes part of the batch")
    out = Sharded(cut.dim, cut.batch, count, cut.inner)
    begin_want: Want = REPLICATED if start == 0 else Local(cut.batch, (cut.dim,))
    size_want: Want = REPLICATED if size[cut.dim] == -1 else Local(cut.batch, (cut.dim,))
    return call.decide([None, begin_want, size_want], call.fact(out, dims, zero=fact.zero))


def strided_slice(call: Call) -> Decision:
    """StridedSlice: any index on other dims, all of the dim that is cut."""
    fact = call.ins[0]
    if fact.dims is None or not _bounded(call):
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
        if isinstance(placement, Sharded) and source == placement.dim:
            if kind == "one":
                raise Decline("takes one sample of the batch")
            moved = _batches_taken(call, spec, fact.dims[source], placement).on(len(dims))
            dims.append(call.size(moved))
            continue
        whole = kind == "all" or (kind == "slice" and _takes_all(spec, fact.dims[source]))
        if kind == "one":
            continue
        dims.append(fact.dims[source] if whole else _length(spec, fact.dims[source]))
    if isinstance(placement, Sharded):
        if moved is None:
            raise Decline("its index does not name the batch dim")
        bounds = _local_bounds(call, len(fact.dims), placement)
        return call.decide([None, *bounds, REPLICATED], call.fact(moved, dims, zero=fact.zero))
    return call.decide([None, *([REPLICATED] * 3)], call.fact(placement, dims, zero=fact.zero))


def _bounded(call: Call) -> bool:
    """Whether something is known of the bounds of a StridedSlice before the run, and all of its strides."""
    return call.elements(1) is not None and call.elements(2) is not None and call.ins[3].value is not None


def _bounds(call: Call, index: int) -> list[Dim]:
    """Begin or end of a StridedSlice; a number that only the run shows, and which is like no other, has a name."""
    found = call.elements(index)
    assert found is not None
    return [D.opaque("bound", D.symbol(call.op.inputs[index]), i) if n is None else n for i, n in enumerate(found)]


def _strided_plan(call: Call, rank: int) -> list[tuple[int, str, tuple[Dim | None, Dim | None, Dim]]]:
    """What each entry of a StridedSlice does: (input dim, kind, (begin, end, stride))."""
    masks = {k: call.attr(f"{k}_mask", 0) for k in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    begin, end, strides = _bounds(call, 1), _bounds(call, 2), list(call.value(3))
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


def _batches_taken(call: Call, spec: tuple[Dim | None, Dim | None, Dim], size: Dim, cut: Sharded) -> Sharded:
    """The cut of what a slice takes of the dim that is cut: whole batches, or it declines."""
    if _takes_all(spec, size):
        return cut
    begin, end, stride = spec
    first = 0 if begin is None else _from_start(begin, size)
    last = size if end is None else _from_start(end, size)
    block = D.multiply(cut.inner, call.batches.size(cut.batch))
    before, count = D.divide(first, block), D.divide(D.add(last, D.negate(first)), block)
    inside = not (isinstance(before, int) and before < 0) and not (isinstance(count, int) and count < 1)
    if stride != 1 or before is None or count is None or not inside or not _within(before, count, cut.outer):
        raise Decline("takes part of the batch")
    return Sharded(cut.dim, cut.batch, count, cut.inner)


def _within(before: Dim, count: Dim, outer: Dim) -> bool:
    """Whether batches ``before`` up to ``before + count`` are among ``outer``, as far as can be told."""
    rest = D.add(outer, D.negate(D.add(before, count)))
    return not isinstance(rest, int) or rest >= 0


def _from_start(bound: Dim, size: Dim) -> Dim:
    """A bound of a slice counted from the start; one that is negative counts from the end."""
    terms = bound.terms if isinstance(bound, D.Poly) else (((), bound),)
    return D.add(size, bound) if all(coefficient < 0 for _, coefficient in terms) else bound


def _local_bounds(call: Call, rank: int, cut: Sharded) -> tuple[Want, Want]:
    """What is wanted of the begin and end vectors of a slice: the copy's own numbers where they name the cut dim."""
    masks = {k: call.attr(f"{k}_mask", 0) for k in ("begin", "end", "ellipsis", "new_axis")}
    begin = _bounds(call, 1)
    entries = len(begin)
    consumed = sum(not (masks["new_axis"] >> i & 1) and not (masks["ellipsis"] >> i & 1) for i in range(entries))
    source = 0
    for i in range(entries):
        if masks["ellipsis"] >> i & 1:
            source += rank - consumed
        elif not masks["new_axis"] >> i & 1:
            if source == cut.dim:
                local = Local(cut.batch, (i,))
                named = not masks["begin"] >> i & 1 and begin[i] != 0
                return (local if named else REPLICATED), (REPLICATED if masks["end"] >> i & 1 else local)
            source += 1
    return REPLICATED, REPLICATED


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
    if dims is None or not _bounded(call):
        raise Decline("its bounds are not known before the run")
    at = 0
    for source, kind, spec in _strided_plan(call, len(dims)):
        if kind == "one":
            continue
        if at == grad.sharded.dim:
            if kind == "new":
                raise Decline("its gradient is cut on a dim of its own")
            cut = _whole_cut(call, spec, dims[source], grad.sharded.on(source))
            bounds = _local_bounds(call, len(dims), cut)
            wants: list[Want] = [Local(cut.batch, (source,)), *bounds, REPLICATED, None]
            return call.decide(wants, call.fact(cut, dims))
        at += 1
    raise Decline("its gradient is cut on a dim of its own")


def _whole_cut(call: Call, spec: tuple[Dim | None, Dim | None, Dim], size: Dim, cut: Sharded) -> Sharded:
    """The cut of the tensor whose slice has a gradient cut as given."""
    block = D.multiply(cut.inner, call.batches.size(cut.batch))
    outer = D.divide(size, block)
    if outer is None:
        raise Decline("gives a gradient to part of the batch")
    whole = Sharded(cut.dim, cut.batch, outer, cut.inner)
    if not call.one_cut(_batches_taken(call, spec, size, whole), cut):
        raise Decline("gives a gradient to part of the batch")
    return whole


def pad(call: Call) -> Decision:
    """Pad of dims that are not cut, and MirrorPad's gradient, which takes the padding off."""
    fact = call.ins[0]
    if fact.dims is None:
        return call.unranked()
    paddings = call.elements(1)
    dims: list[Dim | None] = [None] * len(fact.dims)
    if paddings is not None:
        sign = -1 if call.op.type == "MirrorPadGrad" else 1
        dims = [
            None if None in list(p) else D.add(d, D.multiply(sign, D.add(p[0], p[1])))
            for d, p in zip(fact.dims, paddings)
        ]
    rest: list[Want] = [REPLICATED] * (len(call.ins) - 1)
    if is_partial(fact) and call.op.type != "PadV2":
        return call.decide([None, *rest], call.fact(PARTIAL, dims))
    if fact.sharded is None:
        return call.decide([REPLICATED, *rest], call.fact(REPLICATED, dims))
    cut = fact.sharded
    row = list((call.value(1) if paddings is None else paddings)[cut.dim])
    if any(p != 0 for p in row):
        row = call.value(1)[cut.dim]
        block = D.multiply(cut.inner, call.batches.size(cut.batch))
        times = [D.divide(p, block) for p in row]
        if call.op.type not in ("Pad", "PadV2") or times[0] is None or times[1] is None:
            raise Decline("pads the batch")
        outer = D.add(cut.outer, D.add(times[0], times[1]))
        out = call.fact(Sharded(cut.dim, cut.batch, outer, cut.inner), dims)
        return call.decide([None, *rest], out, recipe="padded", batch=cut.batch, dim=cut.dim)
    if call.op.type.startswith("MirrorPad"):
        call.require_samples(fact.sharded)
    return call.decide([None, *rest], call.fact(fact.sharded, dims))


RULES: dict[str, Rule] = {
    "Slice": slice_,
    "StridedSlice": strided_slice,
    "StridedSliceGrad": strided_slice_grad,
    "Pad": pad,
    "PadV2": pad,
    "MirrorPad": pad,
    "MirrorPadGrad": pad,
}
