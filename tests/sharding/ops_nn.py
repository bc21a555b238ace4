"""Neural-network ops: convolutions, pooling, normalisation, losses."""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.sharding.rows import Inputs, Row

IMAGE = (6, 6, 2)
VOLUME = (4, 4, 4, 2)


def _image(name: str, build: Any, whole: tuple[str, ...] = (), gradient: bool = True, tolerance: float = 1e-5) -> Row:
    return Row(name, build, IMAGE, whole, gradient, tolerance=tolerance)


def _filter(tf: Any, i: Inputs, shape: tuple[int, ...]) -> Any:
    """Weights that depend on ``w``."""
    count = 1
    for size in shape:
        count *= size
    return tf.reshape(tf.sin(tf.range(float(count))), shape) * i.w[0] + 0.1


CONVOLUTIONS = [
    _image("Conv2D", lambda tf, i: tf.nn.conv2d(i.x, _filter(tf, i, (3, 3, 2, 3)), 1, "SAME")),
    _image("Conv2D: strided", lambda tf, i: tf.nn.conv2d(i.x, _filter(tf, i, (3, 3, 2, 3)), 2, "VALID")),
    _image(
        "Conv2D: of two",
        lambda tf, i: tf.nn.conv2d(
            tf.nn.relu(tf.nn.conv2d(i.x, _filter(tf, i, (3, 3, 2, 3)), 1, "SAME")),
            _filter(tf, i, (3, 3, 3, 2)),
            1,
            "SAME",
        ),
    ),
    _image(
        "Conv2DBackpropInput: transposed",
        lambda tf, i: tf.nn.conv2d_transpose(i.x, _filter(tf, i, (3, 3, 3, 2)), [i.b, 12, 12, 3], 2),
    ),
    _image(
        "DepthwiseConv2dNative",
        lambda tf, i: tf.nn.depthwise_conv2d(i.x, _filter(tf, i, (3, 3, 2, 2)), [1, 1, 1, 1], "SAME"),
    ),
    _image(
        "Conv2D: separable",
        lambda tf, i: tf.nn.separable_conv2d(
            i.x, _filter(tf, i, (3, 3, 2, 2)), _filter(tf, i, (1, 1, 4, 3)), [1, 1, 1, 1], "SAME"
        ),
    ),
    _image(
        "Dilation2D",
        lambda tf, i: tf.nn.dilation2d(
            i.x, _filter(tf, i, (2, 2, 2)), strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME"
        ),
        gradient=False,
    ),
    Row("Conv3D", lambda tf, i: tf.nn.conv3d(i.x, _filter(tf, i, (2, 2, 2, 2, 3)), [1, 1, 1, 1, 1], "SAME"), VOLUME),
    Row(
        "Conv3DBackpropInputV2: transposed",
        lambda tf, i: tf.nn.conv3d_transpose(i.x, _filter(tf, i, (2, 2, 2, 3, 2)), [i.b, 8, 8, 8, 3], [1, 2, 2, 2, 1]),
        VOLUME,
    ),
    Row("Conv2D: of a sequence", lambda tf, i: tf.nn.conv1d(i.x, _filter(tf, i, (3, 4, 5)), 1, "SAME"), (6, 4)),
    _image("BiasAdd", lambda tf, i: tf.nn.bias_add(i.x, i.w)),
    _image(
        "BiasAdd: channels first",
        lambda tf, i: tf.nn.bias_add(tf.transpose(i.x, [0, 3, 1, 2]), i.w, data_format="NCHW"),
    ),
    Row("BiasAdd: matrix", lambda tf, i: tf.nn.bias_add(i.x, i.w)),
    Row("BiasAdd: of a sum", lambda tf, i: tf.nn.bias_add(tf.reduce_sum(i.x, 0, keepdims=True), i.w)),
    Row("BiasAdd: time major", lambda tf, i: tf.nn.bias_add(tf.transpose(i.x, [1, 0, 2]), i.w), (3, 4)),
    Row(
        "Conv2D: batch on dim 1",
        lambda tf, i: tf.nn.conv1d(tf.transpose(i.x, [1, 0, 2]), _filter(tf, i, (3, 4, 5)), 1, "SAME"),
        (6, 4),
        modes=("dynamic",),
        whole=("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"),
    ),
]

