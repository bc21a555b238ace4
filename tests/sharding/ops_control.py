"""Loops, conditionals, and the containers that loops use."""

from __future__ import annotations

from typing import Any

from tests.sharding.rows import Inputs, Row

SEQUENCE = (3, 4)


def _cond(tf: Any, predicate: Any, i: Inputs) -> Any:
    return tf.cond(predicate, lambda: tf.square(i.x), lambda: i.x + i.y)


CONDITIONALS = [
    Row("Switch: by a sum", lambda tf, i: _cond(tf, tf.reduce_sum(i.x) > 0, i)),
    Row("Switch: by a maximum", lambda tf, i: _cond(tf, tf.reduce_max(i.y) > 100, i)),
    Row("Switch: by any sample", lambda tf, i: _cond(tf, tf.reduce_any(i.mask), i)),
    Row("Switch: by the count", lambda tf, i: _cond(tf, tf.shape(i.x)[0] > 3, i)),
    Row("Switch: by a weight", lambda tf, i: _cond(tf, i.w[0] > 0.1, i)),
    Row(
        "Switch: sums within",
        lambda tf, i: tf.cond(i.w[0] > 0.1, lambda: tf.reduce_sum(i.x), lambda: tf.reduce_mean(i.y)),
    ),
    Row("Switch: pieces or whole", lambda tf, i: tf.cond(i.w[0] > 0.1, lambda: i.x, lambda: tf.zeros([i.b, 4]))),
    Row(
        "Switch: sum of squares by a sum",
        lambda tf, i: tf.reduce_sum(tf.square(_cond(tf, tf.reduce_mean(i.y) > 0, i)), 0),
    ),
    Row(
        "Merge: a branch of one row",
        lambda tf, i: tf.cond(i.w[0] > 0.1, lambda: tf.expand_dims(i.w, 0), lambda: i.x) * i.y,
        whole=("Merge", "Sum", "Reshape"),
    ),
    Row(
        "Merge: a branch of one row, not taken",
        lambda tf, i: tf.cond(i.w[0] > 0.1, lambda: i.x, lambda: tf.expand_dims(i.w, 0)) * i.y,
        whole=("Merge", "Sum", "Reshape"),
    ),
    Row(
        "Merge: a branch of some rows",
        lambda tf, i: tf.cond(i.w[0] > 0.1, lambda: tf.boolean_mask(i.x, i.mask), lambda: i.x),
        whole=("Merge", "GatherV2", "Where", "Reshape"),
    ),
    Row(
        "Merge: a branch of unknown rank",
        lambda tf, i: tf.cond(i.w[0] > 0.1, lambda: tf.reduce_sum(_open(tf, i), 1), lambda: tf.squeeze(_open(tf, i))),
        sample=(3, 4),
        whole=("Squeeze", "Merge"),
    ),
    Row(
        "Merge: a branch for sequences of length one",
        lambda tf, i: tf.cond(
            tf.equal(tf.shape(_open(tf, i))[1], 1),
            lambda: tf.squeeze(_open(tf, i), [1]),
            lambda: tf.reduce_max(_open(tf, i), 1),
        ),
        sample=(3, 4),
    ),
    Row(
        "Switch: nested", lambda tf, i: tf.cond(i.w[0] > 0.1, lambda: _cond(tf, tf.reduce_sum(i.y) > 0, i), lambda: i.y)
    ),
    Row(
        "Switch: case",
        lambda tf, i: tf.case(
            [(tf.reduce_sum(i.y) > 1e3, lambda: i.y), (i.w[0] > 0.1, lambda: i.x * 2.0)], default=lambda: i.x
        ),
    ),
]


def _open(tf: Any, i: Inputs) -> Any:
    """A sequence of a length that is not known before the run."""
    length = tf.shape(tf.where(i.w > 0.1))[0] - 1
    return i.x[:, :length]


def _loop(tf: Any, i: Inputs, steps: Any) -> Any:
    return tf.while_loop(lambda n, h: n < steps, lambda n, h: (n + 1, tf.tanh(h * i.w + i.y)), (0, i.x))[1]


