"""Element-wise ops, alone and with operands that broadcast, are cut otherwise, or are sums over the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.sharding.rows import Inputs, Row

ANYWHERE = [
    "Abs",
    "Asinh",
    "Atan",
    "BesselI0e",
    "BesselI1e",
    "CheckNumerics",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Erfc",
    "Exp",
    "Expm1",
    "Identity",
    "LeakyRelu",
    "Neg",
    "PreventGradient",
    "Relu",
    "Relu6",
    "Selu",
    "Sigmoid",
    "Sin",
    "Sinh",
    "Snapshot",
    "Softplus",
    "Softsign",
    "Square",
    "Tan",
    "Tanh",
]
"""Functions of one operand, defined for all numbers."""

POSITIVE = ["Digamma", "Inv", "Lgamma", "Log", "Log1p", "Reciprocal", "Rsqrt", "Sqrt"]
"""Functions of one operand, defined for positive numbers."""

UNIT = ["Acos", "Asin", "Atanh", "Erfinv"]
"""Functions of one operand, defined between -1 and 1."""

STEPS = [
    "Ceil",
    "DeepCopy",
    "Floor",
    "IsFinite",
    "IsInf",
    "IsNan",
    "OnesLike",
    "Rint",
    "Round",
    "Sign",
    "StopGradient",
    "ZerosLike",
]
"""Functions of one operand without a gradient, or with one that is zero."""

PAIRS = ["Add", "AddV2", "Atan2", "Maximum", "Minimum", "Mul", "SquaredDifference", "Sub", "Xdivy"]
"""Functions of two operands, defined for all numbers."""

POSITIVE_PAIRS = [
    "Div",
    "DivNoNan",
    "FloorDiv",
    "Igamma",
    "Igammac",
    "Mod",
    "Pow",
    "RealDiv",
    "TruncateMod",
    "Xlog1py",
    "Xlogy",
    "FloorMod",
]
"""Functions of two operands, defined for positive numbers."""

WITHOUT_GRADIENT = frozenset({"Mod", "TruncateMod", "DeepCopy", "Sign"})

COMPARISONS = ["Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "NotEqual"]

BITS = ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift", "TruncateDiv"]

BROADCAST = ["AddV2", "Sub", "Mul", "RealDiv", "Maximum", "SquaredDifference", "Pow", "Atan2"]
"""Ops tried with every kind of second operand."""

OPERANDS: dict[str, Callable[[Any, Inputs], Any]] = {
    "number": lambda tf, i: tf.constant(1.5),
    "vector": lambda tf, i: i.w,
    "row": lambda tf, i: tf.reshape(i.w, [1, 4]),
    "column of the batch": lambda tf, i: tf.abs(i.y[:, :1]) + 0.5,
    "computed column": lambda tf, i: tf.reduce_mean(tf.abs(i.y), 1, keepdims=True) + 0.5,
    "sum over the batch": lambda tf, i: tf.reduce_sum(tf.abs(i.y), 0) + 0.1,
    "bare sum over the batch": lambda tf, i: tf.reduce_sum(tf.abs(i.y), 0),
    "sum of everything": lambda tf, i: tf.reduce_sum(tf.abs(i.y)),
    "mean of everything": lambda tf, i: tf.reduce_mean(tf.abs(i.y)),
    "maximum over the batch": lambda tf, i: tf.reduce_max(tf.abs(i.y), 0, keepdims=True),
    "ones of the batch": lambda tf, i: tf.ones([i.b, 4]),
    "filled": lambda tf, i: tf.fill([i.b, 1], 2.0),
}


def _call(tf: Any, op: str, *operands: Any) -> Any:
    """The op by its type, through the raw interface."""
    function = getattr(tf.raw_ops, op)
    names = [n for n in function.__signature__.parameters if n != "name"]
    return function(**dict(zip(names, operands)))


def _unary(op: str, prepare: Callable[[Any, Any], Any]) -> Row:
    gradient = op not in WITHOUT_GRADIENT
    extra = {"CheckNumerics": ("no message",), "PreventGradient": ()}.get(op, ())
    return Row(
        op,
        lambda tf, i: _call(tf, op, prepare(tf, i.x), *extra),
        gradient=gradient and op not in ("PreventGradient", "Snapshot"),
        tolerance=1e-4 if op in ("Digamma", "Lgamma", "Erfinv", "Acos", "Tan") else 1e-5,
    )


def _numbers(op: str) -> Iterator[Row]:
    """An op of two operands, both cut, then with each kind of second and first operand."""
    for name, operand in OPERANDS.items():
        yield Row(f"{op}: by {name}", lambda tf, i, f=operand: _call(tf, op, tf.abs(i.x) + 0.5, f(tf, i)))
        yield Row(f"{op}: of {name}", lambda tf, i, f=operand: _call(tf, op, f(tf, i), tf.abs(i.x) + 0.5))


def _sums(op: str) -> Row:
    return Row(
        f"{op}: of two sums over the batch",
        lambda tf, i: _call(tf, op, tf.reduce_sum(tf.square(i.x), 0), tf.reduce_sum(tf.square(i.y), 0)),
    )


UNARY = [
    *(_unary(op, lambda tf, x: x) for op in (*ANYWHERE, *STEPS)),
    *(_unary(op, lambda tf, x: tf.abs(x) + 0.5) for op in POSITIVE),
    *(_unary(op, lambda tf, x: tf.tanh(x) * 0.9) for op in UNIT),
    _unary("Acosh", lambda tf, x: tf.abs(x) + 1.5),
    _unary("Ndtri", lambda tf, x: tf.sigmoid(x)),
    *(
        Row(f"{op}: of a sum over the batch", lambda tf, i, op=op: _call(tf, op, tf.reduce_sum(i.x, 0)))
        for op in ["Tanh", "Neg", "Identity", "Square", "Exp", "Relu", "StopGradient", "ZerosLike", "OnesLike", "Sign"]
        if op != "Sign"
    ),
    *(
        Row(f"{op}: batch on dim 1", lambda tf, i, op=op: _call(tf, op, tf.transpose(i.x)))
        for op in ["Tanh", "Neg", "Relu"]
    ),
]

TWO = [
    *(Row(op, lambda tf, i, op=op: _call(tf, op, i.x, i.y), gradient=op not in WITHOUT_GRADIENT) for op in PAIRS),
    *(
        Row(
            op,
            lambda tf, i, op=op: _call(tf, op, tf.abs(i.x) + 0.5, tf.abs(i.y) + 0.5),
            gradient=op not in WITHOUT_GRADIENT,
        )
        for op in POSITIVE_PAIRS
    ),
    *(Row(op, lambda tf, i, op=op: _call(tf, op, i.x, i.y)) for op in COMPARISONS),
    *(Row(op, lambda tf, i, op=op: _call(tf, op, i.ids, tf.constant(2))) for op in BITS),
    Row("NextAfter", lambda tf, i: tf.raw_ops.NextAfter(x1=i.x, x2=i.y)),
    Row("MulNoNan", lambda tf, i: tf.raw_ops.MulNoNan(x=i.x, y=tf.round(i.y))),
    Row("Zeta", lambda tf, i: tf.raw_ops.Zeta(x=tf.abs(i.y) + 1.5, q=tf.abs(i.x) + 0.5), tolerance=1e-4),
    Row(
        "Polygamma",
        lambda tf, i: tf.raw_ops.Polygamma(a=tf.ones_like(i.y), x=tf.abs(i.x) + 0.5),
        tolerance=1e-4,
    ),
    Row("ApproximateEqual", lambda tf, i: tf.raw_ops.ApproximateEqual(x=i.x, y=i.y, tolerance=0.5)),
    Row("Invert", lambda tf, i: tf.bitwise.invert(i.ids)),
    Row("PopulationCount", lambda tf, i: tf.raw_ops.PopulationCount(x=i.ids)),
    *(Row(f"Logical{op}", lambda tf, i, op=op: _call(tf, f"Logical{op}", i.mask, i.ids > 1)) for op in ("And", "Or")),
    Row("LogicalNot", lambda tf, i: tf.logical_not(i.mask)),
    Row("EnsureShape", lambda tf, i: tf.ensure_shape(i.x, i.y.shape)),
    Row("AddN", lambda tf, i: tf.add_n([i.x, i.y, i.x])),
    Row("AddN: of sums", lambda tf, i: tf.add_n([tf.reduce_sum(i.x, 0), tf.reduce_sum(i.y, 0)])),
    Row("AddN: of a sum and a whole", lambda tf, i: tf.add_n([tf.reduce_sum(i.x, 0), i.w])),
    Row("AddN: of pieces and a whole", lambda tf, i: tf.add_n([i.x, tf.ones([i.b, 4]) * i.w])),
    Row(
        "AccumulateNV2",
        lambda tf, i: tf.raw_ops.AccumulateNV2(inputs=[i.x, i.y], shape=i.x.shape),
        modes=("static",),
    ),
    Row("InvGrad", lambda tf, i: tf.raw_ops.InvGrad(y=i.x, dy=i.y)),
    Row("SoftplusGrad", lambda tf, i: tf.raw_ops.SoftplusGrad(gradients=i.y, features=i.x)),
    Row("ClipByValue", lambda tf, i: tf.clip_by_value(i.x, -0.5, 0.7)),
    Row("ClipByValue: raw", lambda tf, i: tf.raw_ops.ClipByValue(t=i.x, clip_value_min=-0.5, clip_value_max=0.5)),
    Row("Bucketize", lambda tf, i: tf.raw_ops.Bucketize(input=i.x, boundaries=[-0.5, 0.0, 0.7])),
    Row("SelectV2", lambda tf, i: tf.raw_ops.SelectV2(condition=i.x > i.y, t=i.x, e=i.y)),
    Row("SelectV2: by a column", lambda tf, i: tf.where_v2(tf.expand_dims(i.mask, 1), i.x, tf.square(i.x))),
    Row("SelectV2: a number", lambda tf, i: tf.where_v2(i.x > 0, i.x, 0.1)),
    Row("SelectV2: ones of the batch", lambda tf, i: tf.where_v2(i.x > 0, i.x, tf.ones_like(i.y))),
    Row("SelectV2: by a sum", lambda tf, i: tf.where_v2(tf.reduce_sum(i.y) > 0, i.x, i.y)),
    Row(
        "SelectV2: between sums",
        lambda tf, i: tf.where_v2(i.w > 1.0, tf.reduce_sum(i.x, 0), tf.reduce_sum(i.y, 0)),
    ),
    Row(
        "SelectV2: between a sum and zeros",
        lambda tf, i: tf.where_v2(i.w > 1.0, tf.reduce_sum(i.x, 0), tf.zeros_like(i.w)),
    ),
    Row("Select", lambda tf, i: tf.where(i.x > i.y, i.x, i.y)),
    Row("Select: rows by a vector", lambda tf, i: tf.where(i.mask, i.x, tf.square(i.y))),
    Row("Select: rows, whole vector", lambda tf, i: tf.where(tf.fill([i.b], True), i.x, i.y)),
    Row("Select: rows of whole tensors", lambda tf, i: tf.where(i.mask, tf.ones([i.b, 4]) * i.w, tf.zeros([i.b, 4]))),
    Row(
        "Select: vector picks other rows",
        lambda tf, i: tf.where(tf.constant([True, False, True, False]), tf.transpose(i.x), tf.transpose(i.y)),
    ),
    Row("Complex", lambda tf, i: _complex(tf, tf.complex(i.x, i.y))),
    Row("ComplexAbs", lambda tf, i: tf.abs(tf.complex(i.x, i.y))),
    Row("Angle", lambda tf, i: tf.angle(tf.complex(i.x, i.y))),
    Row("Conj", lambda tf, i: _complex(tf, tf.conj(tf.complex(i.x, i.y)))),
    Row("Conj: of a sum", lambda tf, i: _complex(tf, tf.conj(tf.reduce_sum(tf.complex(i.x, i.y), 0)))),
    Row("Cast: to float64", lambda tf, i: tf.cast(i.x, tf.float64)),
    Row("Cast: to int", lambda tf, i: tf.cast(i.x * 3, tf.int32)),
    Row("Cast: from int", lambda tf, i: tf.cast(i.ids, tf.float32) * i.w[0]),
    Row("Cast: a sum to float64", lambda tf, i: tf.cast(tf.reduce_sum(i.x, 0), tf.float64)),
    Row("Cast: a sum to int", lambda tf, i: tf.cast(tf.reduce_sum(i.x * 3, 0), tf.int32)),
    Row("Cast: an int sum to float", lambda tf, i: tf.cast(tf.reduce_sum(i.ids), tf.float32) * i.w),
    Row("Cast: a sum to bool", lambda tf, i: tf.cast(tf.reduce_sum(i.ids), tf.bool)),
    Row("Cast: a count", lambda tf, i: tf.cast(i.b, tf.float32) * i.w if not isinstance(i.b, int) else i.w * i.b),
    Row("Bitcast", lambda tf, i: tf.bitcast(i.x, tf.int32)),
    Row("RealDiv: a sum by the count", lambda tf, i: tf.reduce_sum(i.x, 0) / tf.cast(i.b, tf.float32)),
    Row("Equal: labels and predictions", lambda tf, i: tf.equal(i.ids, tf.argmax(i.x, 1, output_type=tf.int32))),
    Row("FakeQuantWithMinMaxArgs", lambda tf, i: tf.fake_quant_with_min_max_args(i.x)),
    Row(
        "QuantizeAndDequantizeV2",
        lambda tf, i: tf.quantization.quantize_and_dequantize(i.x, -2.0, 2.0, range_given=True),
    ),
    *(_sums(op) for op in ("AddV2", "Sub", "Mul", "RealDiv", "Maximum", "DivNoNan", "SquaredDifference")),
    *(
        Row(f"{op}: batch on dim 1", lambda tf, i, op=op: _call(tf, op, tf.transpose(i.x), tf.reshape(i.w, [4, 1])))
        for op in ("AddV2", "Mul", "Sub")
    ),
    Row("AddV2: higher rank", lambda tf, i: tf.reshape(i.w, [4, 1, 1]) + i.x),
    Row("Mul: every pair of samples", lambda tf, i: tf.expand_dims(i.x, 1) * tf.expand_dims(i.y, 0)),
    Row("Mul: a batch by its transpose", lambda tf, i: tf.reduce_sum(i.x, 1) * tf.reduce_sum(i.y, 1, keepdims=True)),
]

CROSSED = [row for op in BROADCAST for row in _numbers(op)]


def _doubled_gradient(tf: Any, x: Any) -> Any:
    """The identity, with a gradient of the script's own: ``tf.custom_gradient`` makes an IdentityN."""

    @tf.custom_gradient
    def passed(value: Any) -> Any:
        return value * 1.0, lambda upstream: upstream * 2.0

    return passed(x)


