"""Projective transforms of images.

A transform is eight numbers (a0, a1, a2, b0, b1, b2, c0, c1): the output point (x, y) reads the input point
((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k) with k = c0 x + c1 y + 1.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

__all__ = [
    "angles_to_projective_transforms",
    "compose_transforms",
    "flat_transforms_to_matrices",
    "matrices_to_flat_transforms",
    "rotate",
    "transform",
    "translate",
    "translations_to_projective_transforms",
]


def rotate(images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None) -> Any:
    """Rotates images counter-clockwise about their centres by angles in radians (one, or one per image)."""
    with tf.name_scope(name, "rotate"):
        batch = _to_batch(tf.convert_to_tensor(images))
        height, width = (tf.cast(tf.shape(batch)[axis], tf.float32) for axis in (1, 2))
        return transform(images, angles_to_projective_transforms(angles, height, width), interpolation)


def translate(images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None) -> Any:
    """Moves images by ``(dx, dy)`` pixels (one pair, or one per image)."""
    with tf.name_scope(name, "translate"):
        return transform(images, translations_to_projective_transforms(translations), interpolation)


def transform(
    images: Any, transforms: Any, interpolation: str = "NEAREST", output_shape: Any = None, name: str | None = None
) -> Any:
    """Applies one transform ``[8]`` or one per image ``[n, 8]``; points outside of the input are zero.

    Args:
        images: ``[n, height, width, channels]``, ``[height, width, channels]`` or ``[height, width]``.
        transforms: eight numbers each.
        interpolation: ``NEAREST`` or ``BILINEAR``.
        output_shape: height and width of the result; by default those of the input.
        name: name scope.

    Raises:
        TypeError: ranks other than these.
    """
    with tf.name_scope(name, "transform"):
        images = tf.convert_to_tensor(images)
        batch = _to_batch(images)
        flat = tf.convert_to_tensor(transforms, tf.float32)
        if flat.shape.rank not in (1, 2):
            raise TypeError(f"transforms must be [8] or [n, 8], not of shape {flat.shape}")
        flat = tf.reshape(flat, [-1, 8])
        size = tf.shape(batch)[1:3] if output_shape is None else tf.convert_to_tensor(output_shape, tf.int32)
        output = tf.raw_ops.ImageProjectiveTransformV2(
            images=batch, transforms=flat, output_shape=size, interpolation=interpolation.upper()
        )
        rank = images.shape.rank
        if rank == 2:
            return output[0, :, :, 0]
        return output[0] if rank == 3 else output


def angles_to_projective_transforms(angles: Any, image_height: Any, image_width: Any, name: str | None = None) -> Any:
    """Transforms ``[n, 8]`` that rotate about the centre by ``angles`` (a scalar or a vector)."""
    with tf.name_scope(name, "angles_to_projective_transforms"):
        angle = tf.reshape(tf.convert_to_tensor(angles, tf.float32), [-1])
        cos, sin = tf.cos(angle), tf.sin(angle)
        right = tf.cast(image_width, tf.float32) - 1
        down = tf.cast(image_height, tf.float32) - 1
        # The rotation about the origin, moved so that the centre stays where it is.
        shift_x = (right - (cos * right - sin * down)) / 2
        shift_y = (down - (sin * right + cos * down)) / 2
        zero = tf.zeros_like(angle)
        return tf.stack([cos, -sin, shift_x, sin, cos, shift_y, zero, zero], axis=1)


def translations_to_projective_transforms(translations: Any, name: str | None = None) -> Any:
    """Transforms ``[n, 8]`` that move by ``(dx, dy)``."""
    with tf.name_scope(name, "translations_to_projective_transforms"):
        moves = tf.reshape(tf.convert_to_tensor(translations, tf.float32), [-1, 2])
        one, zero = tf.ones_like(moves[:, 0]), tf.zeros_like(moves[:, 0])
        # The output reads the input at the opposite offset.
        return tf.stack([one, zero, -moves[:, 0], zero, one, -moves[:, 1], zero, zero], axis=1)


def flat_transforms_to_matrices(transforms: Any) -> Any:
    """``[n, 8]`` to ``[n, 3, 3]``; the ninth number is one."""
    flat = tf.reshape(tf.convert_to_tensor(transforms), [-1, 8])
    return tf.reshape(tf.concat([flat, tf.ones_like(flat[:, :1])], axis=1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any) -> Any:
    """``[n, 3, 3]`` to ``[n, 8]``, scaled so that the ninth number is one."""
    flat = tf.reshape(tf.convert_to_tensor(transform_matrices), [-1, 9])
    return (flat / flat[:, 8:])[:, :8]


def compose_transforms(*transforms: Any) -> Any:
    """The transform that applies all given ones, the first first.

    Raises:
        ValueError: there is none.
    """
    if not transforms:
        raise ValueError("compose_transforms needs at least one transform")
    product = flat_transforms_to_matrices(transforms[0])
    for following in transforms[1:]:
        product = tf.matmul(product, flat_transforms_to_matrices(following))
    return matrices_to_flat_transforms(product)


def _to_batch(images: Any) -> Any:
    rank = images.shape.rank
    if rank == 2:
        return images[None, :, :, None]
    if rank == 3:
        return images[None]
    if rank == 4:
        return images
    raise TypeError(f"images must have rank 2, 3 or 4, not shape {images.shape}")
