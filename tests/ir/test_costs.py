"""FLOPs and bytes, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ir.programs import op, program
from whale.ir import dims as D
from whale.ir.cost import Cost, Kind
from whale.ir.costs import op_cost, program_costs, unknown_types

Shape = Any


def cost(type: str, *shapes: Shape, out: tuple[Shape, ...] = ((),), dtype: str = "float32", **attrs: Any) -> Cost:
    """The cost of an op over inputs of some shapes."""
    inputs = [op(f"in{number}", "Placeholder", shapes=(shape,), dtype=dtype) for number, shape in enumerate(shapes)]
    node = op("y", type, *(o.name for o in inputs), shapes=out, dtype=dtype, **attrs)
    return op_cost(program(*inputs, node), node)


@pytest.mark.parametrize(
    ("found", "flops", "kind"),
    [
        (cost("MatMul", (4, 8), (8, 5), out=((4, 5),)), 2 * 4 * 8 * 5, Kind.MATMUL),
        (cost("MatMul", (8, 4), (5, 8), out=((4, 5),), transpose_a=True, transpose_b=True), 320, Kind.MATMUL),
        (cost("BatchMatMulV2", (7, 2, 3, 4), (7, 2, 4, 5), out=((7, 2, 3, 5),)), 14 * 2 * 3 * 4 * 5, Kind.MATMUL),
        (cost("BatchMatMulV2", (7, 4, 3), (7, 4, 5), out=((7, 3, 5),), adj_x=True), 7 * 2 * 3 * 4 * 5, Kind.MATMUL),
        (cost("Einsum", (2, 3, 4), (4, 5), out=((2, 3, 5),), equation="abc,cd->abd"), 2 * 2 * 3 * 4 * 5, Kind.MATMUL),
        (cost("Einsum", (6, 3, 4), (6, 4, 5), out=((6, 3, 5),), equation="...ab,...bc->...ac"), 720, Kind.MATMUL),
        (cost("Einsum", (2, 3), out=((3,),), equation="ab->b"), 6, Kind.REDUCTION),
        (cost("Conv2D", (2, 8, 8, 3), (3, 3, 3, 16), out=((2, 4, 4, 16),)), 2 * 2 * 16 * 16 * 27, Kind.CONVOLUTION),
        (
            cost("Conv2D", (2, 3, 8, 8), (3, 3, 3, 16), out=((2, 16, 4, 4),), data_format="NCHW"),
            2 * 2 * 16 * 16 * 27,
            Kind.CONVOLUTION,
        ),
        (
            cost("Conv2DBackpropInput", (4,), (3, 3, 3, 16), (2, 4, 4, 16), out=((2, 8, 8, 3),)),
            2 * 2 * 16 * 16 * 27,
            Kind.CONVOLUTION,
        ),
        (
            cost("Conv2DBackpropFilter", (2, 8, 8, 3), (4,), (2, 4, 4, 16), out=((3, 3, 3, 16),)),
            2 * 2 * 16 * 16 * 27,
            Kind.CONVOLUTION,
        ),
        (
            cost("DepthwiseConv2dNative", (2, 8, 8, 3), (3, 3, 3, 2), out=((2, 8, 8, 6),)),
            2 * 2 * 64 * 6 * 9,
            Kind.CONVOLUTION,
        ),
        (
            cost("Conv3D", (1, 4, 4, 4, 2), (2, 2, 2, 2, 5), out=((1, 3, 3, 3, 5),)),
            2 * 27 * 5 * 16,
            Kind.CONVOLUTION,
        ),
        (cost("Add", (4, 1), (1, 5), out=((4, 5),)), 20, Kind.ELEMENTWISE),
        (cost("TanhGrad", (4, 5), (4, 5), out=((4, 5),)), 60, Kind.ELEMENTWISE),
        (cost("AddN", (4, 5), (4, 5), (4, 5), out=((4, 5),)), 40, Kind.ELEMENTWISE),
        (cost("Sum", (4, 5), (1,), out=((4,),)), 20, Kind.REDUCTION),
        (cost("Softmax", (4, 5), out=((4, 5),)), 100, Kind.REDUCTION),
        (cost("FusedBatchNormV3", (2, 4, 4, 3), (3,), (3,), (0,), (0,), out=((2, 4, 4, 3),)), 768, Kind.REDUCTION),
        (cost("MaxPool", (2, 4, 4, 3), out=((2, 2, 2, 3),), ksize=(1, 2, 2, 1)), 4 * 24, Kind.REDUCTION),
        (
            cost("MaxPoolGrad", (2, 4, 4, 3), (2, 2, 2, 3), (2, 2, 2, 3), out=((2, 4, 4, 3),), ksize=(1, 2, 2, 1)),
            4 * 24,
            Kind.REDUCTION,
        ),
        (cost("Transpose", (4, 5), (2,), out=((5, 4),)), 0, Kind.MOVEMENT),
        (cost("Reshape", (4, 5), (2,), out=((20,),)), 0, Kind.NONE),
        (cost("ScatterAdd", (10, 4), (3,), (3, 4), out=((10, 4),)), 12, Kind.ELEMENTWISE),
    ],
)
def test_flops(found: Cost, flops: int, kind: Kind) -> None:
    assert (found.flops, found.kind) == (flops, kind)


def test_bytes_are_those_of_the_operands() -> None:
    assert cost("MatMul", (4, 8), (8, 5), out=((4, 5),)).bytes == 4 * (32 + 40 + 20)
    assert cost("MatMul", (4, 8), (8, 5), out=((4, 5),), dtype="bfloat16").bytes == 2 * (32 + 40 + 20)


def test_a_gather_reads_only_the_rows_it_returns() -> None:
    assert cost("GatherV2", (1000, 4), (3,), (), out=((3, 4),)).bytes == 2 * 48 + 4 * 3 + 4


def test_an_update_reads_and_writes_variable_and_slots() -> None:
    def handle(name: str) -> Any:
        return op(name, "VarHandleOp", dtype="resource")

    scalars = [op(name, "Const") for name in ("lr", "momentum")]
    gradient = op("gradient", "Const", shapes=((4, 5),))
    update = op("y", "ResourceApplyMomentum", "v", "slot", "lr", "gradient", "momentum", shapes=())
    found = op_cost(program(handle("v"), handle("slot"), *scalars, gradient, update), update)
    assert found == Cost(4 * 20, 80 * (1 + 2 * 2), Kind.ELEMENTWISE)


def test_unknown_sizes_become_symbols() -> None:
    found = cost("MatMul", (None, 8), (8, 5), out=((None, 5),))
    assert str(found.flops) == "80*y:0[0]"
    assert D.evaluate(found.flops, {"y:0[0]": 4}) == 320


def test_given_sizes_replace_static_ones() -> None:
    x = op("x", "Placeholder", shapes=((None, 8),))
    y = op("y", "Relu", "x", shapes=(None,))
    b = D.symbol("b")
    found = op_cost(program(x, y), y, {"x:0": (b, 8), "y:0": (b, 8)})
    assert str(found.flops) == "8*b"
    assert str(found.bytes) == "64*b"


def test_an_unknown_type_costs_its_tensors_and_says_so() -> None:
    found = cost("Mystery", (4, 5), out=((4,),))
    assert found == Cost(0, 4 * 24, Kind.UNKNOWN)
    assert not found.known


def test_missing_ranks_make_a_cost_unknown() -> None:
    assert cost("MatMul", None, (8, 5), out=(None,)) == Cost(0, 160, Kind.UNKNOWN)


def test_malformed_operands_make_a_cost_unknown() -> None:
    assert not cost("MatMul", (8,), (8, 5), out=((5,),)).known
    assert not cost("Einsum", (8,), equation="ab->a").known
    assert not cost("Conv2D", (2, 8), (3, 3), out=((2, 8),)).known


def test_unknown_types_are_counted() -> None:
    ops = [op("a", "Odd"), op("b", "Odd"), op("c", "Even"), op("d", "Const")]
    listed = program(*ops)
    assert unknown_types(listed, program_costs(listed)) == {"Odd": 2, "Even": 1}
