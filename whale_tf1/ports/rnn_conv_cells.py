"""Convolutional LSTM (Shi et al., 2015) in one, two and three dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["Conv1DLSTMCell", "Conv2DLSTMCell", "Conv3DLSTMCell", "ConvLSTMCell"]

_OPERATIONS = {1: ("conv1d", "NWC"), 2: ("conv2d", "NHWC"), 3: ("conv3d", "NDHWC")}


class ConvLSTMCell(tf.nn.rnn_cell.RNNCell):
    """An LSTM whose products are convolutions; state and output are images of ``output_channels``."""

    def __init__(
        self,
        conv_ndims: int,
        input_shape: Sequence[int],
        output_channels: int,
        kernel_shape: Sequence[int],
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: Any = None,
        name: str = "conv_lstm_cell",
    ) -> None:
        """Takes the shape of the inputs without the batch dim, channels last.

        Raises:
            ValueError: ``input_shape`` does not have ``conv_ndims`` dims and channels.
        """
        super().__init__(name=name)
        if conv_ndims not in _OPERATIONS or len(input_shape) != conv_ndims + 1:
            raise ValueError(f"input_shape {list(input_shape)} must be {conv_ndims} dims (1 to 3) and the channels")
        self._dims = conv_ndims
        self._input_shape = list(input_shape)
        self._channels = output_channels
        self._kernel_shape = list(kernel_shape)
        self._use_bias = use_bias
        self._skip = skip_connection
        self._forget_bias = forget_bias
        self._initializers = initializers
        image = [*self._input_shape[:-1]]
        self._image = tf.TensorShape([*image, output_channels])
        visible = output_channels + (self._input_shape[-1] if skip_connection else 0)
        self._visible = tf.TensorShape([*image, visible])

    @property
    def state_size(self) -> Any:
        """Memory and output, both images."""
        return tf.nn.rnn_cell.LSTMStateTuple(self._image, self._image)

    @property
    def output_size(self) -> Any:
        """The output image, with the input's channels when there is a skip connection."""
        return self._visible

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step; the variable ``kernel`` holds the filters of i, j, f, o side by side."""
        c, h = state
        joined = tf.concat([inputs, h], axis=-1)
        dtype = joined.dtype
        shape = [*self._kernel_shape, tf.dimension_value(joined.shape[-1]), 4 * self._channels]
        gates = self._convolve(joined, tf.get_variable("kernel", shape, dtype, initializer=self._initializers))
        if self._use_bias:
            start = tf.zeros_initializer()
            gates += tf.get_variable("biases", [4 * self._channels], dtype, initializer=start)
        i, j, f, o = tf.split(gates, 4, axis=-1)
        c = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        output = tf.concat([h, inputs], axis=-1) if self._skip else h
        return output, tf.nn.rnn_cell.LSTMStateTuple(c, h)

    def _convolve(self, value: Any, kernel: Any) -> Any:
        name, data_format = _OPERATIONS[self._dims]
        strides: Any = 1 if self._dims == 1 else [1] * (self._dims + 2)
        return getattr(tf.nn, name)(value, kernel, strides, "SAME", data_format=data_format)


class Conv1DLSTMCell(ConvLSTMCell):
    """Over sequences ``[batch, width, channels]``."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """Over images ``[batch, height, width, channels]``."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """Over volumes ``[batch, depth, height, width, channels]``."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=3, name=name, **kwargs)
