"""Errors of a step name the user's ops, and say where what failed is Whale's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale.cluster import Cluster
from whale.errors import Site
from whale.ir.program import Op
from whale.rewriter.shadow import Origin, Shadow
from whale.runtime.activation import activate
from whale.runtime.messages import translate
from whale.runtime.options import Options

OPS = {
    "logits": Op("logits", "MatMul", (), (), (), {}, b"", site=Site("train.py", 4)),
    "batch": Op("batch", "IteratorGetNext", (), (), (), {}, b"", site=Site("train.py", 2)),
}
NODES = {
    "replica_1/logits": Origin("logits", 1),
    "replica_0/whale/slice": Origin("logits", 0, own="Slice"),
    "replica_0/whale/done": Origin("", 0, own="NoOp"),
    "replica_0/whale/same_batch": Origin("logits", 0, own="Assert"),
    "replica_0/all_reduce/bucket": Origin("logits", 0, own="CollectiveReduceV2"),
    "replica_0/whale/draw": Origin("batch", 0, own="IteratorGetNext"),
}


def told(*nodes: str, kind: type[tf.errors.OpError] = tf.errors.InvalidArgumentError) -> str:
    """The message of an error at some nodes."""
    shadow = Shadow()
    shadow.origins.update(NODES)
    shadow.handles.update(dict.fromkeys((*NODES, "logits")))
    roots = "".join(f"\n\t [[{{{{node {name}}}}}]]" for name in nodes)
    error = translate(kind(None, None, f"wrong sizes{roots}"), shadow, OPS)
    assert type(error) is kind
    return error.message


def test_a_copy_goes_by_the_name_of_the_users_op() -> None:
    assert told("replica_1/logits") == "wrong sizes\n\t [[{{node logits}}]]\n(on replica 1)"
    assert told("logits") == "wrong sizes\n\t [[{{node logits}}]]"


def test_a_node_of_whales_own_is_named_with_what_it_serves_and_what_to_report() -> None:
    message = told("replica_0/whale/slice")
    assert "[[{{node logits}}]]\n(on replica 0)" in message
    assert "Slice 'replica_0/whale/slice', which serves MatMul 'logits' at train.py:4" in message
    assert "please report it" in message and "whale doctor" in message and "--devices 1" in message


def test_a_node_that_serves_no_op_keeps_its_name() -> None:
    message = told("replica_0/whale/done")
    assert "[[{{node replica_0/whale/done}}]]" in message
    assert "NoOp 'replica_0/whale/done'\n" in message


@pytest.mark.parametrize(
    "nodes",
    [
        ("replica_1/logits", "replica_0/whale/slice"),
        ("replica_0/whale/same_batch",),
        ("replica_0/whale/draw",),
        (),
    ],
)
def test_what_the_script_may_have_caused_is_not_called_a_fault_of_whale(nodes: tuple[str, ...]) -> None:
    assert "fault of Whale" not in told(*nodes)


@pytest.mark.parametrize(
    "kind", [tf.errors.OutOfRangeError, tf.errors.CancelledError, tf.errors.ResourceExhaustedError]
)
def test_the_end_of_the_data_and_of_memory_are_no_fault_of_whale(kind: type[tf.errors.OpError]) -> None:
    assert "fault of Whale" not in told("replica_0/whale/slice", kind=kind)


def test_what_waits_for_the_failed_node_is_named_if_it_is_of_the_script() -> None:
    shadow = Shadow()
    shadow.origins.update(NODES)
    shadow.handles.update(dict.fromkeys(NODES))
    text = "bad\n\t [[{{node replica_1/logits}}]]\n\t [[replica_0/whale/done]]\n\t [[replica_1/logits]]"
    error = tf.errors.InvalidArgumentError(None, None, text)
    message = translate(error, shadow, OPS).message
    assert message == "bad\n\t [[{{node logits}}]]\n\t [[logits]]\n(on replica 1)"


def test_an_empty_name_is_left_out() -> None:
    assert told("", "replica_1/logits") == "wrong sizes\n\t [[{{node logits}}]]\n(on replica 1)"


@pytest.mark.parametrize("columns", [5, 6])
def test_a_script_that_fails_on_one_device_is_told_nothing_of_whale(columns: int) -> None:
    with activate(Options(cluster=Cluster.local(2), quiet=True)), tf.Graph().as_default():
        x: Any = tf.placeholder(tf.float32, [None, None], "x")
        w = tf.get_variable("w", [4, 1], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(tf.matmul(x, w, name="product"))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(train, {x: np.ones([4, 4])})
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                session.run(train, {x: np.ones([4, columns])})
    # The sum of the gradients fails as well, and may be the first: its two parts have another shape than before.
    assert __file__ in caught.value.message and "fault of Whale" not in caught.value.message
    assert "node product" in caught.value.message or "see which op refuses its inputs" in caught.value.message
