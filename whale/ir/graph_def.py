"""A program as a serialized GraphDef.

A node keeps the attributes it was captured with, byte for byte; its name, type, inputs and device are those of the op,
so that a pass changes them by changing the op. What ``tf.gradients`` noted in Python objects is written as an
attribute, since an import makes new objects; so are the shapes of outputs, since Python code may know more than
TensorFlow infers again. (TensorFlow takes them from ``_output_shapes`` and removes the attribute.)

The protocol buffer is written field by field: a message inside of another is a tag, a length and its bytes. So the IR
needs no TensorFlow, and a graph is not parsed again only to be copied.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from whale.errors import CaptureError
from whale.ir.program import Op, Program, Shape

FORWARD_ATTRIBUTE = "_whale_forward"
"""Attribute of a lowered op: its forward op."""

_SHAPES_ATTRIBUTE = "_output_shapes"

LARGEST = 2**31 - 1
"""Bytes of the largest message that protocol buffers can hold."""

_NODE, _LIBRARY, _VERSIONS = 1, 2, 4  # fields of GraphDef
_NAME, _TYPE, _INPUT, _DEVICE, _ATTRIBUTE = 1, 2, 3, 4, 5  # fields of NodeDef
_KEY, _VALUE = 1, 2  # fields of an entry of a map
_LIST, _STRING = 1, 2  # fields of AttrValue
_SHAPE = 7  # field of a list of an AttrValue
_DIM, _UNKNOWN_RANK = 2, 3  # fields of TensorShapeProto
_SIZE = 1  # field of a dim
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


def lower_program(program: Program) -> bytes:
    """The program as a GraphDef that TensorFlow can import.

    Raises:
        CaptureError: it is larger than protocol buffers can hold.
    """
    parts = [_field(_NODE, _node(op)) for op in program.ops.values()]
    if program.library:
        parts.append(_field(_LIBRARY, program.library))
    if program.versions:
        parts.append(_field(_VERSIONS, program.versions))
    size = sum(len(part) for part in parts)
    if size > LARGEST:
        raise CaptureError(
            f"the graph takes {size} bytes, and a protocol buffer holds {LARGEST}",
            fix="keep data out of the graph: feed it or read it by tf.data instead of making constants of it",
        )
    return b"".join(parts)


def restore_notes(program: Program) -> Program:
    """The program with the forward ops that an earlier lowering wrote into it."""
    noted = {name: op for name, op in program.ops.items() if op.forward is None and FORWARD_ATTRIBUTE in op.attrs}
    if not noted:
        return program
    ops = dict(program.ops)
    for name, op in noted.items():
        ops[name] = dataclasses.replace(op, forward=str(op.attrs[FORWARD_ATTRIBUTE]))
    return dataclasses.replace(program, ops=ops)


def _node(op: Op) -> bytes:
    parts = [_text(_NAME, op.name), _text(_TYPE, op.type)]
    for tensor in op.inputs:
        name, _, index = tensor.rpartition(":")
        parts.append(_text(_INPUT, name if index == "0" else tensor))
    parts.extend(_text(_INPUT, f"^{control}") for control in op.controls)
    if op.device:
        parts.append(_text(_DEVICE, op.device))
    parts.extend(raw for field, raw in _fields(op.node) if field >= _ATTRIBUTE)
    if op.forward is not None and FORWARD_ATTRIBUTE not in op.attrs:
        parts.append(_attribute(FORWARD_ATTRIBUTE, _text(_STRING, op.forward)))
    if op.outputs and _SHAPES_ATTRIBUTE not in op.attrs:
        shapes = b"".join(_field(_SHAPE, _shape(kind.shape)) for kind in op.outputs)
        parts.append(_attribute(_SHAPES_ATTRIBUTE, _field(_LIST, shapes)))
    return b"".join(parts)


def _attribute(name: str, value: bytes) -> bytes:
    return _field(_ATTRIBUTE, _text(_KEY, name) + _field(_VALUE, value))


@functools.lru_cache(maxsize=4096)
def _shape(shape: Shape) -> bytes:
    """A TensorShapeProto; an unknown dim is -1, in 64 bits."""
    if shape is None:
        return _varint(_UNKNOWN_RANK << 3 | _VARINT) + b"\x01"
    tag = _varint(_SIZE << 3 | _VARINT)
    return b"".join(_field(_DIM, tag + _varint((-1 if size is None else size) % 2**64)) for size in shape)


def _text(number: int, value: str) -> bytes:
    return _field(number, value.encode())


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message: number, and the bytes of the field with its tag.

    Raises:
        CaptureError: the bytes are no message.
    """
    at = 0
    while at < len(data):
        start = at
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _read_varint(data, at)
        elif kind == _BYTES:
            size, at = _read_varint(data, at)
            at += size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise CaptureError(f"byte {start} of a node begins no field of a protocol buffer")
        yield tag >> 3, data[start:at]
