"""Programs of two and three stages written by hand, without TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.ir.programs import op, program
from whale.errors import Site
from whale.ir.program import Op, Phase, Program, Variable
from whale.ir.task_graphs import Stage

FIRST, SECOND, THIRD = 10, 11, 12
"""Numbers of the scopes of stages 0, 1 and 2."""


def stages(count: int) -> tuple[Stage, ...]:
    """Stages, each of one scope."""
    return tuple(Stage(frozenset({FIRST + i}), f"s{i}", site=Site("model.py", 10 * (i + 1))) for i in range(count))


def made(
    scope: int | None, phase: Phase, name: str, type: str, *inputs: str, forward: str | None = None, **more: Any
) -> Op:
    """An op of a scope and phase, made at a line of its own."""
    line = 100 + sum(map(ord, name))
    return dataclasses.replace(
        op(name, type, *inputs, **more), scope=scope, phase=phase, forward=forward, site=Site("model.py", line)
    )


def trained(*forward: Op, layers: tuple[str, ...], variables: tuple[tuple[str, int], ...]) -> Program:
    """A forward pass with the gradients and updates that ``tf.gradients`` and gradient descent add.

    Args:
        forward: all ops of the forward pass; the last is the loss.
        layers: names of its MatMuls, of a value and a weight, in data-flow order.
        variables: by layer: the weight's name and the scope it is made in.
    """
    ops = [
        made(scope, Phase.FORWARD, name, "VariableV2", dtype="float32_ref") for name, scope in dict(variables).items()
    ]
    ops += forward
    gradient = "seed"
    ops.append(made(None, Phase.BACKWARD, "seed", "OnesLike", forward[-1].name, forward=forward[-1].name))
    collected: dict[str, list[str]] = {}
    for layer, (weight, _) in reversed(list(zip(layers, variables))):
        value = next(o for o in forward if o.name == layer).inputs[0]
        ops.append(made(None, Phase.BACKWARD, f"{layer}_dw", "MatMul", value, gradient, forward=layer))
        ops.append(made(None, Phase.BACKWARD, f"{layer}_dx", "MatMul", gradient, weight, forward=layer))
        collected.setdefault(weight, []).append(f"{layer}_dw")
        gradient = f"{layer}_dx"
    known = []
    for weight, parts in collected.items():
        total = parts[0]
        if len(parts) > 1:
            total = f"{weight}_sum"
            ops.append(made(None, Phase.BACKWARD, total, "AddN", *parts))
        ops.append(made(None, Phase.UPDATE, f"{weight}_apply", "ApplyGradientDescent", weight, total))
        known.append(Variable(weight, "float32", (), True, None, (f"{weight}_apply",), None, (f"{total}:0",)))
    return program(*ops, variables=tuple(known))


def two_stages() -> Program:
    """x -> a -> (relu outside of every scope) -> b -> loss, with labels for the loss."""
    return trained(
        made(None, Phase.INPUT, "x", "Placeholder"),
        made(None, Phase.INPUT, "labels", "Placeholder"),
        made(FIRST, Phase.FORWARD, "a", "MatMul", "x", "wa"),
        made(None, Phase.FORWARD, "relu", "Relu", "a"),
        made(SECOND, Phase.FORWARD, "b", "MatMul", "relu", "wb"),
        made(None, Phase.FORWARD, "loss", "Sub", "b", "labels"),
        layers=("a", "b"),
        variables=(("wa", FIRST), ("wb", SECOND)),
    )


def with_ops(base: Program, *more: Op, variables: tuple[Variable, ...] = ()) -> Program:
    """A program with further ops at its end."""
    known = {**base.variables, **{v.name: v for v in variables}}
    return Program({**base.ops, **{o.name: o for o in more}}, known)
