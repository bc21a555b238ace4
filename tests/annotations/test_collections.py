"""Merge rules of fetches."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

import whale as wh
from whale.annotations.graph_keys import ALL_KEYS
from whale.annotations.state import annotations_of

pytestmark = pytest.mark.usefixtures("graph")

MEAN = wh.GraphKeys.GLOBAL_MEAN_OBJECTS
SUM = wh.GraphKeys.GLOBAL_SUM_OBJECTS


def test_a_tensor_or_a_list_under_a_key(graph: tf.Graph) -> None:
    a, b, c = (tf.constant(1.0, name=name) for name in "abc")
    wh.add_to_collection(b, MEAN)
    wh.add_to_collection([a, b], MEAN)
    wh.add_to_collection((c,), SUM)
    assert wh.get_collection(MEAN) == [b, a]
    assert wh.get_all_collections() == [[], [b, a], [c], [], [], []]
    said = annotations_of(graph)
    assert said is not None and said.collections == {MEAN: ("b:0", "a:0"), SUM: ("c:0",)}


@pytest.mark.parametrize("resource", [False, True])
def test_a_variable_stands_for_what_a_fetch_of_it_returns(graph: tf.Graph, resource: bool) -> None:
    variable = tf.get_variable("v", [], use_resource=resource)
    operations = len(graph.get_operations())
    wh.add_to_collection(variable, MEAN)
    assert len(graph.get_operations()) == operations
    assert wh.get_collection(MEAN) == [graph.as_graph_element(variable)]


def test_a_tensor_of_another_graph_is_recorded_there(graph: tf.Graph) -> None:
    with tf.Graph().as_default() as other:
        tensor = tf.constant(1.0)
    wh.add_to_collection(tensor, MEAN)
    assert wh.get_collection(MEAN) == []
    with other.as_default():
        assert wh.get_collection(MEAN) == [tensor]


def test_every_key_is_listed_once() -> None:
    assert sorted(ALL_KEYS) == sorted(value for name, value in vars(wh.GraphKeys).items() if name.isupper())


@pytest.mark.parametrize("key", ["global_mean_object", 3, None, ["global_mean_objects"]])
def test_an_unknown_key(key: Any) -> None:
    with pytest.raises(wh.ScopeError, match="is not a key of a collection") as caught:
        wh.add_to_collection(tf.constant(1.0), key)
    assert caught.value.site is not None and caught.value.site.path == __file__
    with pytest.raises(wh.ScopeError, match="is not a key of a collection"):
        wh.get_collection(key)


def test_the_nearest_key_is_named() -> None:
    with pytest.raises(wh.ScopeError, match="did you mean 'global_mean_objects'"):
        wh.get_collection("global_mean_object")


@pytest.mark.parametrize("make", [lambda: 3.0, lambda: None, lambda: "loss", lambda: tf.no_op(), lambda: [1.0]])
def test_what_is_no_tensor(make: Any) -> None:
    with pytest.raises(wh.ScopeError, match="cannot be in a collection"):
        wh.add_to_collection(make(), MEAN)


def test_two_rules_for_one_tensor() -> None:
    loss = tf.constant(1.0, name="loss")
    wh.add_to_collection(loss, MEAN)
    with pytest.raises(wh.ScopeError, match="tensor 'loss:0' is in the collection 'global_mean_objects' already"):
        wh.add_to_collection(loss, SUM)
