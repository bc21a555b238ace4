"""Nodes written field by field, without TensorFlow."""

from __future__ import annotations

import dataclasses

import pytest

from tests.ir.programs import op, program
from whale.errors import CaptureError
from whale.ir import graph_def
from whale.ir.graph_def import lower_program, restore_notes

ATTRIBUTE = b"\x2a\x03\x0a\x01T"  # field 5, three bytes: an entry whose key is "T"


def test_name_type_inputs_and_device_are_those_of_the_op() -> None:
    old_fields = b"\x0a\x03old" + b"\x1a\x01q" + ATTRIBUTE
    node = dataclasses.replace(
        op("y", "Add", "a:0", "b:1", controls=("c",), shapes=()), device="/cpu:0", node=old_fields
    )
    body = b"\x0a\x01y\x12\x03Add\x1a\x01a\x1a\x03b:1\x1a\x02^c\x22\x06/cpu:0" + ATTRIBUTE
    assert lower_program(program(node)) == b"\x0a" + bytes([len(body)]) + body


def test_shapes_are_an_attribute() -> None:
    node = op("y", "Odd", shapes=((2, None), None))
    shapes = b"\x3a\x11" + b"\x12\x02\x08\x02" + b"\x12\x0b\x08" + b"\xff" * 9 + b"\x01" + b"\x3a\x02\x18\x01"
    entry = b"\x0a\x0e_output_shapes" + b"\x12\x19" + b"\x0a\x17" + shapes
    assert lower_program(program(node)).endswith(b"\x2a" + bytes([len(entry)]) + entry)


def test_library_and_versions_follow_the_nodes() -> None:
    empty = dataclasses.replace(program(), library=b"ab", versions=b"c")
    assert lower_program(empty) == b"\x12\x02ab\x22\x01c"


def test_long_fields_take_more_bytes_for_their_length() -> None:
    assert lower_program(dataclasses.replace(program(), library=b"x" * 300)) == b"\x12\xac\x02" + b"x" * 300


def test_fields_of_every_wire_type_are_kept() -> None:
    other = b"\x30\x96\x01" + b"\x39" + bytes(8) + b"\x45" + bytes(4)  # fields 6, 7 and 8
    node = dataclasses.replace(op("y", "NoOp", shapes=()), node=other)
    assert lower_program(program(node)).endswith(other)


def test_bytes_that_are_no_node_are_refused() -> None:
    with pytest.raises(CaptureError, match="begins no field"):
        lower_program(program(dataclasses.replace(op("y", "NoOp", shapes=()), node=b"\x2b")))


def test_notes_travel_as_an_attribute() -> None:
    noted = dataclasses.replace(op("dy", "Relu", "x"), forward="y")
    assert b"_whale_forward" in lower_program(program(noted))
    imported = program(op("dy", "Relu", "x", _whale_forward="y"))
    assert restore_notes(imported).ops["dy"].forward == "y"
    assert lower_program(restore_notes(imported)) == lower_program(imported)


def test_a_graph_that_no_protocol_buffer_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_def, "LARGEST", 100)
    with pytest.raises(CaptureError, match="takes 303 bytes, and a protocol buffer holds 100") as raised:
        lower_program(dataclasses.replace(program(), library=b"x" * 300))
    assert "feed it" in raised.value.fix