CUSTOM = [
    Row("IdentityN", lambda tf, i: _doubled_gradient(tf, i.x)),
    Row("IdentityN: of a sum", lambda tf, i: _doubled_gradient(tf, tf.reduce_sum(i.x, 0))),
]

STRINGS = [
    Row("AsString", lambda tf, i: tf.as_string(i.ids)),
    Row("StringToNumber", lambda tf, i: tf.string_to_number(tf.as_string(i.ids))),
    Row("StringLength", lambda tf, i: tf.strings.length(tf.as_string(i.ids))),
    Row("StringStrip", lambda tf, i: tf.strings.strip(tf.as_string(i.ids, width=3))),
    Row("StringLower", lambda tf, i: tf.strings.lower(tf.as_string(i.mask))),
    Row("StringUpper", lambda tf, i: tf.strings.upper(tf.as_string(i.mask))),
    Row("StringToHashBucket", lambda tf, i: tf.string_to_hash_bucket(tf.as_string(i.ids), 7)),
    Row("StringToHashBucketFast", lambda tf, i: tf.string_to_hash_bucket_fast(tf.as_string(i.ids), 7)),
    Row("StringToHashBucketStrong", lambda tf, i: tf.string_to_hash_bucket_strong(tf.as_string(i.ids), 7, [1, 2])),
    Row("RegexReplace", lambda tf, i: tf.raw_ops.RegexReplace(input=tf.as_string(i.ids), pattern="1", rewrite="x")),
    Row("RegexFullMatch", lambda tf, i: tf.raw_ops.RegexFullMatch(input=tf.as_string(i.ids), pattern="1|2")),
    Row("StaticRegexReplace", lambda tf, i: tf.strings.regex_replace(tf.as_string(i.ids), "1", "x")),
    Row("StaticRegexFullMatch", lambda tf, i: tf.strings.regex_full_match(tf.as_string(i.ids), "1|2")),
    Row("DecodeBase64", lambda tf, i: tf.decode_base64(tf.encode_base64(tf.as_string(i.ids))), whole=("EncodeBase64",)),
    Row("Substr", lambda tf, i: tf.strings.substr(tf.as_string(i.ids), 0, 1)),
]

TABLES = {"unary": UNARY, "two operands": TWO, "broadcast": CROSSED, "custom gradients": CUSTOM, "strings": STRINGS}


def _complex(tf: Any, value: Any) -> tuple[Any, Any]:
    return tf.real(value), tf.imag(value)
