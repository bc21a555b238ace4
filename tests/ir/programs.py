"""Programs written by hand, without TensorFlow."""

from __future__ import annotations

from typing import Any

from whale.ir.program import Op, Phase, Program, TensorType, Variable


def op(
    name: str,
    type: str,
    *inputs: str,
    shapes: tuple[Any, ...] = ((),),
    dtype: str = "float32",
    controls: tuple[str, ...] = (),
    **attrs: Any,
) -> Op:
    """An op; an input without an index is output 0."""
    return Op(
        name=name,
        type=type,
        inputs=tuple(tensor if ":" in tensor else f"{tensor}:0" for tensor in inputs),
        controls=controls,
        outputs=tuple(TensorType(dtype, shape) for shape in shapes),
        attrs=attrs,
        node=b"",
    )


def program(*ops: Op, variables: tuple[Variable, ...] = ()) -> Program:
    """A program of ops in the order given."""
    return Program({o.name: o for o in ops}, {v.name: v for v in variables})


def training_step() -> Program:
    """y = x w; loss = sum(y); w -= rate * gradient; with everything said about it."""
    ops = (
        op("x", "Placeholder", shapes=((None, 2),)).classified(Phase.INPUT, None),
        op("zeros", "Const", shapes=((2, 3),)).classified(Phase.INIT, None),
        op("w", "VarHandleOp", dtype="resource", shared_name="w").classified(Phase.FORWARD, None),
        op("init", "AssignVariableOp", "w", "zeros", shapes=()).classified(Phase.INIT, None),
        op("read", "ReadVariableOp", "w", shapes=((2, 3),)).classified(Phase.FORWARD, None),
        op("y", "MatMul", "x", "read", shapes=((None, 3),)).classified(Phase.FORWARD, None),
        op("loss", "Sum", "y").classified(Phase.FORWARD, None),
        op("dy", "OnesLike", "y", shapes=((None, 3),)).classified(Phase.BACKWARD, "loss"),
        op("dw", "MatMul", "x", "dy", shapes=((2, 3),), transpose_a=True).classified(Phase.BACKWARD, "y"),
        op("rate", "Const").classified(Phase.UPDATE, None),
        op("apply", "ResourceApplyGradientDescent", "w", "rate", "dw", shapes=()).classified(Phase.UPDATE, None),
        op("train", "NoOp", shapes=(), controls=("apply",)).classified(Phase.UPDATE, None),
    )
    weights = Variable("w", "float32", (2, 3), True, "zeros:0", ("apply",), None, ("dw:0",))
    return program(*ops, variables=(weights,))
