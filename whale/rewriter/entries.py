"""Where batches enter a run: values fed, drawn at home and cut, or drawn by every copy for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whale.ir.placement import Sharded
from whale.ir.program import split_tensor
from whale.rewriter.build import Place, shape_attr, type_attr
from whale.rewriter.draws import draw
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
            pieces = [self._draw(tensor, r) for r in low.replicas]
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
            place = Place(name, replica, low.mesh.devices[replica])
            hint = f"feed/{tensor.replace(':', '_')}"
            node = low.builder.node(place, "Placeholder", [], hint, attrs, key=("piece", tensor, cut.dim, replica))
            self.fed[node] = Feed(node, tensor, "piece", replica, cut.dim)
            self._pieces[key] = node
        elif self.is_draw(tensor):
            self._pieces[key] = self._draw(tensor, replica)
        else:
            place = Place(split_tensor(tensor)[0], replica, low.mesh.devices[0])
            self._pieces[key] = low.bridges.piece(place, self.whole(tensor), cut, fact.dims, dtype)
        return self._pieces[key]

    def is_draw(self, tensor: str) -> bool:
        """Whether every copy draws a source tensor for itself."""
        low = self.lowering
        return low.mesh.local and tensor in low.sources and tensor not in low.feeds

    def is_drawn(self, batch: int) -> bool:
        """Whether every copy draws its own samples of a batch."""
        return self.is_draw(self.lowering.analysis.batches[batch].sources[0])

    def _draw(self, tensor: str, replica: int) -> str:
        low = self.lowering
        name, index = split_tensor(tensor)
        if name not in self._draws:
            self._draws[name] = draw(low, low.ops[name])
        return self._draws[name][replica][index]

    def rows(self, batch: int, replica: int) -> str:
        """The int32 number of samples that a copy drew."""
        low = self.lowering
        leader = low.analysis.batches[batch].sources[0]
        shape = low.builder.shape(low.home, self._draw(leader, replica), low.dtype(leader))
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
