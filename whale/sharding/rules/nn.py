"""Neural-network ops: those that treat each sample on its own, filter gradients, batch norm."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from whale.ir.placement import EACH, PARTIAL, REPLICATED, Sharded
from whale.sharding.call import Call
from whale.sharding.facts import Decision, Decline, Fact, Local, Want

Rule = Callable[[Call], Decision]


@dataclasses.dataclass(frozen=True)
class Samples:
    """An op whose outputs' rows depend on the same rows of some inputs and on the whole of the others."""

    rows: tuple[int, ...]
    """Inputs with one row per sample."""
    size: int | None = None
    """The input that is a shape or size vector naming the number of rows, if any."""
    last: bool = False
    """Whether any dim but the last may be cut (softmax and the like), not only the first."""
    keeps: bool = False
    """Whether outputs of the rank of the rows have their shape."""
    core: int = 0
    """How many last dims of the first row input make one sample, such as the two of a matrix."""
    broadcasts: bool = False
    """Whether an input of one row, or of fewer dims, is used for all samples."""


def per_sample(spec: Samples) -> Rule:
    """The rule of an op that treats each sample on its own."""

    def rule(call: Call) -> Decision:
        cut: Sharded | None = None
        for index in spec.rows:
            if index < len(call.ins) and call.ins[index].sharded:
                cut = call.ins[index].sharded
                break
        if cut is None:
            if any(f.sharded for f in call.ins):
                raise Decline("an input that every sample reads is cut")
            return call.whole(outputs=[_row_fact(call, spec, None, i) for i in range(len(call.op.outputs))])
        allowed = cut.dim < call.rank(spec.rows[0]) - 1 if spec.last else cut.dim == 0
        if not allowed:
            raise Decline("the batch is not its first dim")
        if spec.core and cut.dim >= call.rank(spec.rows[0]) - spec.core:
            raise Decline("the batch is a dim of the matrix" if spec.core == 2 else "the batch is a dim of each sample")
        wants: list[Want] = [REPLICATED] * len(call.ins)
        for index in spec.rows:
            if index < len(call.ins):
                wants[index] = _rows_wanted(call, spec, index, cut)
        if spec.size is not None:
            wants[spec.size] = Local(cut.batch, (0,))
        return call.decide(wants, *(_row_fact(call, spec, cut, i) for i in range(len(call.op.outputs))))

    return rule


def _rows_wanted(call: Call, spec: Samples, index: int, cut: Sharded) -> Want:
    if spec.broadcasts and call.ins[index].sharded is None:
        if call.rank(index) < max(call.rank(i) for i in spec.rows):
            raise Decline(f"input {index} has fewer dims than the others")
        if call.dims(index)[cut.dim] == 1:
            return REPLICATED
    return call.piece(index, cut)


def _row_fact(call: Call, spec: Samples, cut: Sharded | None, index: int) -> Fact:
    """The fact of an output: leading sizes as those of the rows, the others as TensorFlow inferred them."""
    source = call.ins[spec.rows[0]].dims
    static = call.op.outputs[index].shape
    if static is None:
        return call.fact(cut or REPLICATED, source if spec.last else None, index)
    keeps = spec.keeps and source is not None and len(static) == len(source)
    lead = len(static) if keeps else len(static) - 1 if spec.last else 1
    dims = [source[i] if d is None and source and i < min(lead, len(source)) else d for i, d in enumerate(static)]
    return call.fact(cut or REPLICATED, dims, index)


def filter_gradient(call: Call) -> Decision:
    """Gradient of a convolution's filter: a sum over samples."""
    image, grad = call.ins[0], call.ins[2]
    if image.sharded is None and grad.sharded is None:
        return call.whole()
    cut = image.sharded or grad.sharded
    assert cut is not None
    if cut.dim != 0:
        raise Decline("the batch is not its first dim")
    wants = [call.piece(0, cut), REPLICATED, call.piece(2, cut)]
    if call.op.type.startswith("Depthwise"):
        return call.decide(wants, call.fact(PARTIAL, None), recipe="zero_if_empty", batch=cut.batch)
    return call.decide(wants, call.fact(PARTIAL, None))