def _unrolled(tf: Any, i: Inputs) -> Any:
    """A recurrent loop over a TensorArray of steps, as dynamic_rnn makes it."""
    steps = tf.TensorArray(tf.float32, 3).unstack(tf.transpose(i.x, [1, 0, 2]))
    outputs = tf.TensorArray(tf.float32, 3)

    def body(n: Any, h: Any, array: Any) -> tuple[Any, Any, Any]:
        h = tf.tanh(steps.read(n) + h * i.w)
        return n + 1, h, array.write(n, h)

    _, last, outputs = tf.while_loop(lambda n, h, array: n < 3, body, (0, tf.zeros([i.b, 4]), outputs))
    return last, tf.transpose(outputs.stack(), [1, 0, 2])


def _tanh_loop(tf: Any, start: Any) -> Any:
    return tf.while_loop(lambda n, h: n < 2, lambda n, h: (n + 1, tf.tanh(h)), (0, start))[1]


def _summing(tf: Any, i: Inputs) -> Any:
    """A loop whose body reads a mean over the batch: its copies exchange values."""
    return tf.while_loop(lambda n, h: n < 2, lambda n, h: (n + 1, h - tf.reduce_mean(h, 0)), (0, tf.square(i.x)))[1]


def _largest(tf: Any, i: Inputs) -> Any:
    """A loop that carries a maximum over the batch, and hands it to no copy."""

    def body(n: Any, m: Any, h: Any) -> tuple[Any, Any, Any]:
        h = tf.tanh(h)
        return n + 1, tf.maximum(m, tf.reduce_max(h)), h

    return tf.while_loop(lambda n, m, h: n < 3, body, (0, 0.0, i.x))[1:]


def _counting(tf: Any, i: Inputs) -> Any:
    return tf.while_loop(lambda n, m, h: n < 3, lambda n, m, h: (n + 1, m + tf.reduce_mean(h), h + 1), (0, 0, i.ids))[
        1:
    ]


def _decoding(tf: Any, i: Inputs) -> Any:
    def body(n: Any, h: Any) -> tuple[Any, Any]:
        return n + 1, h + tf.cast(tf.decode_raw(tf.as_string(i.ids, width=3), tf.uint8), tf.int32)

    return tf.while_loop(lambda n, h: n < 3, body, (0, tf.zeros([i.b, 3], tf.int32)))[1]


def _normalising(tf: Any, i: Inputs) -> Any:
    def body(n: Any, h: Any) -> tuple[Any, Any]:
        return n + 1, tf.nn.fused_batch_norm(h, i.w, i.w)[0]

    return tf.while_loop(lambda n, h: n < 2, body, (0, tf.reshape(i.x, [-1, 1, 1, 4])))[1]


def _accumulating(tf: Any, i: Inputs) -> Any:
    return tf.while_loop(lambda n, h: n < 2, lambda n, h: (n + 1, tf.tanh(tf.cumsum(h, 0))), (0, i.x))[1]


def _mixed(tf: Any, i: Inputs) -> Any:
    array = tf.TensorArray(tf.float32, 2, infer_shape=False).write(0, i.x).write(1, tf.expand_dims(i.w, 0))
    return array.read(0) * i.y, array.read(1) * i.y


def _sized(tf: Any, i: Inputs) -> Any:
    array = tf.TensorArray(tf.float32, 3).unstack(tf.transpose(i.x, [1, 0, 2]))
    return tf.cast(tf.raw_ops.TensorArraySizeV3(handle=array.handle, flow_in=array.flow), tf.float32) * i.x


def _closed(tf: Any, i: Inputs) -> Any:
    array = tf.TensorArray(tf.float32, 3).unstack(tf.transpose(i.x, [1, 0, 2]))
    last = array.read(2)
    with tf.control_dependencies([last]), tf.control_dependencies([array.close()]):
        return last * i.y[:, 0]


def _rnn(tf: Any, i: Inputs, time_major: bool, lengths: bool) -> Any:
    data = tf.transpose(i.x, [1, 0, 2]) if time_major else i.x
    cell = make_cell(tf, i.w)
    made = tf.nn.dynamic_rnn(
        cell, data, tf.minimum(i.ids, 3) if lengths else None, tf.zeros([i.b, 4]), time_major=time_major
    )
    return made


