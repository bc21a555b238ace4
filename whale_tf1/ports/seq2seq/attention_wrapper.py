"""An RNN cell that attends to one or more memories."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["AttentionWrapper", "AttentionWrapperState"]


class AttentionWrapperState(
    collections.namedtuple(
        "AttentionWrapperState",
        ("cell_state", "attention", "time", "alignments", "alignment_history", "attention_state"),
    )
):
    """State of an ``AttentionWrapper``; the last three fields are tuples when there are several mechanisms."""

    def clone(self, **kwargs: Any) -> AttentionWrapperState:
        """A copy with some fields replaced, keeping static shapes that the new values lack."""

        def keep_shape(old: Any, new: Any) -> Any:
            if isinstance(old, tf.Tensor) and isinstance(new, tf.Tensor):
                new.set_shape(old.shape)
            return new

        return tf.nest.map_structure(keep_shape, self, self._replace(**kwargs))


class AttentionWrapper(tf.nn.rnn_cell.RNNCell):
    """Runs a cell on its input joined with the last attention, then attends with the cell's output."""

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: int | Sequence[int] | None = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Any, Any], Any] | None = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
    ) -> None:
        """Takes a cell, one or several mechanisms, and what turns (output, context) into attention.

        Raises:
            ValueError: numbers of layers and mechanisms differ, or both ways to name a layer are used.
        """
        super().__init__(name=name)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._mechanisms = tuple(attention_mechanism) if self._is_multi else (attention_mechanism,)
        if attention_layer_size is not None and attention_layer is not None:
            raise ValueError("give attention_layer_size or attention_layer, not both")
        self._layers: tuple[Any, ...] = (None,) * len(self._mechanisms)
        if attention_layer_size is not None:
            sizes = attention_layer_size if isinstance(attention_layer_size, (list, tuple)) else (attention_layer_size,)
            self._layers = tuple(
                tf.layers.Dense(size, name="attention_layer", use_bias=False, dtype=mechanism.dtype)
                for size, mechanism in zip(sizes, self._mechanisms)
            )
            if len(sizes) != len(self._mechanisms):
                raise ValueError(f"{len(sizes)} attention layer sizes for {len(self._mechanisms)} mechanisms")
        elif attention_layer is not None:
            self._layers = tuple(attention_layer) if isinstance(attention_layer, (list, tuple)) else (attention_layer,)
            if len(self._layers) != len(self._mechanisms):
                raise ValueError(f"{len(self._layers)} attention layers for {len(self._mechanisms)} mechanisms")
        self._attention_size = sum(
            _context_size(mechanism, layer, cell) for mechanism, layer in zip(self._mechanisms, self._layers)
        )
        self._cell = cell
        self._cell_input_fn = cell_input_fn or (lambda inputs, attention: tf.concat([inputs, attention], -1))
        self._output_attention = output_attention
        self._keep_history = alignment_history
        self._initial_cell_state = initial_cell_state

    @property
    def output_size(self) -> Any:
        """Size of the attention, or of the cell's output."""
        return self._attention_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        """Sizes of the fields of the state."""
        sizes = self._pack(mechanism.alignments_size for mechanism in self._mechanisms)
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            time=tf.TensorShape([]),
            attention=self._attention_size,
            alignments=sizes,
            attention_state=self._pack(mechanism.state_size for mechanism in self._mechanisms),
            alignment_history=sizes if self._keep_history else self._pack(() for _ in self._mechanisms),
        )

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        """The first state: the given or zero cell state, no attention yet."""
        with tf.name_scope(None, type(self).__name__ + "ZeroState", [batch_size]):
            cell_state = self._initial_cell_state
            if cell_state is None:
                cell_state = self._cell.zero_state(batch_size, dtype)
            # identity: a caller may feed or replace the pieces without touching the encoder's tensors.
            cell_state = tf.nest.map_structure(tf.identity, cell_state)
            return AttentionWrapperState(
                cell_state=cell_state,
                time=tf.zeros([], tf.int32),
                attention=tf.zeros(tf.stack([batch_size, self._attention_size]), dtype),
                alignments=self._pack(m.initial_alignments(batch_size, dtype) for m in self._mechanisms),
                attention_state=self._pack(m.initial_state(batch_size, dtype) for m in self._mechanisms),
                alignment_history=self._pack(
                    tf.TensorArray(dtype, size=0, dynamic_size=True) if self._keep_history else ()
                    for _ in self._mechanisms
                ),
            )

    def call(self, inputs: Any, state: AttentionWrapperState) -> tuple[Any, AttentionWrapperState]:
        """One step.

        Raises:
            TypeError: ``state`` is not an ``AttentionWrapperState``: begin with ``zero_state``.
        """
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(f"state must be an AttentionWrapperState from zero_state, not {type(state).__name__}")
        output, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        attentions, alignments, states, histories = [], [], [], []
        columns = zip(self._mechanisms, self._layers, self._unpack(state.attention_state))
        for (mechanism, layer, previous), history in zip(columns, self._unpack(state.alignment_history)):
            weights, next_state = mechanism(output, state=previous)
            context = tf.squeeze(tf.matmul(tf.expand_dims(weights, 1), mechanism.values), axis=1)
            attentions.append(context if layer is None else layer(tf.concat([output, context], 1)))
            alignments.append(weights)
            states.append(next_state)
            histories.append(history.write(state.time, weights) if self._keep_history else ())
        attention = tf.concat(attentions, 1)
        next_state = AttentionWrapperState(
            cell_state=cell_state,
            time=state.time + 1,
            attention=attention,
            alignments=self._pack(alignments),
            attention_state=self._pack(states),
            alignment_history=self._pack(histories),
        )
        return (attention if self._output_attention else output), next_state

    def _pack(self, values: Any) -> Any:
        values = tuple(values)
        return values if self._is_multi else values[0]

    def _unpack(self, value: Any) -> tuple[Any, ...]:
        return value if self._is_multi else (value,)


def _context_size(mechanism: Any, layer: Any, cell: Any) -> int:
    depth = tf.dimension_value(mechanism.values.shape[-1])
    if layer is None:
        return depth
    shape = layer.compute_output_shape([None, cell.output_size + depth])
    return tf.dimension_value(tf.TensorShape(shape)[-1])
