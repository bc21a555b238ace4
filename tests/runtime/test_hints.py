"""Which errors of a script are explained further."""

from __future__ import annotations

import pytest

from whale.errors import CaptureError, SetupError
from whale.runtime.hints import hint


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("'SymbolicTensor' object has no attribute 'numpy'"),
        AttributeError("'RefVariable' object has no attribute '_id'"),
        RuntimeError("`tf.data.Dataset` only supports Python-style iteration in eager mode or within tf.function."),
        TypeError("Using a symbolic `tf.Tensor` as a Python `bool` is not allowed."),
        TypeError("float() argument must be a string or a real number, not 'SymbolicTensor'"),
        NotImplementedError("Cannot convert a symbolic tf.Tensor (Const:0) to a numpy array."),
    ],
)
def test_eager_code_is_recognised(error: Exception) -> None:
    assert isinstance(hint(error), SetupError)
    outer = SystemError("returned a result with an exception set")
    outer.__cause__ = error
    assert isinstance(hint(outer), SetupError)


def test_the_limit_of_protocol_buffers_is_recognised() -> None:
    assert isinstance(hint(ValueError("Cannot create a tensor proto whose content is larger than 2GB.")), CaptureError)


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("module 'data' has no attribute 'numpy'"),
        AttributeError("'list' object has no attribute 'shape'"),
        ValueError("could not convert string to float: 'x'"),
        KeyboardInterrupt(),
    ],
)
def test_other_errors_are_left_alone(error: BaseException) -> None:
    assert hint(error) is None
