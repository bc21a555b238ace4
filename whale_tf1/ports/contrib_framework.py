"""Pieces of ``tf.contrib.framework`` that tf-slim left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["get_name_scope", "get_placeholders", "reduce_sum_n", "with_same_shape", "with_shape"]


def get_name_scope() -> str:
    """The name scope in force, without a trailing slash."""
    return tf.get_default_graph().get_name_scope()


def get_placeholders(graph: tf.Graph) -> list[Any]:
    """The output of every placeholder of a graph."""
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


def reduce_sum_n(tensors: Sequence[Any], name: str | None = None) -> Any:
    """The sum of all elements of all tensors, a scalar.

    Raises:
        ValueError: there is no tensor.
    """
    if not tensors:
        raise ValueError("reduce_sum_n needs at least one tensor")
    with tf.name_scope(name, "reduce_sum_n", tensors):
        return tf.add_n([tf.reduce_sum(value) for value in tensors])


def with_shape(expected_shape: Any, tensor: Any) -> Any:
    """The tensor with a static shape, checked at run time where it is not known.

    Raises:
        ValueError: the static shapes contradict each other.
    """
    tensor = tf.convert_to_tensor(tensor)
    if isinstance(expected_shape, tf.Tensor):
        expected = expected_shape
    else:
        shape = tf.TensorShape(expected_shape)
        tensor.shape.assert_is_compatible_with(shape)
        if tensor.shape.is_fully_defined():
            return tensor
        expected = tf.constant([-1 if size is None else size for size in shape.as_list()], tf.int32)
    actual = tf.shape(tensor)
    fits = tf.reduce_all(tf.logical_or(tf.equal(expected, -1), tf.equal(expected, actual)))
    with tf.control_dependencies([tf.Assert(fits, ["wrong shape: expected, actual", expected, actual])]):
        checked = tf.identity(tensor)
    if not isinstance(expected_shape, tf.Tensor):
        checked.set_shape(expected_shape)
    return checked


def with_same_shape(expected_tensor: Any, tensor: Any) -> Any:
    """The tensor, with the shape of another one."""
    shape = expected_tensor.shape
    return with_shape(shape if shape.is_fully_defined() else tf.shape(expected_tensor), tensor)