def make_cell(tf: Any, w: Any) -> Any:
    """A recurrent cell of four units with the weights ``w``."""

    class Cell(tf.nn.rnn_cell.RNNCell):
        """The smallest recurrent cell."""

        state_size = 4
        output_size = 4

        def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
            h = tf.tanh(inputs + state * w)
            return h, h

    return Cell()


LOOPS = [
    Row("While: fixed steps", lambda tf, i: _loop(tf, i, 3)),
    Row("While: steps from the batch", lambda tf, i: _loop(tf, i, tf.reduce_max(i.ids) + 1)),
    Row("While: steps from lengths' sum", lambda tf, i: _loop(tf, i, tf.minimum(tf.reduce_sum(i.ids), 4))),
    Row(
        "While: starts from zeros",
        lambda tf, i: tf.while_loop(lambda n, h: n < 2, lambda n, h: (n + 1, h * 0.5 + i.x), (0, tf.zeros_like(i.y)))[
            1
        ],
    ),
    Row(
        "While: starts from zeros by count",
        lambda tf, i: tf.while_loop(lambda n, h: n < 2, lambda n, h: (n + 1, h * 0.5 + i.x), (0, tf.zeros([i.b, 4])))[
            1
        ],
    ),
    Row(
        "While: carries a weight",
        lambda tf, i: tf.while_loop(lambda n, h: n < 2, lambda n, h: (n + 1, h * 0.5), (0, i.w))[1] * i.x,
    ),
    Row(
        "While: carries a sum",
        lambda tf, i: _tanh_loop(tf, tf.reduce_sum(i.x, 0)),
        whole=("Merge",),
    ),
    Row("While: batch on dim 1", lambda tf, i: _tanh_loop(tf, tf.transpose(i.x))),
    Row("While: reads a sum", lambda tf, i: _summing(tf, i)),
    Row("While: carries a maximum", lambda tf, i: _largest(tf, i)),
    Row("While: carries a mean of integers", lambda tf, i: _counting(tf, i)),
    Row("While: decodes", lambda tf, i: _decoding(tf, i)),
    Row("While: batch norm", lambda tf, i: _normalising(tf, i), gradient=False),
    Row("While: accumulates along the batch", lambda tf, i: _accumulating(tf, i)),
    Row("TensorArrayV3", lambda tf, i: _unrolled(tf, i), SEQUENCE),
    Row(
        "TensorArrayV3: elements of several sizes",
        lambda tf, i: _mixed(tf, i),
        whole=("TensorArrayWriteV3", "TensorArrayReadV3"),
    ),
    Row(
        "TensorArrayV3: map over time",
        lambda tf, i: tf.transpose(tf.map_fn(lambda h: tf.tanh(h) * i.w, tf.transpose(i.x, [1, 0, 2])), [1, 0, 2]),
        SEQUENCE,
    ),
    Row(
        "TensorArrayV3: scan over time",
        lambda tf, i: tf.scan(lambda a, h: tf.tanh(a * 0.5 + h), tf.transpose(i.x, [1, 0, 2]), tf.zeros([i.b, 4])),
        SEQUENCE,
    ),
    Row(
        "TensorArrayV3: fold over time",
        lambda tf, i: tf.foldl(lambda a, h: a * 0.5 + h, tf.transpose(i.x, [1, 0, 2])),
        SEQUENCE,
    ),
    Row(
        "TensorArrayConcatV3",
        lambda tf, i: tf.TensorArray(tf.float32, 3, infer_shape=False).unstack(tf.transpose(i.x, [2, 1, 0])).concat(),
        (3, 3),
    ),
    Row(
        "TensorArraySplitV3",
        lambda tf, i: tf.TensorArray(tf.float32, 2, infer_shape=False).split(tf.transpose(i.x), [1, 3]).read(1),
    ),
    Row("TensorArraySizeV3", lambda tf, i: _sized(tf, i), SEQUENCE),
    Row("TensorArrayCloseV3", lambda tf, i: _closed(tf, i), SEQUENCE, gradient=False),
    Row("TensorArrayV3: rnn", lambda tf, i: _rnn(tf, i, False, False), SEQUENCE),
    Row("TensorArrayV3: rnn with lengths", lambda tf, i: _rnn(tf, i, False, True), SEQUENCE),
    Row("TensorArrayV3: time-major rnn", lambda tf, i: _rnn(tf, i, True, True), SEQUENCE),
]


