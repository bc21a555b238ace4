"""Ops that pick or scatter rows by index."""

from __future__ import annotations

from typing import Any

from tests.sharding.rows import Inputs, Row


def _table(tf: Any, i: Inputs) -> Any:
    """A whole ``[4, 4]`` table that depends on ``w``."""
    return i.square


def _counted(tf: Any, i: Inputs) -> Any:
    """The numbers of the samples as ``tf.vectorized_map`` has them: of a single one, 0 for all."""
    return tf.where_v2(tf.reduce_max(tf.stack([i.b])) > 1, tf.range(tf.reduce_max(tf.stack([i.b]))), 0)


INDEX = [
    Row("GatherV2: embedding", lambda tf, i: tf.gather(_table(tf, i), i.ids)),
    Row("GatherV2: embedding of two dims", lambda tf, i: tf.gather(_table(tf, i), tf.stack([i.ids, i.ids], 1))),
    Row("GatherV2: embedding lookup of a variable", lambda tf, i: tf.nn.embedding_lookup(i.w, i.ids)),
    Row("GatherV2: features", lambda tf, i: tf.gather(i.x, [2, 0], axis=1)),
    Row("GatherV2: features, last", lambda tf, i: tf.gather(i.x, [[2, 0], [1, 1]], axis=-1)),
    Row("GatherV2: one feature", lambda tf, i: tf.gather(i.x, 1, axis=1)),
    Row("GatherV2: samples", lambda tf, i: tf.gather(i.x, [0, 0]), whole=("GatherV2",)),
    Row("GatherV2: samples by pieces", lambda tf, i: tf.gather(i.x, tf.minimum(i.ids, 0))),
    Row("GatherV2: time major", lambda tf, i: tf.gather(tf.transpose(i.x, [1, 0, 2]), [1, 0]), sample=(3, 4)),
    Row("GatherV2: time major by pieces", lambda tf, i: tf.gather(tf.transpose(i.x), i.ids)),
    Row("GatherV2: of a sum", lambda tf, i: tf.gather(tf.reduce_sum(i.x, 0), [1, 3, 1])),
    Row("GatherV2: of a sum by pieces", lambda tf, i: tf.gather(tf.reduce_sum(i.x, 0), i.ids)),
    Row("GatherV2: batch dims", lambda tf, i: tf.gather(i.x, tf.expand_dims(i.ids, 1), batch_dims=1)),
    Row("GatherV2: batch dims, flat", lambda tf, i: tf.gather(i.x, i.ids, batch_dims=1)),
    Row(
        "GatherV2: batch dims, deep",
        lambda tf, i: tf.gather(i.x, tf.tile(tf.expand_dims(i.ids, 1) % 3, [1, 2]), batch_dims=1),
        sample=(3, 4),
    ),
    Row("GatherV2: batch dims, whole indices", lambda tf, i: tf.gather(i.x, tf.ones([i.b, 2], tf.int32), batch_dims=1)),
    Row(
        "GatherV2: batch dims, whole params",
        lambda tf, i: tf.gather(tf.ones([i.b, 4]) * i.w, tf.expand_dims(i.ids, 1), batch_dims=1),
    ),
    Row("GatherV2: every sample in order", lambda tf, i: tf.gather(i.x, tf.range(i.b)) * i.w),
    Row("GatherV2: all rows of time major", lambda tf, i: tf.gather(tf.transpose(i.x), tf.range(i.b), axis=1)),
    Row("GatherV2: every sample, or the first", lambda tf, i: tf.gather(i.x, _counted(tf, i)) * i.w),
    Row("GatherV2: permuted samples", lambda tf, i: tf.gather(i.x, tf.range(i.b)[::-1]), whole=("GatherV2",)),
    Row("GatherV2: flattened rows", lambda tf, i: tf.gather(tf.reshape(i.x, [-1]), tf.range(i.b) * 4 + i.ids)),
    Row("Gather", lambda tf, i: tf.raw_ops.Gather(params=_table(tf, i), indices=i.ids)),
    Row("Gather: samples by pieces", lambda tf, i: tf.raw_ops.Gather(params=i.x, indices=tf.minimum(i.ids, 0))),
    Row("GatherNd: one per sample", lambda tf, i: tf.gather_nd(i.x, tf.stack([tf.range(i.b), i.ids], 1))),
    Row(
        "GatherNd: row of each sample",
        lambda tf, i: tf.gather_nd(i.x, tf.stack([tf.range(i.b), i.ids % 3], 1)),
        sample=(3, 4),
    ),
    Row("GatherNd: by a table", lambda tf, i: tf.gather_nd(_table(tf, i), tf.stack([i.ids, i.ids], 1))),
    Row("GatherNd: samples", lambda tf, i: tf.gather_nd(i.x, [[0], [0]]), whole=("GatherNd",)),
    Row("GatherNd: samples by pieces", lambda tf, i: tf.gather_nd(i.x, tf.expand_dims(tf.minimum(i.ids, 0), 1))),
    Row(
        "GatherNd: concatenated index",
        lambda tf, i: tf.gather_nd(i.x, tf.concat([tf.expand_dims(tf.range(i.b), 1), tf.expand_dims(i.ids, 1)], 1)),
    ),
    Row("GatherNd: second column", lambda tf, i: tf.gather_nd(tf.transpose(i.x), tf.stack([i.ids, tf.range(i.b)], 1))),
    Row("ScatterNd: counts", lambda tf, i: tf.scatter_nd(tf.expand_dims(i.ids, 1), i.x, [4, 4])),
    Row(
        "ScatterNd: one per sample",
        lambda tf, i: tf.scatter_nd(tf.stack([tf.range(i.b), i.ids], 1), i.x[:, 0], [i.b, 4]),
    ),
    Row("ScatterNd: whole indices", lambda tf, i: tf.scatter_nd([[1], [3]], tf.reduce_sum(i.x, 0)[:2], [5])),
    Row(
        "ScatterNd: features",
        lambda tf, i: tf.transpose(tf.scatter_nd([[1], [3], [0], [2]], tf.transpose(i.x), [5, i.b])),
        whole=("ScatterNd", "GatherNd"),
    ),
    Row("UnsortedSegmentSum", lambda tf, i: tf.unsorted_segment_sum(i.x, i.ids, 4)),
    Row("UnsortedSegmentSum: of features", lambda tf, i: tf.unsorted_segment_sum(tf.transpose(i.x), [0, 1, 0, 1], 2)),
    Row("UnsortedSegmentSum: of a sum", lambda tf, i: tf.unsorted_segment_sum(tf.reduce_sum(i.x, 0), [0, 1, 0, 1], 2)),
    Row(
        "UnsortedSegmentSum: every element",
        lambda tf, i: tf.unsorted_segment_sum(i.x, tf.tile(tf.expand_dims(i.ids, 1), [1, 4]), 4),
    ),
    Row("UnsortedSegmentMax", lambda tf, i: tf.unsorted_segment_max(i.x, i.ids, 4), whole=("UnsortedSegmentMax",)),
    Row("UnsortedSegmentMean", lambda tf, i: tf.math.unsorted_segment_mean(i.x, i.ids, 4)),
    Row("SegmentSum", lambda tf, i: tf.segment_sum(i.x, tf.range(i.b) // 2), whole=("SegmentSum",)),
    Row("Where: boolean mask", lambda tf, i: tf.boolean_mask(i.x, tf.greater(i.ids, -1)), whole=("Where",)),
    Row(
        "Where: some samples", lambda tf, i: tf.boolean_mask(i.x, i.mask), whole=("Where",), modes=("static", "dynamic")
    ),
    Row("Unique", lambda tf, i: tf.unique(i.ids)[0], whole=("Unique",)),
    Row("UniqueV2", lambda tf, i: tf.raw_ops.UniqueV2(x=i.ids, axis=[0])[0], whole=("UniqueV2",)),
    Row(
        "UniqueWithCountsV2",
        lambda tf, i: tf.raw_ops.UniqueWithCountsV2(x=i.ids, axis=[0])[2],
        whole=("UniqueWithCountsV2",),
    ),
    Row("DynamicPartition", lambda tf, i: tf.dynamic_partition(i.x, i.ids, 4), whole=("DynamicPartition",)),
    Row(
        "DynamicStitch",
        lambda tf, i: tf.dynamic_stitch([tf.range(i.b), tf.range(i.b)], [i.x, i.y]),
        whole=("DynamicStitch",),
    ),
    Row("Unique: with counts", lambda tf, i: tf.unique_with_counts(i.ids)[2], whole=("UniqueWithCounts",)),
    Row(
        "SparseToDense",
        lambda tf, i: tf.sparse_to_dense(tf.stack([tf.range(i.b), i.ids], 1), [i.b, 4], 1.0) * i.x,
        whole=("SparseToDense",),
    ),
    Row("Bincount", lambda tf, i: tf.math.bincount(i.ids, minlength=4, maxlength=4), whole=("Bincount",)),
    Row("ResourceGather", lambda tf, i: _embedding(tf, i, True)),
    Row("GatherV2: of a reference variable", lambda tf, i: _embedding(tf, i, False)),
    Row(
        "ResourceGatherNd",
        lambda tf, i: _variable(tf, True).gather_nd(tf.stack([i.ids, i.ids], 1)),
        whole=("ResourceGatherNd",),
    ),
]


def _words(tf: Any, i: Inputs) -> Any:
    """A sentence of one or two words for each sample."""
    word = tf.as_string(i.ids)
    return tf.where(i.mask, tf.string_join([word, word], " "), word)


STRINGS = [
    Row(
        "StringSplit",
        lambda tf, i: tuple(tf.raw_ops.StringSplit(input=_words(tf, i), delimiter=" ")),
        whole=("StringSplit",),
        gradient=False,
    ),
    Row(
        "StringSplitV2",
        lambda tf, i: tuple(tf.raw_ops.StringSplitV2(input=_words(tf, i), sep=" ")),
        whole=("StringSplitV2",),
        gradient=False,
    ),
]
SUMMARIES = [
    Row("HistogramSummary", lambda tf, i: tf.summary.histogram("h", i.x), whole=("HistogramSummary",), gradient=False),
    Row(
        "ImageSummary",
        lambda tf, i: tf.summary.image("i", i.x[..., :1], max_outputs=4),
        (6, 6, 2),
        whole=("ImageSummary",),
        gradient=False,
    ),
    Row(
        "AudioSummaryV2",
        lambda tf, i: tf.summary.audio("a", i.x, 8000, max_outputs=4),
        whole=("AudioSummaryV2",),
        gradient=False,
    ),
    Row("TensorSummary", lambda tf, i: tf.raw_ops.TensorSummary(tensor=i.y), whole=("TensorSummary",), gradient=False),
    Row(
        "TensorSummaryV2",
        lambda tf, i: tf.summary.tensor_summary("t", i.y),
        whole=("TensorSummaryV2",),
        gradient=False,
    ),
]


def _bags(tf: Any, i: Inputs, how: str, counted: bool) -> Any:
    """Sums over pairs of rows of a whole table, picked by the batch."""
    op = getattr(tf.raw_ops, f"SparseSegment{how}" + ("WithNumSegments" if counted else ""))
    told = {"num_segments": 3} if counted else {}
    return op(data=_table(tf, i), indices=i.ids, segment_ids=tf.minimum(tf.range(i.b) // 2, 2), **told)


SEGMENTS = [
    Row("SparseSegmentSumWithNumSegments", lambda tf, i: _bags(tf, i, "Sum", True)),
    Row(
        "SparseSegmentSum",
        lambda tf, i: _bags(tf, i, "Sum", False),
        whole=("SparseSegmentSum",),
    ),
    *(
        Row(
            f"SparseSegment{how}{end}",
            lambda tf, i, how=how, end=end: _bags(tf, i, how, bool(end)),
            whole=(f"SparseSegment{how}{end}", f"SparseSegment{how}Grad"),
        )
        for how in ("Mean", "SqrtN")
        for end in ("", "WithNumSegments")
    ),
    *(
        Row(f"Segment{how}", lambda tf, i, how=how: _segments(tf, i, how), whole=(f"Segment{how}",))
        for how in ("Sum", "Mean", "Max", "Min")
    ),
    Row("SegmentProd", lambda tf, i: _segments(tf, i, "Prod"), whole=("SegmentProd",), gradient=False),
    *(
        Row(
            f"SparseSegment{how}GradV2",
            lambda tf, i, how=how: _distinct_rows(tf, i, how),
            whole=(f"SparseSegment{how}GradV2",),
            gradient=False,
        )
        for how in ("Sum", "Mean", "SqrtN")
    ),
    Row(
        "SparseSegmentMean: of a sum",
        lambda tf, i: tf.sparse_segment_mean(tf.matmul(i.x, i.y, transpose_a=True), [0, 3, 1], [0, 0, 1]),
    ),
    Row(
        "SparseSegmentSum: features",
        lambda tf, i: tf.sparse_segment_sum(tf.transpose(i.x), [0, 3, 1], [0, 0, 1]),
    ),
    Row(
        "SparseSegmentSum: samples",
        lambda tf, i: tf.sparse_segment_sum(i.x, [0, 0, 0], [0, 1, 1]),
        whole=("SparseSegmentSum",),
    ),
]

TABLES = {"indices": INDEX, "split strings": STRINGS, "summaries": SUMMARIES, "segments": SEGMENTS}


def _segments(tf: Any, i: Inputs, how: str) -> Any:
    """Two samples to a segment."""
    return getattr(tf.math, f"segment_{how.lower()}")(i.x, tf.range(i.b) // 2)


def _distinct_rows(tf: Any, i: Inputs, how: str) -> Any:
    """The gradient of a lookup of one word for each sample: a row for each distinct word."""
    gradient = getattr(tf.raw_ops, f"SparseSegment{how}GradV2")
    return tuple(gradient(grad=i.x, indices=i.ids, segment_ids=tf.range(i.b), dense_output_dim0=4))


def _variable(tf: Any, resource: bool) -> Any:
    start = tf.reshape(tf.range(16.0), [4, 4]) * 0.1
    return tf.get_variable("table", initializer=start, use_resource=resource)


def _embedding(tf: Any, i: Inputs, resource: bool) -> Any:
    rows = tf.nn.embedding_lookup(_variable(tf, resource), i.ids)
    return rows * i.x
