"""The loops around each node are found in the nodes themselves."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from tests.annotations.graphs import new_graph
from whale.rewriter.frames import frames, turns


def test_of_loops_in_a_loop_every_node_has_its_frames() -> None:
    """As the contexts say in which TensorFlow made the ops."""
    with new_graph() as graph:
        tf.disable_control_flow_v2()

        def inner(value: tf.Tensor) -> tf.Tensor:
            return tf.while_loop(lambda i, _: i < 2, lambda i, v: (i + 1, v * 3.0), [0, value], name="inner")[1]

        def turn(i: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, inner(tf.cond(i > 1, lambda: value + 1.0, lambda: inner(value)))

        tf.identity(tf.while_loop(lambda i, _: i < 3, turn, [0, tf.placeholder(tf.float32, [])], name="outer")[1])
        nodes = {node.name: node for node in graph.as_graph_def().node}
        found = frames(nodes)
        for op in graph.get_operations():
            expected: list[str] = []
            context = op._get_control_flow_context()
            while context is not None:
                if context.IsWhileContext():
                    expected.insert(0, context.name)
                context = context.outer_context
            assert found.get(op.name, ()) == tuple(expected), op.name
    deepest = max(found.values(), key=len)
    assert len(deepest) == 2
    back = turns(nodes, found)
    assert {len(of) for of in back.values()} == {2}
    assert all(found[name] == found[of] for name, several in back.items() for of in several)


def test_nodes_outside_of_loops_have_none() -> None:
    with new_graph() as graph:
        tf.square(tf.placeholder(tf.float32, []))
        assert frames({node.name: node for node in graph.as_graph_def().node}) == {}
