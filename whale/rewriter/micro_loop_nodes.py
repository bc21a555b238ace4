"""The nodes of one loop over micro-batches: counter, condition, what enters, what is carried, what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.framework import attr_value_pb2, node_def_pb2

from whale.rewriter.build import type_attr
from whale.rewriter.frames import producer
from whale.rewriter.node_types import input_types
from whale.rewriter.shadow import Origin, set_attributes
from whale.sharding.order import ENTERS, MERGES

if TYPE_CHECKING:
    from whale.rewriter.micro_loop import Wrapping

SUM, ROWS = "_WhaleSum", "_WhaleRows"
MARKS = (SUM, ROWS)
"""Op types of marks: they never reach TensorFlow. ``dim`` of rows is the dim they are joined along, ``rank`` theirs.

The mark of a value in a branch of a conditional has two inputs more: what is there only where the branch is taken, and
what is there only where it is not.
"""


class Loop:
    """One loop, in the making."""

    def __init__(
        self, wrapping: Wrapping, number: int, copy: int, body: Sequence[str], taken: set[str], after: str
    ) -> None:
        self.all = wrapping
        self.copy = copy
        self.home = wrapping.devices[copy]
        self.taken = taken
        """Names of nodes that earlier loops have."""
        self.number = number
        self.body = set(body)
        self.order = body
        self.made: list[node_def_pb2.NodeDef] = []
        self.renamed: dict[str, str] = {}
        self.entered: dict[tuple[str, str], str] = {}
        self.waits: dict[str, None] = {f"^{after}": None} if after else {}
        """What the script, or the order of writes, makes a micro-batch wait for: the loop begins after it, and after
        the end of the loop before it, so that no two hold activations."""
        unique = wrapping.shadow.unique
        self.frame = f"{wrapping.prefix}replica_{copy}/whale/micro_batches_{number}"
        self.counter = unique(f"{self.frame}/index")
        self.exit = unique(f"{self.frame}/end")
        self.loop_cond = unique(f"{self.frame}/more")

    def build(self) -> list[node_def_pb2.NodeDef]:
        """The nodes of the loop: copies of its body, one variable per mark, the counter."""
        wrapping = self.all
        for name in self.order:
            if name in self.taken and not wrapping.is_mark(name):
                self.renamed[name] = wrapping.shadow.unique(f"{name}/again_{self.number}")
        for name in self.order:
            if not wrapping.is_mark(name):
                self._copy(wrapping.nodes[name])
        for name in self.order:
            if wrapping.is_mark(name) and wrapping.level[name] == self.number:
                self._carry(wrapping.nodes[name])
        self._count()
        return self.made

    def _copy(self, node: node_def_pb2.NodeDef) -> None:
        copy = node_def_pb2.NodeDef()
        copy.CopyFrom(node)
        copy.name = self.renamed.get(node.name, node.name)
        if self.number > 1 and copy.op in ENTERS:  # also of nodes that only this loop has: a frame is one loop's
            copy.attr["frame_name"].s += f"/again_{self.number}".encode()
        del copy.input[:]
        types = input_types(node)
        data = [text for text in node.input if not text.startswith("^")]
        for text, (kind, is_ref) in zip(data, types):
            value = self._read(text, kind, is_ref, node.device)
            copy.input.append(self._mergeable(value, kind, node.device) if copy.op in MERGES else value)
        for text in node.input:
            if text.startswith("^"):
                name = text[1:]
                if name in self.body:
                    copy.input.append(f"^{self.renamed.get(name, name)}")
                elif name in self.all.conditional:
                    copy.input.append(f"^{self._entered_life(name)}")
                elif name not in self.all.level:
                    self.waits.setdefault(text)
        self._add(copy, self.all.shadow.origins[node.name])

    def _read(self, text: str, kind: int, is_ref: bool, device: str) -> str:
        """What a node of the loop reads in place of one of its inputs."""
        name = producer(text)
        if name == self.all.index:
            return f"{self.counter}:0"
        if name in self.body and not self.all.is_mark(name):
            return (
                f"{self.renamed.get(name, name)}:{text.rpartition(':')[2]}"
                if ":" in text
                else self.renamed.get(name, name)
            )
        key = (text, device)
        if key not in self.entered:
            attrs = {"T": attr_value_pb2.AttrValue(type=kind), "is_constant": True}
            self.entered[key] = self._node(
                "RefEnter" if is_ref else "Enter", [text], "enter", device, {**attrs, **self._frame()}
            )
        return self.entered[key]

    def _mergeable(self, value: str, kind: int, device: str) -> str:
        """What a conditional's Merge reads in the loop.

        TensorFlow takes a Merge that reads a dead Enter for that of a loop which is not gone through: dead at once.
        Its graph optimizer would take an identity between them away, but for one that waits for something.
        """
        if value not in self.entered.values():
            return value
        attrs = {"T": attr_value_pb2.AttrValue(type=kind)}
        return self._node("Identity", [value, f"^{self.counter}"], "given", device, attrs)

    def _entered_life(self, name: str) -> str:
        """A node of the loop that lives and dies with one outside of it, which may have no output."""
        key = (f"^{name}", self.home)
        if key not in self.entered:
            token = self._constant(np.int32(0), self.home, (f"^{name}",))
            attrs = {"T": type_attr("int32"), "is_constant": True, **self._frame()}
            self.entered[key] = self._node("Enter", [token], "enter", self.home, attrs)
        return producer(self.entered[key])

    def _frame(self) -> Mapping[str, object]:
        return {"frame_name": self.frame, "parallel_iterations": 1}

    def _carry(self, mark: node_def_pb2.NodeDef) -> None:
        """The variable of the loop that a mark stands for; its last value takes the mark's name."""
        kind = mark.attr["T"]
        value = self._read(mark.input[0], kind.type, False, mark.device)
        life = f"^{producer(mark.input[1])}" if len(mark.input) > 1 else ""
        if mark.op == SUM:
            value = self._or_nothing(mark, value)
            zero = self._constant(_zero(kind.type), mark.device)
            total = self.all.shadow.unique(f"{self.frame}/total")
            self._variable(
                zero,
                kind,
                mark.device,
                lambda held: self._node("AddV2", [held, value], "sum", mark.device, {"T": kind}),
                total,
            )
            self._shaped(f"{total}:0", mark, life)
            return
        self._rows(mark, value, kind, life)

    def _or_nothing(self, mark: node_def_pb2.NodeDef, value: str) -> str:
        """The value of a mark, or a zero where its branch is not taken: what a loop carries must never be dead."""
        if len(mark.input) == 1:
            return value
        kind, device = mark.attr["T"], mark.device
        absent = self._entered_life(producer(mark.input[2]))
        zero = self._constant(_zero(kind.type), device, (f"^{absent}",))
        inputs = [self._mergeable(value, kind.type, device), zero]
        return self._node("Merge", inputs, "or_nothing", device, {"T": kind, "N": 2})

    def _rows(self, mark: node_def_pb2.NodeDef, value: str, kind: attr_value_pb2.AttrValue, life: str) -> None:
        """Rows written to an array, micro-batch by micro-batch, and joined at the end."""
        device, dim, rank = mark.device, mark.attr["dim"].i, mark.attr["rank"].i
        front = [dim, *(i for i in range(rank) if i != dim)]
        value = self._or_nothing(mark, self._transposed(value, front, kind, device, inside=True))
        size = self._constant(np.int32(self.all.micro_batches), device)
        array = self._node(
            "TensorArrayV3", [size], "rows", device, {"dtype": kind, "element_shape": _unknown()}, many=True
        )
        handle = self._node(
            "Enter", [f"{array}:0"], "enter", device, {"T": type_attr("resource"), "is_constant": True, **self._frame()}
        )
        index = f"{self.counter}:0"
        flow = self.all.shadow.unique(f"{self.frame}/flow")
        self._variable(
            f"{array}:1",
            type_attr("float32"),
            device,
            lambda held: self._node("TensorArrayWriteV3", [handle, index, value, held], "write", device, {"T": kind}),
            flow,
        )
        back = [front.index(i) for i in range(rank)]
        attrs = {"dtype": kind, "element_shape_except0": _unknown()}
        read = [f"{array}:0", f"{flow}:0", *([life] if life else [])]
        joined = self._node("TensorArrayConcatV3", read, "joined", device, attrs, many=True)
        self._shaped(self._transposed(f"{joined}:0", back, kind, device, inside=False), mark, life)

    def _shaped(self, value: str, mark: node_def_pb2.NodeDef, life: str) -> None:
        """Names what leaves the loop, and says its shape: kernels' shape functions fail on a rank they cannot tell."""
        attrs = {"T": mark.attr["T"], "shape": mark.attr["shape"]}
        self._node("EnsureShape", [value, *([life] if life else [])], "shaped", mark.device, attrs, name=mark.name)

    def _transposed(
        self, value: str, order: list[int], kind: attr_value_pb2.AttrValue, device: str, inside: bool
    ) -> str:
        if order == list(range(len(order))):
            return value
        permutation = self._constant(np.asarray(order, np.int32), device)
        if inside:
            permutation = self._read(permutation, type_attr("int32").type, False, device)
        return self._node(
            "Transpose",
            [value, permutation],
            "turned",
            device,
            {"T": kind, "Tperm": type_attr("int32")},
        )

    def _variable(
        self, start: str, kind: attr_value_pb2.AttrValue, device: str, step: Callable[[str], str], exit_name: str
    ) -> None:
        """A variable of the loop: from ``start``, changed by ``step`` in each iteration, at last ``exit_name``."""
        attrs = {"T": kind}
        enter = self._node("Enter", [start], "start", device, {**attrs, "is_constant": False, **self._frame()})
        after = self.all.shadow.unique(f"{self.frame}/next")
        merge = self._node("Merge", [enter, f"{after}:0"], "held", device, {**attrs, "N": 2})
        switch = self._node("Switch", [merge, f"{self.loop_cond}:0"], "if", device, attrs, many=True)
        changed = step(f"{switch}:1")
        self._node("NextIteration", [changed], "next", device, attrs, name=after)
        self._node("Exit", [f"{switch}:0"], "end", device, attrs, name=exit_name)

    def _count(self) -> None:
        """The counter, and the question whether there is another micro-batch."""
        home, integer = self.home, type_attr("int32")
        # Not the Enter waits: a loop over several devices would not start.
        zero = self._constant(np.int32(0), home, tuple(self.waits))
        enter = self._node("Enter", [zero], "start", home, {"T": integer, "is_constant": False, **self._frame()})
        after = self.all.shadow.unique(f"{self.frame}/next")
        merge = self._node("Merge", [enter, f"{after}:0"], "held", home, {"T": integer, "N": 2})
        limit = self._read(self._constant(np.int32(self.all.micro_batches), home), integer.type, False, home)
        less = self._node("Less", [merge, limit], "less", home, {"T": integer})
        self._node("LoopCond", [less], "more", home, {}, name=self.loop_cond)
        switch = self._node("Switch", [merge, f"{self.loop_cond}:0"], "if", home, {"T": integer}, many=True)
        self._node("Identity", [f"{switch}:1"], "index", home, {"T": integer}, name=self.counter)
        one = self._read(self._constant(np.int32(1), home), integer.type, False, home)
        plus = self._node("AddV2", [f"{self.counter}:0", one], "plus", home, {"T": integer})
        self._node("NextIteration", [plus], "next", home, {"T": integer}, name=after)
        self._node("Exit", [f"{switch}:0"], "end", home, {"T": integer}, name=self.exit)

    def _constant(self, value: object, device: str, controls: Sequence[str] = ()) -> str:
        array = np.asarray(value)
        proto = attr_value_pb2.AttrValue(tensor=tf.make_tensor_proto(array))
        return self._node("Const", controls, "const", device, {"dtype": type_attr(array.dtype.name), "value": proto})

    def _node(
        self,
        op_type: str,
        inputs: Sequence[str],
        hint: str,
        device: str,
        attrs: Mapping[str, object],
        many: bool = False,
        name: str = "",
    ) -> str:
        """A new node; returns its first output, or its name where it has several."""
        node = node_def_pb2.NodeDef(op=op_type, device=device)
        node.name = name or self.all.shadow.unique(f"{self.frame}/{hint}")
        node.input.extend(inputs)
        set_attributes(node, attrs)
        self._add(node, Origin("", self.copy, own=op_type))
        return node.name if many else f"{node.name}:0"

    def _add(self, node: node_def_pb2.NodeDef, origin: Origin) -> None:
        self.made.append(node)
        self.all.shadow.origins[node.name] = origin


def _zero(kind: int) -> np.ndarray:
    dtype = tf.as_dtype(kind)
    return np.asarray(b"", object) if dtype == tf.string else np.zeros((), dtype.as_numpy_dtype)


def _unknown() -> attr_value_pb2.AttrValue:
    return attr_value_pb2.AttrValue(shape=tf.TensorShape(None).as_proto())
