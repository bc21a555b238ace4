"""Handwritten digits from the four files of the MNIST data set, which the user supplies."""

from __future__ import annotations

import collections
import gzip
import os
from typing import Any

import numpy as np

from whale.errors import SetupError

__all__ = ["DataSet", "Datasets", "dense_to_one_hot", "load_mnist", "read_data_sets"]

Datasets = collections.namedtuple("Datasets", ("train", "validation", "test"))

FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}

_MAGIC = {1: 2049, 3: 2051}
"""First word of a file, by the number of dims."""


class DataSet:
    """Images and labels, given out in batches, shuffled anew in every epoch."""

    def __init__(
        self,
        images: Any,
        labels: Any,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = np.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        """Takes uint8 images ``[n, 28, 28, 1]``; as float32 they become numbers from 0 to 1."""
        self._generator = np.random.RandomState(seed)
        self._num_examples = 10000 if fake_data else images.shape[0]
        self._fake = fake_data
        self._one_hot = one_hot
        if not fake_data:
            if reshape:
                images = images.reshape(images.shape[0], -1)
            if np.dtype(getattr(dtype, "as_numpy_dtype", dtype)) == np.float32:
                images = images.astype(np.float32) / 255.0
        self._images = images
        self._labels = labels
        self._epochs_completed = 0
        self._index_in_epoch = 0

    @property
    def images(self) -> Any:
        """All images, in the order of the current epoch."""
        return self._images

    @property
    def labels(self) -> Any:
        """All labels, in the order of the current epoch."""
        return self._labels

    @property
    def num_examples(self) -> int:
        """Number of images."""
        return self._num_examples

    @property
    def epochs_completed(self) -> int:
        """How often all images were given out."""
        return self._epochs_completed

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        """The next ``batch_size`` images and labels; a batch may span two epochs."""
        if fake_data or self._fake:
            label: Any = [1] + [0] * 9 if self._one_hot else 0
            return [[1] * 784 for _ in range(batch_size)], [label for _ in range(batch_size)]
        start = self._index_in_epoch
        if self._epochs_completed == 0 and start == 0 and shuffle:
            self._shuffle()
        rest = self._num_examples - start
        if batch_size <= rest:
            self._index_in_epoch = start + batch_size
            return self._images[start : start + batch_size], self._labels[start : start + batch_size]
        images, labels = self._images[start:], self._labels[start:]
        self._epochs_completed += 1
        if shuffle:
            self._shuffle()
        self._index_in_epoch = batch_size - rest
        end = self._index_in_epoch
        return np.concatenate([images, self._images[:end]]), np.concatenate([labels, self._labels[:end]])

    def _shuffle(self) -> None:
        order = self._generator.permutation(self._num_examples)
        self._images, self._labels = self._images[order], self._labels[order]


def dense_to_one_hot(labels_dense: Any, num_classes: int) -> Any:
    """Rows ``[n, num_classes]`` with a one at each label."""
    return np.eye(num_classes)[np.ravel(labels_dense)]


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = np.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = "",
) -> Datasets:
    """Train, validation and test sets from the files in ``train_dir``, gzipped or not. Nothing is downloaded.

    Raises:
        SetupError: a file is missing or is not of this format.
        ValueError: ``validation_size`` does not fit.
    """
    options = {"dtype": dtype, "reshape": reshape, "seed": seed}
    if fake_data:
        sets = [DataSet([], [], fake_data=True, one_hot=one_hot, **options) for _ in range(3)]
        return Datasets(*sets)
    arrays = {key: _read(train_dir, name) for key, name in FILES.items()}
    if one_hot:
        for key in ("train_labels", "test_labels"):
            arrays[key] = dense_to_one_hot(arrays[key], 10)
    images, labels = arrays["train_images"], arrays["train_labels"]
    if not 0 <= validation_size <= len(images):
        raise ValueError(f"validation_size must be between 0 and {len(images)}, not {validation_size}")
    return Datasets(
        train=DataSet(images[validation_size:], labels[validation_size:], **options),
        validation=DataSet(images[:validation_size], labels[:validation_size], **options),
        test=DataSet(arrays["test_images"], arrays["test_labels"], **options),
    )


def load_mnist(train_dir: str = "MNIST-data") -> Datasets:
    """``read_data_sets`` of the folder that TF1 used by default."""
    return read_data_sets(train_dir)


def _read(folder: str, name: str) -> Any:
    for suffix, opener in ((".gz", gzip.open), ("", open)):
        path = os.path.join(folder, name + suffix)
        if os.path.exists(path):
            with opener(path, "rb") as file:
                return _decode(file.read(), path)
    names = ", ".join(f"{each}.gz" for each in FILES.values())
    raise SetupError(
        f"{name}.gz is not in {folder!r}, and TensorFlow's downloader left with its examples",
        fix=f"put {names} (the MNIST files) into that folder",
    )


def _decode(content: bytes, path: str) -> Any:
    """An array of an IDX file: a magic word, the sizes as big-endian words, then bytes."""
    dims = content[3] if len(content) > 3 else 0
    if dims not in _MAGIC or len(content) < 4 * (dims + 1) or int.from_bytes(content[:4], "big") != _MAGIC[dims]:
        raise SetupError(f"{path} is not a file of the MNIST data set", fix="download it again")
    header = np.frombuffer(content[: 4 * (dims + 1)], dtype=">u4")
    values = np.frombuffer(content[4 * (dims + 1) :], dtype=np.uint8)
    shape = tuple(int(size) for size in header[1:])
    return values.reshape(shape if dims == 1 else (*shape, 1))
