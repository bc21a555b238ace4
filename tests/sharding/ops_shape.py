"""Ops that ask for shapes or change them."""

from __future__ import annotations

from typing import Any

from tests.sharding.rows import FED, Inputs, Row


def _open(tf: Any, i: Inputs) -> Any:
    """Sequences whose length is not known before the run."""
    return i.x[:, : tf.reduce_max(i.ids) + 3]


def _split_sizes(tf: Any, i: Inputs) -> Any:
    samples, steps, width = (tf.reshape(size, []) for size in tf.split(tf.shape(i.x), 3))
    return tf.reshape(tf.tanh(tf.reshape(i.x, [samples * steps, width])), [samples, steps, -1])


def _padded(tf: Any, sequences: Any, rate: int) -> Any:
    """Zeros behind sequences, for a length that the rate divides."""
    return tf.pad(sequences, [[0, 0], [0, rate - 1 - (tf.shape(sequences)[1] + rate - 1) % rate], [0, 0]])


def _dilated(tf: Any, sequences: Any, rate: int = 2) -> Any:
    """A convolution over every so many steps: the others go into the batch, in front of it, and come back."""
    samples, _, width = tf.unstack(tf.shape(sequences))
    blocks = tf.transpose(tf.reshape(sequences, [-1, rate, width]), [1, 0, 2])
    inside = tf.tanh(tf.reshape(blocks, [samples * rate, -1, width]))[:, 1:]
    back = tf.transpose(tf.reshape(inside, [rate, -1, width]), [1, 0, 2])
    return tf.reshape(back, [tf.shape(inside)[0] // rate, -1, width])


SHAPES = [
    Row("Shape", lambda tf, i: tf.shape(i.x)),
    Row("Shape: int64", lambda tf, i: tf.shape(i.x, out_type=tf.int64)),
    Row("Shape: batch on dim 1", lambda tf, i: tf.shape(tf.transpose(i.x))),
    Row("Shape: of merged dims", lambda tf, i: tf.shape(tf.reshape(i.x, [-1, 4])), sample=(3, 4)),
    Row("Shape: of a vector", lambda tf, i: tf.shape(i.ids)),
    Row("Shape: of both halves", lambda tf, i: tf.shape(tf.concat([i.x, i.y], 0)), modes=FED),
    Row("Shape: of a sum", lambda tf, i: tf.shape(tf.reduce_sum(i.x, 0))),
    Row("ShapeN", lambda tf, i: tf.shape_n([i.x, i.y, tf.transpose(i.x), i.w])),
    Row("Size", lambda tf, i: tf.size(i.x)),
    Row("Size: divides a sum", lambda tf, i: tf.reduce_sum(i.x) / tf.cast(tf.size(i.x), tf.float32)),
    Row("Size: raw", lambda tf, i: tf.raw_ops.Size(input=i.x)),
    Row("Rank", lambda tf, i: tf.raw_ops.Rank(input=i.x)),
]

RESHAPES = [
    Row("Reshape: same", lambda tf, i: tf.reshape(i.x, [-1, 4])),
    Row("Reshape: by shape", lambda tf, i: tf.reshape(i.x, tf.shape(i.y))),
    Row("Reshape: splits a dim", lambda tf, i: tf.reshape(i.x, [-1, 2, 2])),
    Row("Reshape: by count", lambda tf, i: tf.reshape(i.x, [i.b, 2, 2])),
    Row("Reshape: by count, rest open", lambda tf, i: tf.reshape(i.x, [i.b, -1])),
    Row("Reshape: by count, middle open", lambda tf, i: tf.reshape(i.x, [i.b, -1, 2])),
    Row("Reshape: flat", lambda tf, i: tf.reshape(i.x, [-1])),
    Row("Reshape: flat by size", lambda tf, i: tf.reshape(i.x, [tf.size(i.x)])),
    Row("Reshape: merges batch and time", lambda tf, i: tf.reshape(i.x, [-1, 4]), sample=(3, 4)),
    Row("Reshape: merges by count", lambda tf, i: tf.reshape(i.x, [i.b * 3, 4]), sample=(3, 4)),
    Row(
        "Reshape: merges and splits",
        lambda tf, i: tf.reshape(tf.tanh(tf.reshape(i.x, [-1, 4])), [-1, 3, 4]),
        sample=(3, 4),
    ),
    Row(
        "Reshape: merges and splits by shape",
        lambda tf, i: tf.reshape(tf.tanh(tf.reshape(i.x, [-1, 4])), tf.shape(i.y)),
        sample=(3, 4),
    ),
    Row("Reshape: time major merged", lambda tf, i: tf.reshape(tf.transpose(i.x, [1, 0, 2]), [-1, 4]), sample=(3, 4)),
    Row(
        "Reshape: time major merged and split",
        lambda tf, i: tf.reshape(tf.tanh(tf.reshape(tf.transpose(i.x, [1, 0, 2]), [-1, 4])), [3, -1, 4]),
        sample=(3, 4),
    ),
    Row("Reshape: batch last", lambda tf, i: tf.reshape(tf.transpose(i.x), [2, 2, -1])),
    Row("Reshape: everything merged", lambda tf, i: tf.reshape(tf.transpose(i.x, [1, 0, 2]), [-1]), sample=(3, 4)),
    Row("Reshape: ones around", lambda tf, i: tf.reshape(i.x, [1, -1, 1, 4])),
    Row("Reshape: a column", lambda tf, i: tf.reshape(i.x[:, 0], [-1, 1]) * i.w),
    Row("Reshape: elements in pairs across samples", lambda tf, i: tf.reshape(i.x, [2, -1]), whole=("Reshape",)),
    Row("Reshape: time into the batch", lambda tf, i: _dilated(tf, _padded(tf, i.x, 2)), sample=(3, 4)),
    Row("Reshape: open time into the batch", lambda tf, i: _dilated(tf, _padded(tf, _open(tf, i), 2)), sample=(7, 4)),
    Row("Reshape: sizes split off a shape", _split_sizes, sample=(3, 4)),
    Row("Reshape: heads", lambda tf, i: _heads(tf, i), sample=(3, 4)),
    Row("Reshape: of a sum", lambda tf, i: tf.reshape(tf.reduce_sum(i.x, 0), [2, 2])),
    Row("Reshape: of a whole by count", lambda tf, i: tf.reshape(tf.ones([i.b * 4]), [i.b, 4]) * i.x),
    Row("ExpandDims: last", lambda tf, i: tf.expand_dims(i.x, -1)),
    Row("ExpandDims: first", lambda tf, i: tf.expand_dims(i.x, 0)),
    Row("ExpandDims: middle", lambda tf, i: tf.expand_dims(i.x, 1)),
    Row("ExpandDims: of a sum", lambda tf, i: tf.expand_dims(tf.reduce_sum(i.x, 0), 0)),
    Row("Squeeze: named", lambda tf, i: tf.squeeze(tf.expand_dims(i.x, 1), [1])),
    Row("Squeeze: all", lambda tf, i: tf.squeeze(i.x), sample=(1, 4), modes=("static",)),
    Row("Squeeze: first", lambda tf, i: tf.squeeze(tf.expand_dims(i.x, 0), 0)),
    Row("Squeeze: last", lambda tf, i: tf.squeeze(i.x[:, :1], -1)),
    Row("Transpose", lambda tf, i: tf.transpose(i.x)),
    Row("Transpose: three dims", lambda tf, i: tf.transpose(i.x, [1, 2, 0]), sample=(3, 4)),
    Row("Transpose: of a sum", lambda tf, i: tf.transpose(tf.reduce_sum(i.x, 0)), sample=(3, 4)),
    Row("Transpose: of merged dims", lambda tf, i: tf.transpose(tf.reshape(i.x, [-1, 4])), sample=(3, 4)),
    Row("Tile", lambda tf, i: tf.tile(i.x, [1, 3])),
    Row("Tile: batch", lambda tf, i: tf.tile(i.x, [2, 1])),
    Row("Tile: both", lambda tf, i: tf.tile(i.x, [2, 2])),
    Row("Tile: batch twice", lambda tf, i: tf.tanh(tf.tile(tf.tile(i.x, [2, 1]), [3, 1]))),
    Row("Tile: each sample repeated", lambda tf, i: tf.reshape(tf.tile(tf.expand_dims(i.x, 1), [1, 3, 1]), [-1, 4])),
    Row("Tile: weights by count", lambda tf, i: tf.tile(tf.expand_dims(i.w, 0), [i.b, 1]) * i.x),
    Row("Tile: samples by count", lambda tf, i: tf.tile(i.x, [i.b, 1]), whole=("Tile", "TileGrad")),
    Row("BroadcastTo", lambda tf, i: tf.broadcast_to(tf.expand_dims(i.x, 0), [3, i.b, 4])),
    Row("BroadcastTo: weights", lambda tf, i: tf.broadcast_to(i.w, [i.b, 4]) * i.y),
    Row("BroadcastTo: same shape", lambda tf, i: tf.broadcast_to(i.x, tf.shape(i.y))),
    Row("BroadcastTo: wider", lambda tf, i: tf.broadcast_to(i.x[:, :1], [i.b, 4])),
    Row("Fill", lambda tf, i: tf.fill([i.b, 4], 0.5) * i.x),
    Row("Fill: zeros joined", lambda tf, i: tf.concat([tf.zeros([i.b, 2]), i.x], 1)),
    Row("Fill: by shape", lambda tf, i: tf.fill(tf.shape(i.x), 2.0) + i.x),
    Row("Range: as column", lambda tf, i: tf.cast(tf.expand_dims(tf.range(i.b), 1), tf.float32) * i.x),
    Row("Range: of features", lambda tf, i: tf.cast(tf.range(4), tf.float32) * i.x),
    Row("ReverseV2", lambda tf, i: tf.reverse(i.x, [1])),
    Row("ReverseV2: batch", lambda tf, i: tf.reverse(i.x, [0]), whole=("ReverseV2",)),
    Row("ReverseV2: batch on dim 1", lambda tf, i: tf.reverse(tf.transpose(i.x), [0])),
]

JOINS = [
    Row("Pack", lambda tf, i: tf.stack([i.x, i.y])),
    Row("Pack: middle", lambda tf, i: tf.stack([i.x, i.y], 1)),
    Row("Pack: last", lambda tf, i: tf.stack([i.x, i.y], -1)),
    Row("Pack: with a whole", lambda tf, i: tf.stack([i.x, tf.ones([i.b, 4]) * i.w], 1)),
    Row("Pack: sums", lambda tf, i: tf.stack([tf.reduce_sum(i.x, 0), tf.reduce_sum(i.y, 0)])),
    Row("Pack: a sum and a mean", lambda tf, i: tf.stack([tf.reduce_sum(i.x), tf.reduce_mean(i.y), i.w[0]])),
    Row("Unpack", lambda tf, i: tf.unstack(i.x, axis=1)),
    Row("Unpack: last", lambda tf, i: tf.unstack(i.x, axis=-1), sample=(3, 4)),
    Row("Unpack: time major", lambda tf, i: tf.unstack(tf.transpose(i.x, [1, 0, 2])), sample=(3, 4)),
    Row("Unpack: batch", lambda tf, i: tf.unstack(i.x), modes=("static",), whole=("Unpack",)),
    Row("Unpack: of a sum", lambda tf, i: tf.unstack(tf.reduce_sum(i.x, 0))),
    Row("ConcatV2: features", lambda tf, i: tf.concat([i.x, i.y], 1)),
    Row("ConcatV2: last", lambda tf, i: tf.concat([i.x, i.y, i.x], -1)),
    Row("ConcatV2: batch", lambda tf, i: tf.concat([i.x, i.y], 0), modes=FED),
    Row("ConcatV2: batch, then halves", lambda tf, i: tf.split(tf.tanh(tf.concat([i.x, i.y], 0)), 2), modes=FED),
    Row("ConcatV2: batch thrice", lambda tf, i: tf.concat([i.x, i.y, tf.square(i.x)], 0), modes=FED),
    Row("ConcatV2: doubled batches", lambda tf, i: tf.concat([tf.concat([i.x, i.y], 0), i.x], 0), modes=FED),
    Row(
        "ConcatV2: batch with sums",
        lambda tf, i: tf.concat([i.x, tf.reduce_sum(i.y, 0, keepdims=True)], 0),
        whole=("ConcatV2", "ConcatOffset"),
    ),
    Row("ConcatV2: batch with weights", lambda tf, i: tf.concat([i.x, tf.expand_dims(i.w, 0)], 0), whole=("ConcatV2",)),
    Row("ConcatV2: features with zeros", lambda tf, i: tf.concat([i.x, tf.zeros_like(i.y)], 1)),
    Row(
        "ConcatV2: features with a tiled whole",
        lambda tf, i: tf.concat([i.x, tf.tile(tf.expand_dims(i.w, 0), [i.b, 1])], 1),
    ),
    Row("ConcatV2: sums", lambda tf, i: tf.concat([tf.reduce_sum(i.x, 0), tf.reduce_sum(i.y, 0)], 0)),
    Row("ConcatV2: time major batch", lambda tf, i: tf.concat([tf.transpose(i.x), tf.transpose(i.y)], 1)),
    Row("ConcatV2: doubled batch, reduced", lambda tf, i: tf.reduce_mean(tf.square(tf.concat([i.x, i.y], 0)), 0)),
    Row("ConcatV2: doubled batch, largest", lambda tf, i: tf.reduce_max(tf.concat([i.x, i.y], 0), 0)),
    Row("ConcatV2: labels of both", lambda tf, i: _discriminated(tf, i)),
    Row("Split", lambda tf, i: tf.split(i.x, 2, axis=1)),
    Row("Split: batch", lambda tf, i: tf.split(tf.concat([i.x, i.x], 0)[: i.b * 2], 2)),
    Row("Split: samples", lambda tf, i: tf.split(i.x, 5), modes=("static",), whole=("Split",)),
    Row("Split: of a sum", lambda tf, i: tf.split(tf.reduce_sum(i.x, 0), 2)),
    Row("SplitV", lambda tf, i: tf.split(i.x, [1, 3], axis=1)),
    Row("SplitV: rest open", lambda tf, i: tf.split(i.x, [1, -1], axis=1)),
    Row("SplitV: batch", lambda tf, i: tf.split(i.x, [2, 3]), modes=("static",), whole=("SplitV",)),
    Row("SplitV: doubled batch", lambda tf, i: tf.split(tf.concat([i.x, i.y], 0), [i.b, i.b]), modes=FED),
    Row("SplitV: tripled batch", lambda tf, i: tf.split(tf.concat([i.x, i.y, i.x], 0), [i.b * 2, i.b]), modes=FED),
]

SLICES = [
    Row("Slice: features", lambda tf, i: tf.slice(i.x, [0, 1], [-1, 2])),
    Row("Slice: by count", lambda tf, i: tf.slice(i.x, [0, 1], [i.b, 2])),
    Row("Slice: batch", lambda tf, i: tf.slice(i.x, [0, 0], [1, -1]), whole=("Slice",), modes=FED),
    Row(
        "Slice: half of a doubled batch",
        lambda tf, i: tf.slice(tf.concat([i.x, i.y], 0), [i.b, 0], [i.b, 4]),
        modes=FED,
    ),
    Row(
        "Slice: first half of a doubled batch",
        lambda tf, i: tf.slice(tf.concat([i.x, i.y], 0), [0, 0], [i.b, 4]),
        modes=FED,
    ),
    Row("Slice: from a place known at the run", lambda tf, i: tf.slice(i.x, [0, tf.reduce_max(i.ids) % 3], [-1, 2])),
    Row("Slice: of a length known at the run", lambda tf, i: tf.slice(i.x, [0, 0], [i.b, tf.reduce_max(i.ids) + 1])),
    Row(
        "Slice: samples from a place known at the run",
        lambda tf, i: tf.slice(i.x, [tf.reduce_max(i.ids) * 0, 0], [1, -1]),
        whole=("Slice",),
    ),
    Row("Slice: a random part of each", lambda tf, i: tf.random_crop(i.x, [i.b, 2, 4]), sample=(5, 4)),
    Row("Slice: of a sum", lambda tf, i: tf.slice(tf.reduce_sum(i.x, 0), [1], [2])),
    Row("StridedSlice: features", lambda tf, i: i.x[:, 1:3]),
    Row("StridedSlice: one feature", lambda tf, i: i.x[:, 2]),
    Row("StridedSlice: last feature", lambda tf, i: i.x[:, -1]),
    Row("StridedSlice: all but the last", lambda tf, i: i.x[:, :-1]),
    Row("StridedSlice: every second", lambda tf, i: i.x[:, ::2]),
    Row("StridedSlice: backwards", lambda tf, i: i.x[:, ::-1]),
    Row("StridedSlice: ellipsis", lambda tf, i: i.x[..., 0]),
    Row("StridedSlice: ellipsis in deep", lambda tf, i: i.x[..., 1:, 0], sample=(3, 4)),
    Row("StridedSlice: new axis", lambda tf, i: i.x[:, tf.newaxis, :]),
    Row("StridedSlice: new axis first", lambda tf, i: i.x[tf.newaxis]),
    Row("StridedSlice: new axis and one", lambda tf, i: i.x[:, 1, tf.newaxis]),
    Row("StridedSlice: by count", lambda tf, i: i.x[: i.b, 1:]),
    Row("StridedSlice: last step", lambda tf, i: i.x[:, -1, :], sample=(3, 4)),
    Row("StridedSlice: time major", lambda tf, i: tf.transpose(i.x, [1, 0, 2])[0], sample=(3, 4)),
    Row("StridedSlice: time major, part", lambda tf, i: tf.transpose(i.x, [1, 0, 2])[1:], sample=(3, 4)),
    Row("StridedSlice: first sample", lambda tf, i: i.x[0], whole=("StridedSlice", "StridedSliceGrad")),
    Row(
        "StridedSlice: some samples",
        lambda tf, i: i.x[1:3],
        whole=("StridedSlice", "StridedSliceGrad"),
        modes=("static", "dynamic"),
    ),
    Row("StridedSlice: all but the last sample", lambda tf, i: i.x[:-1], whole=("StridedSlice", "StridedSliceGrad")),
    Row("StridedSlice: samples backwards", lambda tf, i: i.x[::-1], whole=("StridedSlice", "StridedSliceGrad")),
    Row("StridedSlice: second half of a doubled batch", lambda tf, i: tf.concat([i.x, i.y], 0)[i.b :], modes=FED),
    Row("StridedSlice: first half of a doubled batch", lambda tf, i: tf.concat([i.x, i.y], 0)[: i.b], modes=FED),
    Row("StridedSlice: last of three batches", lambda tf, i: tf.concat([i.x, i.y, i.x * 2.0], 0)[-i.b :], modes=FED),
    Row("StridedSlice: all but the last of three", lambda tf, i: tf.concat([i.x, i.y, i.x], 0)[: -i.b], modes=FED),
    Row("StridedSlice: middle of three", lambda tf, i: tf.concat([i.x, i.y, i.x], 0)[i.b : 2 * i.b, 1:], modes=FED),
    Row(
        "StridedSlice: across two batches",
        lambda tf, i: tf.concat([i.x, i.y], 0)[i.b - 1 : i.b + 1],
        whole=("StridedSlice", "StridedSliceGrad"),
    ),
    Row("StridedSlice: up to the longest", _open, sample=(7, 4)),
    Row("StridedSlice: a feature known at the run", lambda tf, i: i.x[:, tf.reduce_max(i.ids)]),
    Row(
        "StridedSlice: from a place known at the run",
        lambda tf, i: i.x[: i.b, tf.reduce_max(i.ids) :, 1:],
        sample=(5, 4),
    ),
    Row(
        "StridedSlice: samples up to a place known at the run",
        lambda tf, i: i.x[: tf.reduce_max(i.ids) * 0 + 1],
        whole=("StridedSlice", "StridedSliceGrad"),
    ),
    Row("StridedSlice: of a sum", lambda tf, i: tf.reduce_sum(i.x, 0)[1:3]),
    Row("StridedSlice: of a sum, one", lambda tf, i: tf.reduce_sum(i.x, 0)[1]),
    Row("StridedSlice: shape", lambda tf, i: tf.shape(i.x)[0]),
    Row("Pad", lambda tf, i: tf.pad(i.x, [[0, 0], [1, 2]])),
    Row("Pad: value", lambda tf, i: tf.pad(i.x, [[0, 0], [1, 2]], constant_values=1.5)),
    Row("Pad: batch", lambda tf, i: tf.pad(i.x, [[1, 0], [0, 0]]), whole=("Pad",)),
    Row("Pad: by count", lambda tf, i: tf.pad(i.x, [[i.b, 0], [1, 2]])),
    Row("Pad: by count, value", lambda tf, i: tf.pad(i.x, [[0, i.b], [0, 0]], constant_values=1.5)),
    Row("MirrorPad: of a sum", lambda tf, i: tf.pad(tf.reduce_sum(i.x, 0), [[1, 2]], "REFLECT")),
    Row("Pad: of a sum", lambda tf, i: tf.pad(tf.reduce_sum(i.x, 0), [[1, 2]])),
    Row("PadV2: of a sum", lambda tf, i: tf.pad(tf.reduce_sum(i.x, 0), [[1, 2]], constant_values=1.5)),
    # Its kernel refuses empty pieces, which only a batch of open size can have.
    Row("MirrorPad: any size", lambda tf, i: tf.pad(i.x, [[0, 0], [1, 2]], "REFLECT"), whole=("MirrorPad",)),
    Row("MirrorPad", lambda tf, i: tf.pad(i.x, [[0, 0], [2, 1]], "SYMMETRIC"), modes=("static", "dynamic")),
    Row("DecodeRaw", lambda tf, i: tf.decode_raw(tf.as_string(i.ids, width=3), tf.uint8)),
    Row(
        "DecodeRaw: reshaped by count",
        lambda tf, i: tf.reshape(tf.decode_raw(tf.as_string(i.ids, width=3), tf.uint8), [tf.size(i.ids), 3, 1]),
    ),
    Row(
        "DecodePaddedRaw",
        lambda tf, i: tf.raw_ops.DecodePaddedRaw(input_bytes=tf.as_string(i.ids), fixed_length=3, out_type=tf.uint8),
    ),
    Row("OneHot", lambda tf, i: tf.one_hot(i.ids, 4) * i.x),
    Row("OneHot: first", lambda tf, i: tf.one_hot(i.ids, 4, axis=0) * tf.transpose(i.x)),
    Row("OneHot: values", lambda tf, i: tf.one_hot(i.ids, 4, 0.9, 0.1) * i.x),
    Row("OneHot: of arg max", lambda tf, i: tf.one_hot(tf.argmax(i.x, 1), 4) * i.x),
    Row("OneHot: by count", lambda tf, i: tf.one_hot(tf.range(i.b), i.b)),
]

RANDOM = [
    Row("RandomUniform", lambda tf, i: tf.random.uniform(tf.shape(i.x), seed=1) * i.x),
    Row("RandomUniform: by count", lambda tf, i: tf.random.uniform([i.b, 1], seed=1) * i.x),
    Row("RandomStandardNormal", lambda tf, i: tf.random.normal(tf.shape(i.x), seed=2) + i.x),
    Row("TruncatedNormal", lambda tf, i: tf.truncated_normal(tf.shape(i.x), seed=3) + i.x),
    Row("RandomUniformInt", lambda tf, i: tf.random.uniform([i.b], maxval=4, dtype=tf.int32, seed=4) + i.ids),
    Row("RandomUniform: of weights", lambda tf, i: tf.random.uniform([4], seed=5) * i.x),
    Row("RandomUniform: dropout", lambda tf, i: tf.nn.dropout(i.x, rate=0.4, seed=6)),
    Row("RandomUniform: dropout of sums", lambda tf, i: tf.nn.dropout(tf.reduce_sum(i.x, 0), rate=0.4, seed=7)),
]

TABLES = {"shapes": SHAPES, "reshapes": RESHAPES, "joins and splits": JOINS, "slices": SLICES, "random": RANDOM}


def _heads(tf: Any, i: Inputs) -> Any:
    """Attention heads moved before the batch, as some scripts do, and back."""
    heads = tf.concat(tf.split(i.x, 2, axis=2), 0)
    return tf.concat(tf.split(tf.tanh(heads), 2, axis=0), 2)


def _discriminated(tf: Any, i: Inputs) -> Any:
    logits = tf.reduce_sum(tf.concat([i.x, i.y], 0), 1)
    labels = tf.concat([tf.ones([i.b]), tf.zeros([i.b])], 0)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
