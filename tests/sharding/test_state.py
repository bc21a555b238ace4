"""What each op of TensorFlow that updates variables writes: by its definition, and compared with what it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from whale import _tf
from whale.annotations.capture import capture
from whale.ir.program import Program
from whale.sharding.rules.state import GENERATORS, writes_variable, written

ROWS, WIDTH = 3, 2

NEEDS_OTHERS = {
    "AssignVariableXlaConcatND": "assigns the pieces of a tensor within XLA",
    "DestroyTemporaryVariable": "ends a variable and writes none",
    "SdcaShrinkL1": "takes a list of variables; it has no Python function in TensorFlow 2",
    "NegTrain": "has no Python function in TensorFlow 2",
    "StatefulRandomBinomial": "leaves its generator as it was where few numbers are drawn",
    "StatefulStandardNormal": "TensorFlow removed it in favour of StatefulStandardNormalV2",
    "RngReadAndSkip": "is called by Generator.skip, as RngSkip",
}
"""Ops that this file cannot run, with what they are."""


def updating_ops() -> list[str]:
    """Every op type of this TensorFlow that writes a variable."""
    return sorted(
        name
        for name in _tf.op_types()
        if (writes_variable(name) or name in GENERATORS) and name not in NEEDS_OTHERS and _tf.state_inputs(name)
    )


def arguments(tf: Any, op_type: str) -> tuple[dict[str, Any], list[Any]]:
    """Arguments for an op of a type, by name, and the variables among them."""
    definition, chosen, variables = _tf.op_definition(op_type), dict[str, Any](), list[Any]()
    sparse = any(argument.name == "indices" for argument in definition.input_arg)
    nested = "Nd" in op_type
    state = _tf.state_inputs(op_type)
    integers = op_type.endswith("CountUpTo")
    for number, argument in enumerate(definition.input_arg):
        if number in state:
            value: Any = np.ones([ROWS, WIDTH], np.float32)
            if integers:
                value = np.zeros([], np.int32)
            elif op_type in GENERATORS:
                value = np.arange(1, 4, dtype=np.int64)
            variable = tf.Variable(value, use_resource=not argument.is_ref)
            variables.append(variable)
            chosen[argument.name] = variable.handle if not argument.is_ref else variable._ref()
            continue
        chosen[argument.name] = plain(op_type, argument.name, sparse, nested)
    if integers:
        chosen.update(limit=5, **({"T": tf.int32} if state and not definition.input_arg[0].is_ref else {}))
    return chosen, variables


def plain(op_type: str, name: str, sparse: bool, nested: bool) -> Any:
    """A value for an argument that is no state."""
    rows = np.array([0, 2], np.int32)
    known = {
        "indices": rows[:, None] if nested else rows,
        "begin": np.array([0, 0], np.int32),
        "end": np.array([2, 2], np.int32),
        "strides": np.array([1, 1], np.int32),
        "global_step": np.int64(3),
        "lr_power": np.float32(-0.5),
        "shape": np.array([2], np.int32),
        "algorithm": np.int64(1),
        "delta": np.int64(2) if op_type == "RngSkip" else np.float32(0.5),
        "minval": np.int64(0),
        "maxval": np.int64(9),
        "counts": np.array([4.0, 4.0], np.float32),
        "probs": np.array([0.5, 0.5], np.float32),
    }
    if name in known and not (name == "delta" and op_type.startswith(("Apply", "ResourceApply"))):
        return known[name]
    if name == "updates" and op_type.endswith("Max"):
        return np.full([2, WIDTH], 2.0, np.float32)
    if name in ("grad", "delta", "updates", "value"):
        whole = name in ("value", "delta") and not op_type.startswith(("Strided", "ResourceStrided"))
        return np.full([2 if (sparse or "Strided" in op_type) and not whole else ROWS, WIDTH], 0.25, np.float32)
    return np.float32(0.5)


@pytest.mark.parametrize("part", range(4))
def test_writes_what_its_definition_says(tf: Any, part: int) -> None:
    """The variables that change when the op runs are among those that it is known to write, and the first is one."""
    wrong: list[str] = []
    for op_type in updating_ops()[part::4]:
        with tf.Graph().as_default() as graph, tf.Session() as sess:
            chosen, variables = arguments(tf, op_type)
            made = getattr(tf.raw_ops, op_type)(**chosen)
            op = made if isinstance(made, tf.Operation) else made.op
            sess.run(tf.global_variables_initializer())
            before = sess.run(variables)
            sess.run(op)
            changed = [v.op.name for v, a, b in zip(variables, before, sess.run(variables)) if not np.array_equal(a, b)]
            program = capture(graph, Program({}))
            known: Sequence[str] = written(program.ops, program.ops[op.name])
            if not set(changed) <= set(known) or not changed or set(known) != {v.op.name for v in variables}:
                wrong.append(f"{op_type}: changed {changed}, known {list(known)}")
    assert not wrong


def test_every_op_that_takes_state_is_known(golden: Any) -> None:
    """Op types that take a reference or a handle and are not known to write a variable: a look at a new one is due."""
    others = [n for n in _tf.op_types() if _tf.state_inputs(n) and not writes_variable(n) and n not in GENERATORS]
    unlike = ("TensorArray", "Stack", "Queue", "Reader", "LookupTable", "BoostedTrees", "Barrier", "Rpc", "Dataset")
    more = ("Iterator", "Accumulator", "Summary", "TPU", "Xla", "Collective", "Ref", "Resource", "Seed", "Initialize")
    golden("\n".join(sorted(n for n in others if not any(word in n for word in (*unlike, *more)))))
