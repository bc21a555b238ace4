"""How many samples each copy has: as numbers where the script fixed the batch, as nodes of the graph elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from whale.rewriter.build import Builder, Place, type_attr
from whale.sharding.batches import Batches, bounds


@dataclasses.dataclass
class BatchSizes:
    """Sizes of the batches of one run."""

    builder: Builder
    batches: Batches
    shares: tuple[int, ...]
    """Relative share of each copy."""
    count_node: Callable[[Place, int], str]
    """Makes the int32 scalar with the size of a batch, at home."""
    home: Place
    """Where sizes are worked out."""
    drawn: Callable[[int], bool] = lambda batch: False
    """Whether every copy draws its own samples of a batch."""
    rows_node: Callable[[int, int], str] | None = None
    """Makes the int32 scalar with the number of samples of one of the draws, which are numbered copy by copy."""
    micro_batches: int = 1
    """Micro-batches that each copy takes one after another. ``share`` and ``offset`` speak of the one under way."""
    index: str = ""
    """The int32 scalar with the number of the micro-batch under way."""
    place_of: Callable[[int], Place] | None = None
    """Where the sizes of a copy's micro-batch are worked out."""

    def number(self, batch: int, which: str, replica: int = 0) -> int | None:
        """``count``, ``share`` or ``offset`` as a number; None when the batch size is open."""
        static = self.batches[batch].static
        if static is None:
            return None
        offsets = self._offsets(batch, static)
        if which == "count":
            return offsets[-1]
        own = offsets[replica * self.micro_batches : (replica + 1) * self.micro_batches + 1]
        lengths = {end - begin for begin, end in zip(own, own[1:])}
        if which == "share":
            return lengths.pop() if len(lengths) == 1 else None
        return own[0] if self.micro_batches == 1 else None

    def _offsets(self, batch: int, static: int) -> list[int]:
        """Where the samples of each piece begin, and where the last one's end, of a batch whose size is known."""
        pieces = [share for share in self.shares for _ in range(self.micro_batches)]
        return [static * i for i in range(len(pieces) + 1)] if self.drawn(batch) else bounds(static, pieces)

    def own(self, batch: int) -> bool:
        """Whether the size that the script wrote for a batch is that of each copy's own draw."""
        return self.batches[batch].static is not None and self.drawn(batch)

    @property
    def averages(self) -> bool:
        """Whether sums over the copies are averages: the script's sizes, and so its means, are each copy's own."""
        return any(self.own(b) for b in self.batches.roots())

    def scalar(self, place: Place, batch: int, which: str, replica: int | None = None) -> str:
        """``count``, ``share`` or ``offset`` as an int32 scalar on a copy, inside its loop frame if it has one."""
        replica = place.replica if replica is None else replica
        number = self.number(batch, which, replica)
        if number is not None:
            return self.builder.const(place, number, "int32")
        value = self._outside(self.batches.find(batch), which, replica)
        return place.enter(value, "int32") if place.enter is not None else value

    def _outside(self, batch: int, which: str, replica: int) -> str:
        if which == "count":
            return self._count(batch)
        if self.micro_batches > 1:
            return self._of_micro_batch(batch, which, replica)
        if self.drawn(batch):
            return self._drawn(batch, which, replica)
        begin = self._bound(self._count(batch), replica)
        if which == "offset":
            return begin
        return self.builder.binary(self.home, "Sub", self._bound(self._count(batch), replica + 1), begin, "int32")

    def _count(self, batch: int) -> str:
        if not self.drawn(batch):
            return self.count_node(self.home, batch)
        assert self.rows_node is not None
        draws = range(len(self.shares) * self.micro_batches)
        return self.builder.add_n(self.home, [self.rows_node(batch, d) for d in draws], "int32")

    def _drawn(self, batch: int, which: str, replica: int) -> str:
        """Sizes of a batch that the copies drew: what each has, and sums of these."""
        assert self.rows_node is not None
        if which == "share":
            return self.rows_node(batch, replica)
        if not replica:
            return self.builder.const(self.home, 0, "int32")
        return self.builder.add_n(self.home, [self.rows_node(batch, r) for r in range(replica)], "int32")

    def _bound(self, count: str, replica: int) -> str:
        build, total = self.builder, sum(self.shares)
        running = build.const(self.home, sum(self.shares[:replica]), "int32")
        product = build.binary(self.home, "Mul", count, running, "int32")
        return build.binary(self.home, "FloorDiv", product, build.const(self.home, total, "int32"), "int32")

    # -- micro-batches -----------------------------------------------------------------------------------------

    def _of_micro_batch(self, batch: int, which: str, replica: int) -> str:
        assert self.place_of is not None
        edges, place = self.edges(batch, replica), self.place_of(replica)
        begin = self._at(place, edges, self.index)
        if which == "offset":
            return begin
        one = self.builder.const(place, 1, "int32")
        end = self._at(place, edges, self.builder.binary(place, "AddV2", self.index, one, "int32"))
        return self.builder.binary(place, "Sub", end, begin, "int32")

    def first(self, batch: int, replica: int) -> str:
        """Where a copy's samples begin, as an int32 scalar."""
        return self._at(self.home, self.edges(batch, replica), self.builder.const(self.home, 0, "int32"))

    def edges(self, batch: int, replica: int) -> str:
        """Where the samples of a copy's micro-batches begin, and where the last one's end: an int32 vector of M + 1."""
        build, home, micro = self.builder, self.home, self.micro_batches
        batch = self.batches.find(batch)
        static = self.batches[batch].static
        if static is not None:
            offsets = self._offsets(batch, static)
            return build.const(home, offsets[replica * micro : (replica + 1) * micro + 1], "int32")
        if self.drawn(batch):
            assert self.rows_node is not None
            rows = [self.rows_node(batch, d) for d in range(replica * micro, (replica + 1) * micro)]
            before = self._drawn_before(batch, replica)
            attrs = {"T": type_attr("int32"), "Tidx": type_attr("int32"), "exclusive": False, "reverse": False}
            steps = build.pack(home, [before, *rows], "int32")
            return build.node(home, "Cumsum", [steps, build.const(home, 0, "int32")], "whale/edges", attrs)
        share, before = self.shares[replica], micro * sum(self.shares[:replica])
        running = build.const(home, [before + share * m for m in range(micro + 1)], "int32")
        product = build.binary(home, "Mul", self._count(batch), running, "int32")
        return build.binary(home, "FloorDiv", product, build.const(home, micro * sum(self.shares), "int32"), "int32")

    def _drawn_before(self, batch: int, replica: int) -> str:
        assert self.rows_node is not None
        if not replica:
            return self.builder.const(self.home, 0, "int32")
        draws = range(replica * self.micro_batches)
        return self.builder.add_n(self.home, [self.rows_node(batch, d) for d in draws], "int32")

    def _at(self, place: Place, vector: str, index: str) -> str:
        kind = type_attr("int32")
        attrs = {"Tparams": kind, "Tindices": kind, "Taxis": kind, "batch_dims": 0}
        axis = self.builder.const(place, 0, "int32")
        return self.builder.node(place, "GatherV2", [vector, index, axis], "whale/edge", attrs)
