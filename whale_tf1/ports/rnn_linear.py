"""The linear map that contrib's cells share: a sum of matrix products over several inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["Linear", "linear"]


def linear(
    args: Any, output_size: int, bias: bool, bias_initializer: Any = None, kernel_initializer: Any = None
) -> Any:
    """``[batch, output_size]``: the inputs, joined, times ``kernel``, plus ``bias`` if asked.

    The variables ``kernel`` and ``bias`` are made in the current variable scope.

    Raises:
        ValueError: no input, or one that is not a matrix of known width.
    """
    return Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)


class Linear:
    """The same map, with its variables made once and used by several calls."""

    def __init__(
        self,
        args: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        inputs = _as_list(args)
        if not inputs:
            raise ValueError("linear needs at least one input")
        widths: list[Any] = [tf.dimension_value(value.shape[1]) if value.shape.rank == 2 else None for value in inputs]
        if None in widths:
            shapes = [str(value.shape) for value in inputs]
            raise ValueError(f"linear needs matrices of known width, not {', '.join(shapes)}")
        dtype = inputs[0].dtype
        self._kernel = tf.get_variable(
            "kernel", [sum(map(int, widths)), output_size], dtype, initializer=kernel_initializer
        )
        self._bias = None
        if build_bias:
            start = bias_initializer or tf.zeros_initializer(dtype=dtype)
            self._bias = tf.get_variable("bias", [output_size], dtype, initializer=start)

    def __call__(self, args: Any) -> Any:
        """The map of one matrix or a list of them."""
        inputs = _as_list(args)
        product = tf.matmul(inputs[0] if len(inputs) == 1 else tf.concat(inputs, 1), self._kernel)
        return product if self._bias is None else tf.nn.bias_add(product, self._bias)


def _as_list(args: Any) -> Sequence[Any]:
    return list(args) if isinstance(args, (list, tuple)) else [args]
