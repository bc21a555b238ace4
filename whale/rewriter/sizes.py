"""How many samples each copy has: as numbers where the script fixed the batch, as nodes of the graph elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from whale.rewriter.build import Builder, Place
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
    """Makes the int32 scalar with the number of samples that a copy drew."""

    def number(self, batch: int, which: str, replica: int = 0) -> int | None:
        """``count``, ``share`` or ``offset`` as a number; None when the batch size is open."""
        static = self.batches[batch].static
        if static is None:
            return None
        if self.drawn(batch):
            return {"count": static * len(self.shares), "share": static, "offset": static * replica}[which]
        offsets = bounds(static, self.shares)
        return {"count": static, "offset": offsets[replica], "share": offsets[replica + 1] - offsets[replica]}[which]

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
        if self.drawn(batch):
            return self._drawn(batch, which, replica)
        count = self.count_node(self.home, batch)
        if which == "count":
            return count
        begin = self._bound(count, replica)
        if which == "offset":
            return begin
        return self.builder.binary(self.home, "Sub", self._bound(count, replica + 1), begin, "int32")

    def _drawn(self, batch: int, which: str, replica: int) -> str:
        """Sizes of a batch that the copies drew: what each has, and sums of these."""
        assert self.rows_node is not None
        if which == "share":
            return self.rows_node(batch, replica)
        copies = range(len(self.shares) if which == "count" else replica)
        if not copies:
            return self.builder.const(self.home, 0, "int32")
        return self.builder.add_n(self.home, [self.rows_node(batch, r) for r in copies], "int32")

    def _bound(self, count: str, replica: int) -> str:
        build, total = self.builder, sum(self.shares)
        running = build.const(self.home, sum(self.shares[:replica]), "int32")
        product = build.binary(self.home, "Mul", count, running, "int32")
        return build.binary(self.home, "FloorDiv", product, build.const(self.home, total, "int32"), "int32")
