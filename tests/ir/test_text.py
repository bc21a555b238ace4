"""The text form: stable, one op a line."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from tests.ir.programs import op, program, training_step
from whale.ir.text import op_line, text


def test_a_training_step(golden: Callable[..., None]) -> None:
    golden(text(training_step()))


def test_small_constants_show_their_value() -> None:
    axes = dataclasses.replace(op("axes", "Const", shapes=((2,),), dtype="int32"), value=np.array([0, -1], np.int32))
    assert op_line(axes) == "other    axes = Const[[0,-1]]() -> int32[2]"


def test_larger_constants_show_a_digest() -> None:
    def line(values: np.ndarray) -> str:
        return op_line(dataclasses.replace(op("c", "Const", shapes=((20,),)), value=values))

    ones = np.ones(20, np.float32)
    assert line(ones) == line(ones.copy())
    assert line(ones) != line(ones * 2)
    assert "sha1" in line(np.array(["a"] * 20, dtype=object))


def test_what_is_zero_or_private_is_left_out() -> None:
    line = op_line(op("y", "MatMul", "a", "b", transpose_a=False, transpose_b=True, T="float32", _class=("loc:@a",)))
    assert line == "other    y = MatMul[transpose_b=True](a:0, b:0) -> float32[]"


def test_places_scopes_and_unknown_shapes_show() -> None:
    placed = dataclasses.replace(
        op("y", "Relu", "x", shapes=((None, 3), None), controls=("z",)), device="/device:GPU:0", scope=2
    )
    assert op_line(placed) == "other    y = Relu(x:0, ^z) -> float32[?,3], float32[*] on /device:GPU:0 scope 2"


def test_an_op_comes_after_what_it_waits_for() -> None:
    lines = text(program(op("late", "Relu", "early"), op("early", "Const"), op("last", "Relu", "late"))).splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["early", "late", "last"]


def test_a_program_with_a_circle_prints_whole() -> None:
    assert len(text(program(op("a", "Relu", "b"), op("b", "Relu", "a"), op("c", "Relu", "gone"))).splitlines()) == 4
