"""Where batches enter a run: values fed, drawn at home and cut, or drawn by every copy for itself."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tensorflow.core.framework import attr_value_pb2

from whale.ir.placement import Sharded
from whale.ir.program import split_tensor
from whale.rewriter.build import Place, shape_attr, type_attr
from whale.rewriter.draws import draw
from whale.rewriter.loop_checks import Unloopable
from whale.rewriter.mesh import Feed

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


class Entries:
    """Pieces and sizes of the source tensors of a lowering, each made once."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.fed: dict[str, Feed] = {}
        """What the run feeds into the shadow graph."""
        self._pieces: dict[tuple[str, Sharded, int], str] = {}
        self._draws: dict[str, list[list[str]]] = {}

    def whole(self, tensor: str) -> str:
        """The node output holding a source tensor whole, at home."""
        low = self.lowering
        if tensor in low.feeds:
            return self.given(tensor)
        cut = low.fact(tensor).sharded
        if cut is not None and self.is_draw(tensor):
            pieces = [self._draw(tensor, d) for d in range(len(low.copies) * low.mesh.micro_batches)]
            return low.builder.concat(low.home, pieces, cut.dim, low.dtype(tensor))
        return low.tensors[tensor, 0]

    def given(self, tensor: str) -> str:
        """The node output that a fed value arrives at, whole.

        Only a placeholder is fed itself. Where another op is, TensorFlow's optimizer may leave a control edge on it (a
        known shape made a constant), and the op would run after all.
        """
        low = self.lowering
        producer = low.program.ops.get(split_tensor(tensor)[0])
        node = tensor
        if producer is not None and not producer.type.startswith("Placeholder"):
            attrs = {"dtype": type_attr(low.dtype(tensor)), "shape": shape_attr(low.feeds[tensor].shape)}
            hint = f"feed/{tensor.replace(':', '_')}"
            node = low.builder.node(low.home, "Placeholder", [], hint, attrs, key=("given", tensor))
        self.fed.setdefault(node, Feed(node, tensor, "whole"))
        return node

    def piece(self, tensor: str, replica: int) -> str:
        """The node output holding a copy's piece of a source tensor."""
        low = self.lowering
        fact = low.fact(tensor)
        cut = fact.sharded
        if cut is None:
            return self.whole(tensor)
        key = (tensor, cut, replica)
        if key in self._pieces:
            return self._pieces[key]
        dtype = low.dtype(tensor)
        if tensor in low.feeds:
            name = split_tensor(tensor)[0]
            attrs = {"dtype": type_attr(dtype), "shape": shape_attr(None)}
            place = Place(name, replica, low.mesh.device(name, replica))
            hint = f"feed/{tensor.replace(':', '_')}"
            node = low.builder.node(place, "Placeholder", [], hint, attrs, key=("piece", tensor, cut.dim, replica))
            self.fed[node] = Feed(node, tensor, "piece", replica, cut.dim)
            self._pieces[key] = self._micro_batch(place, node, cut, fact.rank, dtype)
        elif self.is_draw(tensor):
            name, micro = split_tensor(tensor)[0], low.mesh.micro_batches
            draws = [self._draw(tensor, d) for d in range(replica * micro, (replica + 1) * micro)]
            place = Place(name, replica, low.mesh.device(name, 0))
            drawn = low.builder.concat(place, draws, cut.dim, dtype)
            self._pieces[key] = self._micro_batch(place, drawn, cut, fact.rank, dtype)
        else:
            name = split_tensor(tensor)[0]
            place = Place(name, replica, low.mesh.device(name, 0))
            whole = self.agreeing(tensor, self.whole(tensor), cut)
            self._pieces[key] = low.bridges.piece(place, whole, cut, fact.dims, dtype)
        return self._pieces[key]

    def _micro_batch(self, place: Place, value: str, cut: Sharded, rank: int | None, dtype: str) -> str:
        """The micro-batch under way out of a copy's samples, where the copy takes several."""
        if self.lowering.mesh.micro_batches == 1:
            return value
        if rank is None:
            raise Unloopable(f"the rank of '{place.op}' is unknown")
        return self.lowering.bridges.micro_batch(place, value, cut, rank, dtype)

    def agreeing(self, tensor: str, whole: str, cut: Sharded) -> str:
        """A whole tensor whose samples are about to be taken, checked to have as many as its batch.

        Plain TensorFlow refuses the run where the two meet. Cut by the size of another, pieces of a tensor with more
        samples would lose some in silence. Sizes that are known before a run are compared there.
        """
        low = self.lowering
        batch = low.analysis.batches[cut.batch]
        leader = batch.sources[0]
        shape = low.feeds[tensor].shape if tensor in low.feeds else low.program.tensor(tensor).shape
        known = shape is not None and shape[cut.dim] is not None
        counted = tensor == leader and batch.static is None
        if known or counted or not cut.plain or (tensor in low.feeds and (leader in low.feeds or batch.static)):
            return whole
        build, place, dtype = low.builder, low.home, low.dtype(tensor)
        own = build.element(place, build.shape(place, whole, dtype), cut.dim, "int32")
        count = low.sizes.scalar(place, cut.batch, "count")
        attrs = {"T": type_attr("int32"), "incompatible_shape_error": True}
        equal = build.node(place, "Equal", [own, count], "whale/equal", attrs)
        said = [f"Incompatible shapes: the batch of '{tensor}' has", f"samples, that of '{leader}'"]
        words = [build.const(place, text, "string") for text in said]
        kinds = attr_value_pb2.AttrValue.ListValue(type=[type_attr(t).type for t in ("string", "int32") * 2])
        attrs = {"T": attr_value_pb2.AttrValue(list=kinds), "summarize": 3}
        served = dataclasses.replace(place, op=split_tensor(tensor)[0])
        data = [words[0], own, words[1], count]
        check = build.node(served, "Assert", [equal, *data], "whale/same_batch", attrs).rpartition(":")[0]
        return build.node(served, "Identity", [whole], "whale/checked", {"T": type_attr(dtype)}, [check])

    def is_draw(self, tensor: str) -> bool:
        """Whether every copy draws a source tensor for itself."""
        low = self.lowering
        return low.mesh.local and tensor in low.sources and tensor not in low.feeds

    def is_drawn(self, batch: int) -> bool:
        """Whether every copy draws its own samples of a batch."""
        return self.is_draw(self.lowering.analysis.batches[batch].sources[0])

    def _draw(self, tensor: str, number: int) -> str:
        low = self.lowering
        name, index = split_tensor(tensor)
        if name not in self._draws:
            self._draws[name] = draw(low, low.ops[name])
        return self._draws[name][number][index]

    def rows(self, batch: int, number: int) -> str:
        """The int32 number of samples of a draw; draws are numbered copy by copy."""
        low = self.lowering
        leader = low.analysis.batches[batch].sources[0]
        shape = low.builder.shape(low.home, self._draw(leader, number), low.dtype(leader))
        return low.builder.element(low.home, shape, low.sources[leader].dim, "int32")

    def count(self, place: Place, batch: int) -> str:
        """The int32 number of samples of a batch whose size is open."""
        low = self.lowering
        leader = low.analysis.batches[batch].sources[0]
        source = low.sources[leader]
        if leader in low.feeds:
            count = f"count:{leader}"
            if count not in self.fed:
                attrs = {"dtype": type_attr("int32"), "shape": shape_attr(())}
                key = ("count", leader, source.dim)
                node = low.builder.node(place, "Placeholder", [], f"feed/batch_{batch}", attrs, key=key)
                self.fed[count] = Feed(node, leader, "count", 0, source.dim)
            return self.fed[count].node
        shape = low.builder.shape(place, self.whole(leader), low.dtype(leader))
        return low.builder.element(place, shape, source.dim, "int32")
