"""Rules for the cost of an op, by its type.

A multiplication and an addition count as two FLOPs. Any other element-wise function counts as one per element: what it
really takes differs by device, and a model of a device calibrates it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from whale.ir import dims as D
from whale.ir.cost import Cost, Kind, Sizes, Unsized, tensor_bytes
from whale.ir.dims import Dim

Rule = Callable[[Sizes], Cost]


def _free(sizes: Sizes) -> Cost:
    return Cost(0, 0, Kind.NONE)


def _movement(sizes: Sizes) -> Cost:
    return Cost(0, sizes.moved(), Kind.MOVEMENT)


def _elementwise(per_element: int) -> Rule:
    def rule(sizes: Sizes) -> Cost:
        return Cost(D.multiply(per_element, sizes.out_count()), sizes.moved(), Kind.ELEMENTWISE)

    return rule


def _per_input(per_element: int, kind: Kind = Kind.REDUCTION) -> Rule:
    """Ops that do so many operations for each element of the first input."""

    def rule(sizes: Sizes) -> Cost:
        return Cost(D.multiply(per_element, sizes.count()), sizes.moved(), kind)

    return rule


def _add_n(sizes: Sizes) -> Cost:
    return Cost(D.multiply(max(len(sizes.ins) - 1, 0), sizes.out_count()), sizes.moved(), Kind.ELEMENTWISE)


def _matmul(sizes: Sizes) -> Cost:
    """2 m k n."""
    transposed = bool(sizes.op.attrs.get("transpose_a"))
    left = sizes.dims(0)
    if len(left) != 2:
        raise Unsized
    inner = left[0] if transposed else left[1]
    return Cost(D.product((2, inner, sizes.out_count())), sizes.moved(), Kind.MATMUL)


def _batch_matmul(sizes: Sizes) -> Cost:
    """2 m k n for each matrix of the batch."""
    left = sizes.dims(0)
    if len(left) < 2:
        raise Unsized
    inner = left[-2] if sizes.op.attrs.get("adj_x") else left[-1]
    return Cost(D.product((2, inner, sizes.out_count())), sizes.moved(), Kind.MATMUL)


def _einsum(sizes: Sizes) -> Cost:
    """Two operations for each point of the index space of two operands; one, for the sums over a single operand."""
    equation = str(sizes.op.attrs.get("equation", "")).replace(" ", "")
    terms = equation.split("->")[0].split(",")
    if len(terms) != len(sizes.ins) or not equation:
        raise Unsized
    space: dict[str, Dim] = {}
    spread: tuple[Dim, ...] = ()
    for term, index in zip(terms, range(len(terms))):
        dims = list(sizes.dims(index))
        before, dots, after = term.partition("...")
        if len(dims) < len(before) + len(after):
            raise Unsized
        space.update(zip(before, dims))
        space.update(zip(reversed(after), reversed(dims)))
        if dots:
            inner = tuple(dims[len(before) : len(dims) - len(after)])
            spread = inner if len(inner) >= len(spread) else spread
    points = D.product((*space.values(), *spread))
    factor = 2 if len(terms) > 1 else 1
    return Cost(D.multiply(factor, points), sizes.moved(), Kind.MATMUL if factor == 2 else Kind.REDUCTION)


def _convolution(filter_at: int, image: Callable[[Sizes], tuple[Dim, ...]], depthwise: bool = False) -> Rule:
    """Two operations for each output pixel, channel, and element of the filter that it sees.

    Both gradients do the same number: each pairs the same output pixels with the same elements of the filter.

    Args:
        filter_at: input that is the filter; -1 where it is the output.
        image: sizes of the output of the convolution.
        depthwise: each output channel sees one input channel.
    """

    def rule(sizes: Sizes) -> Cost:
        kernel = sizes.out_dims() if filter_at < 0 else sizes.dims(filter_at)
        out = image(sizes)
        channel_first = str(sizes.op.attrs.get("data_format", "NHWC")).startswith("NC")
        if len(kernel) < 3 or len(out) != len(kernel):
            raise Unsized
        spatial = kernel[:-2]
        seen = D.product(spatial if depthwise else (*spatial, kernel[-2]))
        channels = out[1] if channel_first else out[-1]
        pixels = D.product(out[2:] if channel_first else out[1:-1])
        return Cost(D.product((2, out[0], pixels, channels, seen)), sizes.moved(), Kind.CONVOLUTION)

    return rule


def _pool(sizes: Sizes) -> Cost:
    """One operation for each element of a window."""
    window = sizes.op.attrs.get("ksize", ())
    pooled = sizes.out_dims() if not sizes.op.type.endswith("Grad") else _smallest(sizes)
    return Cost(D.product((*window, *pooled)), sizes.moved(), Kind.REDUCTION)


def _smallest(sizes: Sizes) -> tuple[Dim, ...]:
    """The pooled image among the operands of a pooling gradient: its incoming gradient."""
    return sizes.dims(len(sizes.ins) - 1)


def _pick(sizes: Sizes) -> Cost:
    """Gathers and slices read only what they return."""
    moved: Dim = 0
    for dims, kind in zip(sizes.outs, sizes.op.outputs):
        moved = D.add(moved, D.multiply(2, tensor_bytes(dims, kind.dtype)))
    for dims, dtype in zip(sizes.ins[1:], sizes.in_types[1:]):
        moved = D.add(moved, tensor_bytes(dims, dtype))
    return Cost(0, moved, Kind.MOVEMENT)


def _scatter(values_at: int, per_element: int) -> Rule:
    """Writes of some rows: the rows are read and written."""

    def rule(sizes: Sizes) -> Cost:
        count = sizes.count(values_at)
        rows = tensor_bytes(sizes.ins[values_at], sizes.in_types[values_at])
        moved = D.add(D.multiply(3, rows), _index_sizes(sizes, values_at))
        return Cost(D.multiply(per_element, count), moved, Kind.ELEMENTWISE)

    return rule


def _index_sizes(sizes: Sizes, values_at: int) -> Dim:
    total: Dim = 0
    for at, (dims, dtype) in enumerate(zip(sizes.ins, sizes.in_types)):
        if at != values_at and dtype in ("int32", "int64"):
            total = D.add(total, tensor_bytes(dims, dtype))
    return total


def _apply(per_element: int, gradient_at: int) -> Rule:
    """An optimizer's update: variable and slots, whose sizes a handle does not tell, are as large as the gradient."""

    def rule(sizes: Sizes) -> Cost:
        gradient = sizes.dims(gradient_at)
        state = sum(1 for dtype in sizes.in_types if dtype == "resource" or dtype.endswith("_ref"))
        moved = tensor_bytes(gradient, sizes.in_types[gradient_at])
        return Cost(D.multiply(per_element, D.product(gradient)), D.multiply(1 + 2 * state, moved), Kind.ELEMENTWISE)

    return rule


