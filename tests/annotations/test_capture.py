"""Reading a graph: what is read, that nothing is changed, and that what is read can be written again."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.annotations.graphs import BUILDERS, batch, dense, mlp_loss, new_graph
from whale.annotations.capture import SMALL_CONSTANT, capture
from whale.annotations.variables import complete, tabulate, trainable_names
from whale.ir.graph_def import lower_program
from whale.ir.program import Op, TensorType
from whale.ir.text import text


def test_an_op_is_read() -> None:
    with new_graph() as graph:
        x = tf.placeholder(tf.float32, [None, 4], "x")
        weights = tf.constant(np.ones([4, 3], np.float32), name="w")
        with tf.device("/cpu:0"), tf.control_dependencies([tf.no_op("first")]):
            tf.matmul(x, weights, transpose_b=False, name="y")
        line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
        program = capture(graph)
    op = program.ops["y"]
    assert (op.type, op.inputs, op.controls) == ("MatMul", ("x:0", "w:0"), ("first",))
    assert op.outputs == (TensorType("float32", (None, 3)),)
    assert op.attrs["transpose_b"] is False and op.attrs["T"] == "float32"
    assert op.device == "/device:CPU:0"
    assert op.site is not None and (Path(op.site.path).name, op.site.line) == ("test_capture.py", line)
    assert program.tensor("y:0") == op.outputs[0] and program.producer("y:0") is op
    assert not op.stateful


def test_small_constants_are_read_and_large_ones_are_not() -> None:
    with new_graph() as graph:
        tf.constant([1, 2], name="small")
        tf.constant(np.zeros(SMALL_CONSTANT + 1, np.float32), name="large")
        program = capture(graph)
    assert program.ops["small"].value is not None and program.ops["small"].value.tolist() == [1, 2]
    assert program.ops["large"].value is None


def test_reference_types_and_unknown_ranks_are_read() -> None:
    with new_graph() as graph:
        tf.get_variable("v", [2])
        tf.placeholder(tf.float32, name="x")
        program = capture(graph)
    assert program.tensor("v:0") == TensorType("float32_ref", (2,))
    assert program.tensor("x:0") == TensorType("float32", None)
    assert program.ops["v"].stateful


def test_gradient_ops_know_their_forward_op() -> None:
    with new_graph() as graph:
        x, labels = batch()
        tf.gradients(mlp_loss(x, labels), tf.trainable_variables())
        program = capture(graph)
    assert program.ops["gradients/MatMul_grad/MatMul_1"].forward == "MatMul"
    assert program.ops["MatMul"].forward is None


def test_the_graph_is_not_changed() -> None:
    with new_graph() as graph:
        x, labels = batch()
        tf.train.AdamOptimizer().minimize(mlp_loss(x, labels))
        before = graph.as_graph_def().SerializeToString(deterministic=True)
        complete(capture(graph), graph)
        assert graph.as_graph_def().SerializeToString(deterministic=True) == before


def test_a_capture_is_extended_by_late_ops() -> None:
    with new_graph() as graph:
        x, _ = batch()
        y = dense(x, 3, "out")
        early = capture(graph)
        tf.nn.relu(y, name="late")
        extended = capture(graph, early)
        whole = capture(graph)
    assert "late" not in early.ops
    assert list(extended.ops) == list(whole.ops)
    assert all(extended.ops[name] is op for name, op in early.ops.items())
    assert text(extended) == text(whole)


def test_functions_are_kept() -> None:
    with new_graph(control_flow_v2=True) as graph:
        BUILDERS["loop_v2"]()
        program = capture(graph)
    library = tf.GraphDef()
    library.library.ParseFromString(program.library)
    loop = next(op for op in program.ops.values() if op.type in ("While", "StatelessWhile"))
    assert loop.attrs["body"] in {function.signature.name for function in library.library.function}


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
@pytest.mark.parametrize("name", BUILDERS)
def test_lifted_lowered_and_lifted_again_it_prints_the_same(name: str, resource: bool) -> None:
    with new_graph(control_flow_v2=name == "loop_v2", resource=resource or name == "mlp_tape") as graph:
        BUILDERS[name]()
        program = complete(capture(graph), graph)
        trainable = trainable_names(graph)
    lowered = lower_program(program)
    graph_def = tf.GraphDef()
    graph_def.ParseFromString(lowered)
    with new_graph() as again:
        tf.import_graph_def(graph_def, name="")
        lifted = tabulate(capture(again), trainable)
    assert text(lifted) == text(program)
    assert lower_program(lifted).count(b"_whale_forward") == lowered.count(b"_whale_forward")


def test_a_lowered_program_runs() -> None:
    with new_graph() as graph:
        x, labels = batch()
        loss = mlp_loss(x, labels)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = tf.global_variables_initializer()
        program = complete(capture(graph), graph)
    graph_def = tf.GraphDef.FromString(lower_program(program))
    feed = {"x:0": np.ones([2, 4], np.float32), "labels:0": np.array([0, 2], np.int32)}
    with new_graph() as again:
        tf.import_graph_def(graph_def, name="")
        with tf.Session(graph=again) as session:
            session.run(init.name)
            first = session.run(loss.name, feed)
            session.run(train.name, feed)
            assert session.run(loss.name, feed) < first


def test_a_changed_op_is_lowered_as_changed() -> None:
    with new_graph() as graph:
        tf.add(tf.constant(1.0, name="a"), tf.constant(2.0, name="b"), name="sum")
        program = capture(graph)
    swapped: Op = program.ops["sum"].__class__(
        **{**program.ops["sum"].__dict__, "type": "Sub", "inputs": ("b:0", "a:0"), "device": "/device:CPU:0"}
    )
    graph_def = tf.GraphDef.FromString(lower_program(type(program)({**program.ops, "sum": swapped})))
    with new_graph() as again:
        tf.import_graph_def(graph_def, name="")
        with tf.Session(graph=again) as session:
            assert session.run("sum:0") == 1.0
        assert again.get_operation_by_name("sum").device == "/device:CPU:0"