def bias_add(call: Call) -> Decision:
    """BiasAdd: the channel dim is not cut."""
    fact = call.ins[0]
    if fact.sharded is None:
        return call.decide([REPLICATED, REPLICATED], call.fact(REPLICATED, fact.dims))
    if fact.sharded.dim == _channel(call, call.rank(0)):
        raise Decline("the channels are cut")
    return call.decide([None, REPLICATED], call.fact(fact.sharded, fact.dims))


def bias_add_grad(call: Call) -> Decision:
    """Gradient of a bias: a sum over everything but channels."""
    fact = call.ins[0]
    dims = None if fact.dims is None else (fact.dims[_channel(call, len(fact.dims))],)
    if fact.sharded is None:
        return call.decide([None], call.fact(fact.placement, dims))
    if fact.sharded.dim == _channel(call, call.rank(0)):
        raise Decline("the channels are cut")
    return call.decide([None], call.fact(PARTIAL, dims))


def _channel(call: Call, rank: int) -> int:
    return 1 if str(call.attr("data_format", "NHWC")).startswith("NC") and rank > 2 else rank - 1


def batch_norm(call: Call) -> Decision:
    """FusedBatchNorm: statistics over the whole batch, by partial sums; or each copy's own when not in sync."""
    fact = call.ins[0]
    if fact.sharded is None:
        return call.whole(outputs=[call.fact(REPLICATED, fact.dims if i == 0 else None, i) for i in range(_n(call))])
    if fact.sharded.dim != 0:
        raise Decline("the batch is not its first dim")
    cut = fact.sharded
    whole: list[Want] = [REPLICATED] * (len(call.ins) - 1)
    rest = [call.fact(REPLICATED, None, i) for i in range(1, _n(call))]
    out = call.fact(cut, fact.dims)
    if not call.attr("is_training", True):
        return call.decide([None, *whole], out, *rest)
    if call.sync:
        return call.decide([None, *whole], out, *rest, recipe="batch_norm", exchanges=True, batch=cut.batch)
    own = [dataclasses.replace(f, placement=EACH) for f in rest[2:]]
    sums = [dataclasses.replace(f, placement=PARTIAL) for f in rest[:2]]
    decision = call.decide([None, *whole], out, *sums, *own, recipe="batch_norm_own", batch=cut.batch)
    rough = "batch-norm statistics are those of each piece of the batch (batch.sync = True makes them exact)"
    return dataclasses.replace(decision, approximate=rough)


def batch_norm_grad(call: Call) -> Decision:
    """Gradient of FusedBatchNorm."""
    grad, image = call.ins[0], call.ins[1]
    cut = grad.sharded or image.sharded
    if cut is None:
        return call.whole(outputs=[call.fact(REPLICATED, image.dims if i == 0 else None, i) for i in range(_n(call))])
    if cut.dim != 0:
        raise Decline("the batch is not its first dim")
    own = any(f.placement == EACH for f in call.ins)
    rows = [call.piece(0, cut), call.piece(1, cut)]
    rest: list[Want] = [None if f.placement == EACH else REPLICATED for f in call.ins[2:]]
    spare = [call.fact(REPLICATED, None, i) for i in range(3, _n(call))]
    out = call.fact(cut, image.dims)
    if not call.attr("is_training", True) or own:
        sums = [call.fact(PARTIAL, None, i) for i in (1, 2)]
        return call.decide([*rows, *rest], out, *sums, *spare)
    sums = [call.fact(REPLICATED, None, i) for i in (1, 2)]
    return call.decide([*rows, *rest], out, *sums, *spare, recipe="batch_norm_grad", exchanges=True, batch=cut.batch)


def reverse_sequence(call: Call) -> Decision:
    """ReverseSequence: data cut on the batch dim the op names, lengths with it; or on a dim it does not touch."""
    fact, lengths = call.ins
    batch_dim, cut = call.attr("batch_dim", 0), fact.sharded
    if cut is None and lengths.sharded:
        cut = lengths.sharded.on(batch_dim)
    if cut is None:
        return call.decide([None, REPLICATED], call.fact(fact.placement, fact.dims))
    if cut.dim == call.attr("seq_dim"):
        raise Decline("reverses along the batch")
    want: Want = call.piece(1, cut.on(0)) if cut.dim == batch_dim else REPLICATED
    return call.decide([call.piece(0, cut), want], call.fact(cut, fact.dims))


def _n(call: Call) -> int:
    return len(call.op.outputs)