def _list(tf: Any, i: Inputs) -> Any:
    handle = tf.raw_ops.TensorListReserve(element_shape=[-1, 4], num_elements=2, element_dtype=tf.float32)
    for index, item in enumerate((i.x, i.y)):
        handle = tf.raw_ops.TensorListSetItem(input_handle=handle, index=index, item=item)
    return handle


def _pushed(tf: Any, i: Inputs) -> Any:
    handle = tf.raw_ops.EmptyTensorList(element_shape=[-1, 4], max_num_elements=4, element_dtype=tf.float32)
    for item in (i.x, i.y):
        handle = tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=item)
    return handle


LISTS = [
    Row(
        "TensorListReserve",
        lambda tf, i: tf.raw_ops.TensorListStack(
            input_handle=_list(tf, i), element_shape=[-1, 4], element_dtype=tf.float32, num_elements=2
        ),
    ),
    Row(
        "TensorListGetItem",
        lambda tf, i: (
            tf.raw_ops.TensorListGetItem(
                input_handle=_list(tf, i), index=1, element_shape=[-1, 4], element_dtype=tf.float32
            )
            * i.x
        ),
    ),
    Row(
        "TensorListGather",
        lambda tf, i: tf.raw_ops.TensorListGather(
            input_handle=_list(tf, i), indices=[1, 0], element_shape=[-1, 4], element_dtype=tf.float32
        ),
    ),
    Row(
        "TensorListPopBack",
        lambda tf, i: (
            tf.raw_ops.TensorListPopBack(input_handle=_pushed(tf, i), element_shape=[-1, 4], element_dtype=tf.float32)[
                1
            ]
            * i.x
        ),
    ),
    Row("TensorListLength", lambda tf, i: tf.raw_ops.TensorListLength(input_handle=_pushed(tf, i))),
    Row(
        "TensorListElementShape",
        lambda tf, i: tf.raw_ops.TensorListElementShape(input_handle=_pushed(tf, i), shape_type=tf.int32),
    ),
    Row(
        "TensorListResize",
        lambda tf, i: tf.raw_ops.TensorListGetItem(
            input_handle=tf.raw_ops.TensorListResize(input_handle=_list(tf, i), size=1),
            index=0,
            element_shape=[-1, 4],
            element_dtype=tf.float32,
        ),
    ),
    Row(
        "TensorListFromTensor",
        lambda tf, i: tf.raw_ops.TensorListGetItem(
            input_handle=tf.raw_ops.TensorListFromTensor(tensor=tf.stack([i.x, i.y]), element_shape=[-1, 4]),
            index=1,
            element_shape=[-1, 4],
            element_dtype=tf.float32,
        ),
    ),
    Row(
        "OptionalGetValue",
        lambda tf, i: _optional_value(tf, i, tf.raw_ops.OptionalFromValue(components=[i.x])),
        gradient=False,
    ),
    Row(
        "OptionalHasValue",
        lambda tf, i: (
            tf.raw_ops.OptionalHasValue(optional=tf.raw_ops.OptionalFromValue(components=[i.x])),
            tf.raw_ops.OptionalHasValue(optional=tf.raw_ops.OptionalNone()),
        ),
    ),
    Row("StackV2", lambda tf, i: _stack(tf, i)),
]


def _optional_value(tf: Any, i: Inputs, optional: Any) -> Any:
    (value,) = tf.raw_ops.OptionalGetValue(optional=optional, output_types=[tf.float32], output_shapes=[i.x.shape])
    return value * i.y


def _stack(tf: Any, i: Inputs) -> Any:
    handle = tf.raw_ops.StackV2(max_size=2, elem_type=tf.float32)
    pushed = tf.raw_ops.StackPushV2(handle=handle, elem=i.x)
    with tf.control_dependencies([pushed]):
        popped = tf.raw_ops.StackPopV2(handle=handle, elem_type=tf.float32)
    with tf.control_dependencies([popped]):
        closed = tf.raw_ops.StackCloseV2(handle=handle)
    with tf.control_dependencies([closed]):
        return popped * i.y


TABLES = {"conditionals": CONDITIONALS, "loops": LOOPS, "lists": LISTS}