BLOCKS = [
    _image("SpaceToBatchND", lambda tf, i: tf.space_to_batch_nd(i.x, [2, 3], [[0, 0], [1, 2]])),
    _image(
        "SpaceToBatchND: features", lambda tf, i: tf.space_to_batch_nd(tf.transpose(i.x, [1, 2, 3, 0]), [2], [[0, 0]])
    ),
    _image("SpaceToBatchND: of a sum", lambda tf, i: tf.space_to_batch_nd(tf.reduce_sum(i.x, 0)[None], [2], [[0, 0]])),
    _image(
        "SpaceToBatchND: over the batch",
        lambda tf, i: tf.space_to_batch_nd(tf.transpose(i.x, [1, 0, 2, 3])[:, :1], [1], [[0, 0]]),
        whole=("SpaceToBatchND", "StridedSlice", "BatchToSpaceND"),
    ),
    _image("SpaceToBatch", lambda tf, i: tf.raw_ops.SpaceToBatch(input=i.x, paddings=[[1, 1], [0, 0]], block_size=2)),
    _image("BatchToSpaceND", lambda tf, i: tf.batch_to_space_nd(tf.tile(i.x, [4, 1, 1, 1]), [2, 2], [[0, 1], [1, 0]])),
    _image(
        "BatchToSpaceND: samples",
        lambda tf, i: tf.batch_to_space_nd(tf.concat([i.x, i.x], 3)[: i.b // 2 * 2], [2], [[0, 0]]),
        whole=("BatchToSpaceND", "StridedSlice"),
    ),
    _image(
        "BatchToSpace",
        lambda tf, i: tf.raw_ops.BatchToSpace(input=tf.tile(i.x, [4, 1, 1, 1]), crops=[[1, 0], [0, 0]], block_size=2),
    ),
    _image("Conv2D: dilated", lambda tf, i: tf.nn.atrous_conv2d(i.x, _filter(tf, i, (3, 3, 2, 3)), 2, "SAME")),
    _image(
        "Conv2DBackpropInput: of blocks",
        lambda tf, i: tf.nn.atrous_conv2d_transpose(
            i.x, _filter(tf, i, (3, 3, 3, 2)), tf.stack([i.b, 6, 6, 3]), 2, "SAME"
        ),
    ),
    _image(
        "DepthwiseConv2dNative: dilated",
        lambda tf, i: tf.nn.depthwise_conv2d(i.x, _filter(tf, i, (2, 2, 2, 2)), [1, 1, 1, 1], "VALID", [2, 2]),
    ),
    _image("MaxPool: of blocks", lambda tf, i: tf.nn.pool(i.x, [2, 2], "MAX", "VALID", dilations=[2, 2])),
    Row(
        "Conv2D: causal",
        lambda tf, i: tf.nn.convolution(
            tf.pad(i.x, [[0, 0], [4, 0], [0, 0]]), _filter(tf, i, (3, 4, 5)), "VALID", dilations=[2]
        ),
        (6, 4),
    ),
    _image(
        "Conv3D: dilated",
        lambda tf, i: tf.nn.convolution(
            i.x[:, :, :, None], _filter(tf, i, (2, 2, 1, 2, 3)), "SAME", dilations=[2, 2, 1]
        ),
    ),
]

POOLING = [
    _image("MaxPool", lambda tf, i: tf.nn.max_pool2d(i.x, 2, 2, "SAME")),
    _image("MaxPool: overlapping", lambda tf, i: tf.nn.max_pool2d(i.x, 3, 1, "VALID")),
    _image(
        "MaxPoolV2",
        lambda tf, i: tf.raw_ops.MaxPoolV2(input=i.x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME"),
    ),
    _image("AvgPool", lambda tf, i: tf.nn.avg_pool2d(i.x, 2, 2, "SAME")),
    _image(
        "MaxPoolWithArgmax",
        lambda tf, i: tf.nn.max_pool_with_argmax(i.x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")[0],
        whole=("MaxPoolWithArgmax", "MaxPoolGradWithArgmax"),
    ),
    Row("MaxPool3D", lambda tf, i: tf.nn.max_pool3d(i.x, 2, 2, "SAME"), VOLUME),
    Row("AvgPool3D", lambda tf, i: tf.nn.avg_pool3d(i.x, 2, 2, "SAME"), VOLUME),
    _image(
        "MaxPoolGradGrad: penalty", lambda tf, i: tf.gradients(tf.square(tf.nn.max_pool2d(i.x, 2, 2, "SAME")), i.x)[0]
    ),
    _image("Mean: global average", lambda tf, i: tf.reduce_mean(i.x, [1, 2])),
    _image("LRN", lambda tf, i: tf.nn.lrn(tf.concat([i.x, i.y], 3))),
    _image("ResizeBilinear", lambda tf, i: tf.image.resize_bilinear(i.x, [4, 9])),
    _image("ResizeBicubic", lambda tf, i: tf.image.resize_bicubic(i.x, [4, 9])),
    _image("ResizeNearestNeighbor", lambda tf, i: tf.image.resize_nearest_neighbor(i.x, [12, 12])),
    _image("ResizeArea", lambda tf, i: tf.image.resize_area(i.x, [3, 3]), gradient=False),
    _image("SpaceToDepth", lambda tf, i: tf.space_to_depth(i.x, 2)),
    _image("DepthToSpace", lambda tf, i: tf.depth_to_space(tf.concat([i.x, i.y], 3), 2)),
    _image(
        "ExtractImagePatches",
        lambda tf, i: tf.image.extract_patches(i.x, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID"),
        gradient=False,
    ),
    Row("AdjustContrastv2", lambda tf, i: tf.image.adjust_contrast(i.x, 1.4), (4, 4, 3), gradient=False),
]


def _with(i: Inputs, x: Any) -> Inputs:
    """The inputs with another ``x``."""
    return dataclasses.replace(i, x=x)


def _fused(tf: Any, i: Inputs, version: str, training: bool, layout: str = "NHWC", factor: float = 1.0) -> Any:
    x = i.x + i.y  # what a batch norm makes of i.x alone does not depend on w, but for epsilon
    image = x if layout == "NHWC" else tf.transpose(x, [0, 3, 1, 2])
    moving = [tf.constant([0.3, -0.2]), tf.constant([1.4, 0.8])] if not training or factor != 1.0 else [[], []]
    extra = {"exponential_avg_factor": factor} if version == "V3" else {}
    made = getattr(tf.raw_ops, f"FusedBatchNorm{version}")(
        x=image, scale=i.w, offset=i.w * 0.5, mean=moving[0], variance=moving[1], is_training=training,
        data_format=layout, epsilon=0.01, **extra,
    )  # fmt: skip
    return (made[0], made[1], made[2]) if training else made[0]


# The squares of what a batch norm makes sum to a constant, nearly, and their gradient is rounding: hence the factor.
BATCH_NORM = [
    *(
        _image(f"FusedBatchNorm{v}: training", lambda tf, i, v=v: _fused(tf, i, v, True)[0] * i.y)
        for v in ("", "V2", "V3")
    ),
    *(_image(f"FusedBatchNorm{v}: inference", lambda tf, i, v=v: _fused(tf, i, v, False)) for v in ("", "V2", "V3")),
    Row("FusedBatchNormV3: with statistics", lambda tf, i: _fused(tf, i, "V3", True), IMAGE, gradient=False),
    Row(
        "FusedBatchNormV3: mixed statistics", lambda tf, i: _fused(tf, i, "V3", True, factor=0.3), IMAGE, gradient=False
    ),
    Row("FusedBatchNormV3: layer", lambda tf, i: tf.layers.batch_normalization(i.x + i.y, training=True) * i.y, IMAGE),
    Row(
        "FusedBatchNormV3: after convolution",
        lambda tf, i: tf.nn.relu(
            _fused(tf, _with(i, tf.nn.conv2d(i.x, _filter(tf, i, (3, 3, 2, 2)), 1, "SAME")), "V3", True)[0]
        ),
        IMAGE,
    ),
    Row("Mean: batch norm by moments", lambda tf, i: tf.layers.batch_normalization(i.x + i.y, training=True) * i.y),
]


LOSSES = [
    Row("Softmax", lambda tf, i: tf.nn.softmax(i.x)),
    Row("Softmax: deep", lambda tf, i: tf.nn.softmax(i.x), (3, 4)),
    Row("Softmax: time major", lambda tf, i: tf.nn.softmax(tf.transpose(i.x, [1, 0, 2])), (3, 4)),
    Row("Softmax: over the batch", lambda tf, i: tf.nn.softmax(tf.transpose(i.x)), whole=("Softmax",)),
    Row("Softmax: of a sum", lambda tf, i: tf.nn.softmax(tf.reduce_sum(i.x, 0))),
    Row("LogSoftmax", lambda tf, i: tf.nn.log_softmax(i.x)),
    Row(
        "SparseSoftmaxCrossEntropyWithLogits",
        lambda tf, i: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=i.ids, logits=i.x),
    ),
    Row(
        "SparseSoftmaxCrossEntropyWithLogits: of time",
        lambda tf, i: tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.tile(tf.expand_dims(i.ids, 1), [1, 3]), logits=i.x
        ),
        (3, 4),
    ),
    Row(
        "SparseSoftmaxCrossEntropyWithLogits: whole labels",
        lambda tf, i: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.zeros([i.b], tf.int32), logits=i.x),
    ),
    Row(
        "SparseSoftmaxCrossEntropyWithLogits: of pairs",
        lambda tf, i: tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.range(i.b), logits=tf.matmul(i.x, i.y, transpose_b=True)
        ),
    ),
    Row(
        "SoftmaxCrossEntropyWithLogits",
        lambda tf, i: tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.nn.softmax(i.y), logits=i.x),
    ),
    Row(
        "SoftmaxCrossEntropyWithLogits: one hot",
        lambda tf, i: tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.one_hot(i.ids, 4), logits=i.x),
    ),
    Row(
        "SoftmaxCrossEntropyWithLogits: of time",
        lambda tf, i: tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.nn.softmax(i.y), logits=i.x),
        (3, 4),
    ),
    Row("Mean: tf.losses sparse", lambda tf, i: tf.losses.sparse_softmax_cross_entropy(i.ids, i.x)),
    Row(
        "Mean: tf.losses weighted",
        lambda tf, i: tf.losses.sparse_softmax_cross_entropy(i.ids, i.x, tf.cast(i.mask, tf.float32)),
    ),
    Row("Mean: tf.losses square", lambda tf, i: tf.losses.mean_squared_error(i.y, i.x)),
    Row("Mean: tf.losses absolute", lambda tf, i: tf.losses.absolute_difference(i.y, i.x, tf.abs(i.y[:, :1]))),
    Row("Mean: tf.losses huber", lambda tf, i: tf.losses.huber_loss(i.y, i.x)),
    Row("Mean: tf.losses hinge", lambda tf, i: tf.losses.hinge_loss(tf.cast(i.y > 0, tf.float32), i.x)),
    Row("Mean: tf.losses log", lambda tf, i: tf.losses.log_loss(tf.sigmoid(i.y), tf.sigmoid(i.x))),
    Row("Mean: tf.losses sigmoid", lambda tf, i: tf.losses.sigmoid_cross_entropy(tf.cast(i.y > 0, tf.float32), i.x)),
    Row(
        "Mean: tf.losses softmax",
        lambda tf, i: tf.losses.softmax_cross_entropy(tf.one_hot(i.ids, 4), i.x, label_smoothing=0.1),
    ),
    Row(
        "Mean: tf.losses cosine",
        lambda tf, i: tf.losses.cosine_distance(tf.nn.l2_normalize(i.y, 1), tf.nn.l2_normalize(i.x, 1), 1),
    ),
    Row("Mean: tf.losses pairwise", lambda tf, i: tf.losses.mean_pairwise_squared_error(i.y, i.x)),
    Row(
        "Mean: softmax over pairs",
        lambda tf, i: tf.reduce_mean(tf.nn.log_softmax(tf.matmul(i.x, i.y, transpose_b=True))),
    ),
    Row(
        "Mean: weighted cross entropy",
        lambda tf, i: tf.nn.weighted_cross_entropy_with_logits(labels=tf.sigmoid(i.y), logits=i.x, pos_weight=2.0),
    ),
    Row(
        "Mean: batch normalization",
        lambda tf, i: tf.nn.batch_normalization(i.x, *tf.nn.moments(i.x, [0]), i.w, None, 0.1),
    ),
    Row(
        "Mean: layer normalization",
        lambda tf, i: tf.nn.batch_normalization(i.x, *tf.nn.moments(i.x, [1], keep_dims=True), i.w, None, 0.1),
    ),
    Row("TopKV2", lambda tf, i: tf.nn.top_k(i.x, 2)),
    Row("TopKV2: deep", lambda tf, i: tf.nn.top_k(i.x, 2)[0], (3, 4)),
    Row("TopKV2: over the batch", lambda tf, i: tf.nn.top_k(tf.transpose(i.x), 1)[0], whole=("TopKV2",)),
    Row("InTopK", lambda tf, i: tf.raw_ops.InTopK(predictions=i.x, targets=i.ids, k=2)),
    Row("InTopKV2", lambda tf, i: tf.nn.in_top_k(i.x, i.ids, 2)),
    Row("NthElement", lambda tf, i: tf.math.reduce_sum(tf.raw_ops.NthElement(input=i.x, n=1))),
    Row("Mean: accuracy", lambda tf, i: tf.reduce_mean(tf.cast(tf.nn.in_top_k(i.x, i.ids, 1), tf.float32))),
]

TABLES = {
    "convolutions": CONVOLUTIONS,
    "blocks of space": BLOCKS,
    "pooling": POOLING,
    "batch norm": BATCH_NORM,
    "losses": LOSSES,
}
