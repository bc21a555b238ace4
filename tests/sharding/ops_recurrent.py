"""Recurrent cells, and layers of them, that are one op, with their gradients; losses over sequences."""

from __future__ import annotations

from typing import Any

from tests.sharding.rows import Inputs, Row


def _weights(tf: Any, i: Inputs, peephole: bool) -> dict[str, Any]:
    """Weights of an LSTM whose input and state have 4 numbers."""
    kernel = tf.reshape(tf.sin(tf.range(128.0)), [8, 16]) * 0.5 + tf.tile(i.w, [4])
    return dict(w=kernel, wci=i.w, wcf=0.5 * i.w, wco=i.w - 1.0, b=tf.tile(i.w, [4]) * 0.3, use_peephole=peephole)


def _layer(tf: Any, i: Inputs, op: Any, peephole: bool = True, steps: int = 3) -> Any:
    """A layer over time from a state that depends on the samples, and one from zeros on its outputs."""
    x = tf.transpose(i.x, [1, 0, 2])
    weights = _weights(tf, i, peephole)
    steps = tf.constant(steps, tf.int64)
    first = op(seq_len_max=steps, x=x, cs_prev=i.x[:, 0], h_prev=i.y[:, 1] * 0.5, **weights)
    zeros = tf.zeros([i.b, 4])
    second = op(seq_len_max=steps, x=first.h, cs_prev=zeros, h_prev=zeros, **weights)
    return second.h, second.cs[-1]


def _layer_gradient(tf: Any, i: Inputs) -> Any:
    """What tf.gradients asks of the older gradient op, asked of the newer one."""
    inputs = dict(seq_len_max=tf.constant(3, tf.int64), x=tf.transpose(i.x, [1, 0, 2]), **_weights(tf, i, True))
    inputs.update(cs_prev=i.x[:, 0], h_prev=i.y[:, 1])
    made = tf.raw_ops.BlockLSTMV2(**inputs)
    return tuple(tf.raw_ops.BlockLSTMGradV2(**inputs, **made._asdict(), cs_grad=made.cs, h_grad=made.h - 0.5))


def _lstm_cell(tf: Any, i: Inputs) -> Any:
    return tf.raw_ops.LSTMBlockCell(x=i.x, cs_prev=i.y, h_prev=i.y * 0.5, **_weights(tf, i, True))[1:]


def _lstm_cell_gradient(tf: Any, i: Inputs) -> Any:
    gates = {name: tf.sigmoid(i.x * k) for k, name in enumerate(("i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad"))}
    weights = _weights(tf, i, True)
    return tuple(tf.raw_ops.LSTMBlockCellGrad(x=i.x, cs_prev=i.y, h_prev=i.y * 0.5, **weights, **gates))


def _gru(tf: Any, i: Inputs) -> dict[str, Any]:
    kernel = tf.reshape(tf.cos(tf.range(64.0)), [8, 8]) * 0.5
    return dict(x=i.x, h_prev=i.y, w_ru=kernel, w_c=kernel[:, :4], b_ru=tf.ones([8]), b_c=i.w)


def _gru_gradient(tf: Any, i: Inputs) -> Any:
    gates = {name: tf.sigmoid(i.x * k) for k, name in enumerate(("r", "u", "c", "d_h"))}
    return tuple(tf.raw_ops.GRUBlockCellGrad(**_gru(tf, i), **gates))


RECURRENT = [
    Row("BlockLSTM", lambda tf, i: _layer(tf, i, tf.raw_ops.BlockLSTM), (3, 4)),
    Row("BlockLSTM: without peepholes", lambda tf, i: _layer(tf, i, tf.raw_ops.BlockLSTM, False), (3, 4)),
    Row(
        "BlockLSTM: of fewer steps", lambda tf, i: _layer(tf, i, tf.raw_ops.BlockLSTM, steps=2), (3, 4), gradient=False
    ),
    Row("BlockLSTMV2", lambda tf, i: _layer(tf, i, tf.raw_ops.BlockLSTMV2), (3, 4)),
    Row("BlockLSTMGradV2", _layer_gradient, (3, 4), gradient=False),
    Row(
        "BlockLSTM: time is the batch",
        lambda tf, i: (
            tf.raw_ops.BlockLSTM(
                seq_len_max=tf.cast(i.b, tf.int64),
                x=i.x,
                cs_prev=tf.zeros([3, 4]),
                h_prev=tf.zeros([3, 4]),
                **_weights(tf, i, True),
            ).h
        ),
        (3, 4),
        whole=("BlockLSTM", "BlockLSTMGrad"),
    ),
    Row(
        "LSTMBlockCell",
        _lstm_cell,
        gradient=False,
    ),
    Row("LSTMBlockCellGrad", _lstm_cell_gradient, gradient=False),
    Row("GRUBlockCell", lambda tf, i: tf.raw_ops.GRUBlockCell(**_gru(tf, i))[3], gradient=False),
    Row("GRUBlockCellGrad", _gru_gradient, gradient=False),
]


def _ctc(tf: Any, i: Inputs, x: Any) -> Any:
    """The loss of ``[time, samples, 4]`` where each sample has one or two labels."""
    samples = tf.reshape(tf.range(i.b), [-1, 1])
    second = tf.where(i.mask)
    first = tf.pad(samples, [[0, 0], [0, 1]])
    indices = tf.concat([tf.cast(first, tf.int64), tf.pad(second, [[0, 0], [0, 1]], constant_values=1)], 0)
    values = tf.concat([i.ids % 3, tf.gather(i.ids % 3, tf.reshape(second, [-1]))], 0)
    labels = tf.sparse_reorder(tf.SparseTensor(indices, values, tf.cast(tf.stack([i.b, 2]), tf.int64)))
    return tf.nn.ctc_loss(labels, x, tf.tile([5], [i.b]), time_major=True)


LOSSES = [
    Row(
        "CTCLoss",
        lambda tf, i: _ctc(tf, i, tf.transpose(i.x, [1, 0, 2])),
        (6, 4),
        whole=("Where",),
    ),
    Row(
        "CTCLoss: of one label each",
        lambda tf, i: tf.nn.ctc_loss(
            tf.SparseTensor([[n, 0] for n in range(5)], [2, 0, 1, 2, 1], [5, 1]), i.x, [6] * 5, time_major=False
        ),
        (6, 4),
        modes=("static",),
    ),
]

TABLES = {"recurrent": RECURRENT, "sequence losses": LOSSES}