def _last_input(sizes: Sizes) -> tuple[Dim, ...]:
    return sizes.dims(2)


def _output(sizes: Sizes) -> tuple[Dim, ...]:
    return sizes.out_dims()


def _named(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


def _optimizers() -> dict[str, Rule]:
    """The updates, each in four forms: by reference or handle, dense or sparse."""
    found: dict[str, Rule] = {}
    for name, (operations, gradient_at) in _OPTIMIZERS.items():
        rule = _apply(operations, gradient_at)
        found.update(
            {f"{form}{name}": rule for form in ("Apply", "SparseApply", "ResourceApply", "ResourceSparseApply")}
        )
    return found


_OPTIMIZERS: Mapping[str, tuple[int, int]] = {
    "GradientDescent": (2, 2),
    "Momentum": (4, 3),
    "KerasMomentum": (4, 3),
    "Adagrad": (5, 3),
    "AdagradV2": (6, 4),
    "Adam": (12, 9),
    "AdaMax": (10, 8),
    "RMSProp": (11, 7),
    "CenteredRMSProp": (15, 8),
    "Adadelta": (14, 6),
    "Ftrl": (16, 3),
    "FtrlV2": (17, 3),
}
"""Operations per element, and the input that is the gradient."""


def _table(*parts: Mapping[str, Rule]) -> dict[str, Rule]:
    return {name: rule for part in parts for name, rule in part.items()}


RULES: Mapping[str, Rule] = _table(
    _named(
        "Const Placeholder PlaceholderV2 PlaceholderWithDefault NoOp ControlTrigger Identity IdentityN "
        "StopGradient PreventGradient CheckNumerics Snapshot Shape ShapeN Size Rank VariableShape Reshape "
        "ExpandDims Squeeze Enter Exit RefEnter RefExit Merge RefMerge Switch RefSwitch NextIteration "
        "RefNextIteration LoopCond VariableV2 Variable VarHandleOp ReadVariableOp BroadcastGradientArgs "
        "InvertPermutation IteratorV2 IteratorGetNext OneShotIterator VarIsInitializedOp IsVariableInitialized "
        "TensorArrayV3 TensorArraySizeV3 TensorArrayGradV3 TensorArrayCloseV3 StackV2 StackPushV2 StackPopV2 "
        "StackCloseV2 EmptyTensorList TensorListPushBack TensorListPopBack TensorListReserve TensorListLength "
        "TensorListElementShape Assert Print PrintV2",
        _free,
    ),
    _named(
        "Concat ConcatV2 Pack Unpack Split SplitV Transpose ConjugateTranspose Tile Pad PadV2 MirrorPad "
        "MirrorPadGrad Fill ZerosLike OnesLike Range LinSpace Cast Bitcast OneHot ReverseV2 Reverse "
        "ReverseSequence BroadcastTo SpaceToDepth DepthToSpace SpaceToBatchND BatchToSpaceND Diag DiagPart "
        "MatrixDiag MatrixDiagPart MatrixBandPart DynamicStitch DynamicPartition Where Assign AssignVariableOp "
        "SliceGrad StridedSliceGrad TensorArrayScatterV3 TensorArrayGatherV3 TensorArrayConcatV3 "
        "TensorArraySplitV3 TensorArrayReadV3 TensorArrayWriteV3 TensorListStack TensorListFromTensor "
        "TensorListGetItem TensorListSetItem",
        _movement,
    ),
    _named("Gather GatherV2 GatherNd ResourceGather ResourceGatherNd Slice StridedSlice", _pick),
    _named(
        "Add AddV2 Sub Mul Div RealDiv DivNoNan FloorDiv TruncateDiv FloorMod Mod TruncateMod Maximum Minimum Pow "
        "SquaredDifference Neg Abs Sign Square Sqrt Rsqrt Exp Expm1 Log Log1p Sin Cos Tan Asin Acos Atan Atan2 "
        "Sinh Cosh Tanh Sigmoid Erf Erfc Lgamma Digamma Floor Ceil Round Rint Inv Reciprocal Relu Relu6 Elu Selu "
        "LeakyRelu Softplus Softsign Equal NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr "
        "LogicalNot LogicalXor IsNan IsInf IsFinite Select SelectV2 ClipByValue BiasAdd BiasAddV1 RandomUniform "
        "RandomStandardNormal RandomUniformInt TruncatedNormal Multinomial StatelessRandomUniform "
        "StatelessRandomUniformV2 StatelessRandomNormal StatelessRandomNormalV2 Xdivy Xlogy",
        _elementwise(1),
    ),
    _named(
        "ReluGrad Relu6Grad LeakyReluGrad EluGrad SeluGrad SoftplusGrad SoftsignGrad InvGrad ReciprocalGrad",
        _elementwise(2),
    ),
    _named("SigmoidGrad TanhGrad SqrtGrad RsqrtGrad", _elementwise(3)),
    _named("AddN AccumulateNV2", _add_n),
    _named("Sum Mean Prod Max Min All Any EuclideanNorm ArgMax ArgMin BiasAddGrad", _per_input(1)),
    _named(
        "UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd SegmentSum SegmentMean",
        _per_input(1),
    ),
    _named("L2Loss Cumsum Cumprod", _per_input(2)),
    # max, subtract, exponential, sum, divide; the cross entropies add a product and a sum, and return their gradient.
    _named("Softmax LogSoftmax", _per_input(5)),
    _named("SoftmaxCrossEntropyWithLogits", _per_input(8)),
    _named("SparseSoftmaxCrossEntropyWithLogits", _per_input(7)),
    # Mean and variance, then one multiplication and addition a normalised element; twice that for the gradient.
    _named("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", _per_input(8)),
    _named("FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3", _per_input(16)),
    _named("LRN", _per_input(10)),
    _named("MaxPool MaxPoolV2 AvgPool MaxPool3D AvgPool3D MaxPoolGrad AvgPoolGrad MaxPool3DGrad AvgPool3DGrad", _pool),
    _named("MatMul", _matmul),
    _named("BatchMatMul BatchMatMulV2 BatchMatMulV3", _batch_matmul),
    _named("Einsum", _einsum),
    _named("Conv2D Conv3D", _convolution(1, _output)),
    _named("Conv2DBackpropInput Conv3DBackpropInput Conv3DBackpropInputV2", _convolution(1, _last_input)),
    _named("Conv2DBackpropFilter Conv3DBackpropFilter Conv3DBackpropFilterV2", _convolution(-1, _last_input)),
    _named("DepthwiseConv2dNative", _convolution(1, _output, depthwise=True)),
    _named("DepthwiseConv2dNativeBackpropInput", _convolution(1, _last_input, depthwise=True)),
    _named("DepthwiseConv2dNativeBackpropFilter", _convolution(-1, _last_input, depthwise=True)),
    _named("AssignAdd AssignSub AssignAddVariableOp AssignSubVariableOp", _scatter(1, 1)),
    _named("ScatterUpdate ResourceScatterUpdate ScatterNdUpdate ResourceScatterNdUpdate", _scatter(2, 0)),
    _named(
        "ScatterAdd ScatterSub ScatterMul ScatterDiv ScatterMin ScatterMax ResourceScatterAdd ResourceScatterSub "
        "ResourceScatterMul ResourceScatterDiv ResourceScatterMin ResourceScatterMax ScatterNdAdd ScatterNdSub "
        "ResourceScatterNdAdd ResourceScatterNdSub",
        _scatter(2, 1),
    ),
    _optimizers(),
)
"""By op type."""
