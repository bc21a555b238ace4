"""Ops on images: colours, boxes, transforms."""

from __future__ import annotations

from typing import Any

from tests.sharding.rows import Inputs, Row

IMAGE = (5, 5, 3)


def _boxes(tf: Any, i: Inputs) -> Any:
    """A box of each sample, which depends on it."""
    return 0.1 + 0.2 * tf.nn.sigmoid(i.x[:, 0, 0, :1]) + tf.constant([[0.0, 0.1, 0.5, 0.6]])


def _cropped(tf: Any, images: Any, boxes: Any, numbers: Any) -> Any:
    return tf.image.crop_and_resize(images, boxes, numbers, [3, 2])


def _moved(tf: Any, i: Inputs, transforms: Any) -> Any:
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=i.x,
        transforms=transforms,
        output_shape=[4, 3],
        fill_value=0.5,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )


def _own_transforms(tf: Any, i: Inputs) -> Any:
    angles = tf.cast(i.ids, tf.float32) * 0.1
    ones, zeros = tf.ones_like(angles), tf.zeros_like(angles)
    return tf.stack([ones, angles, zeros, -angles, ones, angles, zeros, zeros], 1)


COLOURS = [
    Row("AdjustSaturation", lambda tf, i: tf.image.adjust_saturation(i.x, 1.4), IMAGE, gradient=False),
    Row("AdjustHue", lambda tf, i: tf.image.adjust_hue(i.x, 0.2), IMAGE, gradient=False),
    Row("RGBToHSV", lambda tf, i: tf.image.rgb_to_hsv(tf.abs(i.x)), IMAGE, gradient=False),
    Row("HSVToRGB", lambda tf, i: tf.image.hsv_to_rgb(tf.nn.sigmoid(i.x)), IMAGE, gradient=False),
    Row(
        "AdjustHue: time major",
        lambda tf, i: tf.image.adjust_hue(tf.transpose(i.x, [1, 0, 2]), 0.2),
        (4, 3),
        gradient=False,
    ),
]

BOXES = [
    Row("CropAndResize: one box each", lambda tf, i: _cropped(tf, i.x, _boxes(tf, i), tf.range(i.b)), IMAGE),
    Row("CropAndResize: fed images", lambda tf, i: _cropped(tf, i.y, _boxes(tf, i), tf.range(i.b)), IMAGE),
    Row("CropAndResize: whole boxes", lambda tf, i: _cropped(tf, i.x, tf.ones([i.b, 4]) * 0.4, tf.range(i.b)), IMAGE),
    Row(
        "CropAndResize: of whole images",
        lambda tf, i: _cropped(tf, tf.reshape(i.square, [1, 3, 3, 1]), _boxes(tf, i), tf.zeros_like(i.ids)),
        IMAGE,
    ),
    Row(
        "CropAndResize: the first image",
        lambda tf, i: _cropped(tf, i.x, _boxes(tf, i), tf.zeros_like(i.ids)),
        IMAGE,
        whole=("CropAndResize",),
    ),
]

TRANSFORMS = [
    Row(
        "ImageProjectiveTransform: one each", lambda tf, i: _moved(tf, i, _own_transforms(tf, i)), IMAGE, gradient=False
    ),
    Row(
        "ImageProjectiveTransform: one for all",
        lambda tf, i: _moved(tf, i, tf.constant([[1.0, 0.1, 0.0, -0.1, 1.0, 0.2, 0.0, 0.0]])),
        IMAGE,
        gradient=False,
    ),
    Row(
        "ImageProjectiveTransformV2",
        lambda tf, i: tf.raw_ops.ImageProjectiveTransformV2(
            images=i.x, transforms=_own_transforms(tf, i), output_shape=[4, 3], interpolation="NEAREST"
        ),
        IMAGE,
        gradient=False,
    ),
]

TABLES = {"colours": COLOURS, "boxes": BOXES, "transforms": TRANSFORMS}