_ROWS: dict[str, Samples] = {
    "Conv2D": Samples((0,)),
    "Conv3D": Samples((0,)),
    "DepthwiseConv2dNative": Samples((0,)),
    "Dilation2D": Samples((0,)),
    "Conv2DBackpropInput": Samples((2,), size=0),
    "Conv3DBackpropInputV2": Samples((2,), size=0),
    "DepthwiseConv2dNativeBackpropInput": Samples((2,), size=0),
    "MaxPool": Samples((0,)),
    "MaxPoolV2": Samples((0,)),
    "MaxPool3D": Samples((0,)),
    "AvgPool": Samples((0,)),
    "AvgPool3D": Samples((0,)),
    "MaxPoolGrad": Samples((0, 1, 2)),
    "MaxPoolGradV2": Samples((0, 1, 2)),
    "MaxPool3DGrad": Samples((0, 1, 2)),
    "MaxPoolGradGrad": Samples((0, 1, 2)),
    "AvgPoolGrad": Samples((1,), size=0),
    "AvgPool3DGrad": Samples((1,), size=0),
    "LRN": Samples((0,), keeps=True),
    "LRNGrad": Samples((0, 1, 2), keeps=True),
    "ResizeBilinear": Samples((0,)),
    "ResizeBilinearGrad": Samples((0, 1)),
    "ResizeBicubic": Samples((0,)),
    "ResizeBicubicGrad": Samples((0, 1)),
    "ResizeNearestNeighbor": Samples((0,)),
    "ResizeNearestNeighborGrad": Samples((0,)),
    "ResizeArea": Samples((0,)),
    "SpaceToDepth": Samples((0,)),
    "DepthToSpace": Samples((0,)),
    "ExtractImagePatches": Samples((0,)),
    "AdjustContrastv2": Samples((0,), core=3),
    "AdjustSaturation": Samples((0,), last=True, keeps=True),
    "AdjustHue": Samples((0,), last=True, keeps=True),
    "RGBToHSV": Samples((0,), last=True, keeps=True),
    "HSVToRGB": Samples((0,), last=True, keeps=True),
    "Softmax": Samples((0,), last=True, keeps=True),
    "LogSoftmax": Samples((0,), last=True, keeps=True),
    "SparseSoftmaxCrossEntropyWithLogits": Samples((0, 1), keeps=True),
    "SoftmaxCrossEntropyWithLogits": Samples((0, 1), keeps=True, broadcasts=True),
    "TopK": Samples((0,), last=True),
    "TopKV2": Samples((0,), last=True),
    "InTopK": Samples((0, 1)),
    "InTopKV2": Samples((0, 1)),
    "NthElement": Samples((0,), last=True),
    "MatrixBandPart": Samples((0,), core=2, keeps=True),
    "MatrixDiag": Samples((0,), core=1),
    "MatrixDiagV2": Samples((0,), core=1),
    "MatrixDiagV3": Samples((0,), core=1),
    "MatrixDiagPart": Samples((0,), core=2),
    "MatrixDiagPartV2": Samples((0,), core=2),
    "MatrixDiagPartV3": Samples((0,), core=2),
    "MatrixSetDiag": Samples((0, 1), core=2),
    "MatrixSetDiagV2": Samples((0, 1), core=2),
    "MatrixSetDiagV3": Samples((0, 1), core=2),
    "MatrixInverse": Samples((0,), core=2, keeps=True),
    "MatrixDeterminant": Samples((0,), core=2),
    "Cholesky": Samples((0,), core=2, keeps=True),
    "MatrixTriangularSolve": Samples((0, 1), core=2, broadcasts=True),
    "MatrixSolve": Samples((0, 1), core=2),
}

RULES: dict[str, Rule] = {
    **{name: per_sample(spec) for name, spec in _ROWS.items()},
    "Conv2DBackpropFilter": filter_gradient,
    "Conv3DBackpropFilterV2": filter_gradient,
    "DepthwiseConv2dNativeBackpropFilter": filter_gradient,
    "ReverseSequence": reverse_sequence,
    "BiasAdd": bias_add,
    "BiasAddGrad": bias_add_grad,
    "FusedBatchNorm": batch_norm,
    "FusedBatchNormV2": batch_norm,
    "FusedBatchNormV3": batch_norm,
    "FusedBatchNormGrad": batch_norm_grad,
    "FusedBatchNormGradV2": batch_norm_grad,
    "FusedBatchNormGradV3": batch_norm_grad,
}
