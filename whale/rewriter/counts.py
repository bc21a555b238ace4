"""How many elements of the whole tensor a reduction over the batch runs over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whale.ir import dims as D

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


def global_count(lowering: Lowering, tensor: str, replica: int, axes: Sequence[int], dtype: str) -> str:
    """The global number of elements over some dims of a tensor that is cut on one of them, as a scalar of ``dtype``."""
    fact, build = lowering.fact(tensor), lowering.builder
    cut, dims, kind = fact.sharded, fact.dims or (), lowering.dtype(tensor)
    assert cut is not None
    place = lowering.place(tensor, replica)
    count = D.product(dims[a] for a in axes)
    if isinstance(count, int):
        return build.const(place, float(count), dtype)
    if isinstance(cut.outer, int) and isinstance(cut.inner, int):
        samples = lowering.sizes.scalar(place, cut.batch, "count")
        factors = [build.cast(place, samples, "int32", dtype)]
        fixed = cut.outer * cut.inner
    else:
        # Elements per sample are known only from the pieces: their sizes are added up.
        sizes = []
        for other in lowering.copies:
            at = lowering.place(tensor, other)
            shape = build.shape(at, lowering.get(tensor, None, other), kind)
            sizes.append(build.cast(at, build.element(at, shape, cut.dim, "int32"), "int32", dtype))
        factors = [build.add_n(lowering.place(tensor, 0), sizes, dtype)]
        fixed = 1
    others = [a for a in axes if a != cut.dim]
    open_dims = [a for a in others if not isinstance(dims[a], int)]
    for a in others:
        size = dims[a]
        fixed *= size if isinstance(size, int) else 1
    if open_dims:
        shape = build.shape(place, lowering.get(tensor, None, replica), kind)
        factors.extend(build.cast(place, build.element(place, shape, a, "int32"), "int32", dtype) for a in open_dims)
    if fixed != 1:
        factors.append(build.const(place, float(fixed), dtype))
    result = factors[0]
    for factor in factors[1:]:
        result = build.binary(place, "Mul", result, factor, dtype)
    return result
