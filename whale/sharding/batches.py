"""The batches of a run: one per source, joined when a rule makes their dims meet."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from whale.ir import dims as D
from whale.ir.dims import Dim


def bounds(count: int, shares: Sequence[int]) -> list[int]:
    """Where each copy's samples begin, and where the last one's end.

    Copy ``r`` has samples ``offset_r = n * cum_r // total`` up to ``offset_{r+1}``, where ``cum`` are the running
    totals of the shares: equal shares differ by at most one sample, and every sample is with exactly one copy.

    Args:
        count: samples in the batch.
        shares: relative share of each copy, integers >= 0, not all zero.
    """
    total, running = sum(shares), 0
    offsets = [0]
    for share in shares:
        running += share
        offsets.append(count * running // total)
    return offsets


@dataclasses.dataclass
class Batch:
    """The samples of one or more sources, cut together."""

    sources: list[str]
    """Source tensors, the leading one first."""
    static: int | None
    """Size written in the script's shapes, or None when the script leaves it open."""
    count: int | None
    """Size in the run at hand, where it is known before the run."""


class Batches:
    """Batches by number, with union-find over them."""

    def __init__(self, shares: Sequence[int] = (), known: Mapping[str, int] = MappingProxyType({})) -> None:
        self.shares = tuple(shares)
        """Relative share of each copy; empty where the copies are not known."""
        self.known = known
        """Sizes in this run of dims that the script leaves open, by name."""
        self.sure = True
        """Whether all sizes that the graph states are true."""
        self.never_short = False
        """Whether a batch whose size is known before the run has a sample for every copy, in every run like this."""
        self.clash: tuple[Dim, Dim] | None = None
        """Two sizes, neither of them one, that must be equal and are not in this run: TensorFlow refuses it."""
        self._batches: list[Batch] = []
        self._parent: list[int] = []
        self._aliases: dict[str, Dim] = {}
        self.stale = False
        """Set when something was learned that facts found earlier do not know: they must be found again."""
        self.pinned: set[int] = set()
        """Batches whose size in this run the analysis relied on."""

    def add(self, source: str, static: int | None, count: int | None) -> int:
        """A batch of its own for a source tensor; ``count`` is its size in this run if known."""
        self._batches.append(Batch([source], static, static if static is not None else count))
        self._parent.append(len(self._parent))
        return len(self._batches) - 1

    def find(self, batch: int) -> int:
        """The number of the batch that this one was joined to."""
        while self._parent[batch] != batch:
            batch = self._parent[batch]
        return batch

    def __getitem__(self, batch: int) -> Batch:
        return self._batches[self.find(batch)]

    def roots(self) -> list[int]:
        """Numbers of the distinct batches."""
        return [b for b in range(len(self._batches)) if self._parent[b] == b]

    def size(self, batch: int) -> Dim:
        """Global number of samples, as shapes speak of it."""
        found = self[batch]
        return found.static if found.static is not None else D.symbol(f"n{self.find(batch)}")

    def open(self, name: str) -> Dim:
        """The size of a dim that is not known before the run: a symbol, or what it was found to equal."""
        found = self._aliases.get(name)
        if found is None:
            return D.symbol(name)
        inner = _bare(found)
        if inner is not None and inner != name:
            return self.open(inner)
        return D.substitute(found, {f"n{b}": self.size(b) for b in range(len(self._batches))})

    def equate(self, size: Dim, other: Dim) -> bool:
        """Whether two sizes that meet in an element-wise op are one; open ones are taken to be.

        Element-wise operands of another size than one are equal. Sizes of fed values are known; a size of one that only
        the run shows is not met in practice, and would fail loudly.
        """
        size, other = self._settled(size), self._settled(other)
        if size == other:
            return True
        if self.differ(size, other):
            return False
        counts = [self._batch_named(d) for d in (size, other)]
        if counts[0] is not None and counts[1] is not None:
            return self.meet(counts[0], counts[1])
        for one, two in ((size, other), (other, size)):
            name = _bare(one)
            if name is not None and not isinstance(two, int) and name not in D.symbols_of(two) and not D.is_either(two):
                self._aliases[name] = two
                self.stale = True
                return True
        return False

    def differ(self, size: Dim, other: Dim) -> bool:
        """Whether two sizes are known to be different in this run."""
        sizes = self.number(size), self.number(other)
        return None not in sizes and sizes[0] != sizes[1]

    def number(self, size: Dim) -> int | None:
        """A size in this run, where it is known before it."""
        if isinstance(size, int):
            return size
        counts = {f"n{b}": self._batches[b].count for b in self.roots()}
        return D.evaluate(size, {**self.known, **{name: n for name, n in counts.items() if n is not None}})

    def must_agree(self, size: Dim, other: Dim) -> bool:
        """Takes note of two sizes that TensorFlow wants to be equal; False where they are known to be different."""
        if not self.sure or not self.differ(size, other):
            return True
        if self.clash is None and 1 not in (self.number(size), self.number(other)):
            self.clash = size, other
        return False

    def equate_products(self, total: Dim, other: Dim) -> None:
        """Takes two numbers of elements to be one, as before and after a reshape: open sizes and batches in them."""
        size, other = D.reduced(total, other)
        if not isinstance(size, int) and not isinstance(other, int):
            self.equate(size, other)

    def _batch_named(self, size: Dim) -> int | None:
        """The batch whose size is a symbol and is just this size."""
        return next((b for b in self.roots() if isinstance(size, D.Poly) and self.size(b) == size), None)

    def _settled(self, size: Dim) -> Dim:
        """A size with what is known of it by now, where it is one open symbol."""
        name = _bare(size)
        return size if name is None else self.open(name)

    def fix(self, batch: int, size: Dim) -> None:
        """Takes a batch of open size that meets a size written in the script to be of that size."""
        found = self[batch]
        if isinstance(size, int) and found.static is None and found.count in (None, size):
            found.static = found.count = size
            self.pinned.add(self.find(batch))
            self.stale = True

    def pin(self, batch: int) -> int | None:
        """The number of samples in this run; the analysis then holds only for runs of this size."""
        found = self[batch]
        if found.static is None and found.count is not None:
            self.pinned.add(self.find(batch))
        return found.count

    def enters(self, size: Dim) -> bool:
        """Whether an open size is one of a tensor where a batch enters, so that every piece of that tensor shows it."""
        name = (_bare(size) or "").rpartition("[")[0]
        return any(name in batch.sources for batch in self._batches)

    def surely_filled(self, batch: int) -> bool:
        """Whether every copy has a sample in all runs that are like this one."""
        found = self[batch]
        return found.count is not None and (self.never_short or found.static is not None) and self.filled(batch)

    def filled(self, batch: int) -> bool:
        """Whether every copy has a sample; where the size is open the analysis is then one for runs of this size."""
        count = self[batch].count
        offsets = [] if count is None else bounds(count, self.shares or (1,))
        if not all(b > a for a, b in zip(offsets, offsets[1:])) or not offsets:
            return False
        if not self.never_short:
            self.pin(batch)
        return True

    def same(self, a: int, b: int) -> bool:
        """Whether two batches are known to be of one size, where nothing demands it of them; they are one from then on.

        Parts that are joined along the batch and branches of a conditional may differ in size, so batches whose sizes
        only the run shows are not taken to be one there.
        """
        a, b = self.find(a), self.find(b)
        known = self._batches[a].count is not None and self._batches[b].count is not None
        return a == b or (known and self.meet(a, b))

    def meet(self, a: int, b: int) -> bool:
        """Whether two batches are one; joins them when nothing speaks against it."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return True
        first, second = self._batches[a], self._batches[b]
        if first.count is not None and second.count is not None and first.count != second.count:
            return False
        keep, drop = (a, b) if a < b else (b, a)
        kept, dropped = self._batches[keep], self._batches[drop]
        kept.sources.extend(dropped.sources)
        kept.static = kept.static if kept.static is not None else dropped.static
        kept.count = kept.count if kept.count is not None else dropped.count
        self._parent[drop] = keep
        self.stale = True
        return True


def _bare(size: Dim) -> str | None:
    """The name of a size that is one open symbol and nothing else."""
    names = D.symbols_of(size)
    if isinstance(size, D.Poly) and len(names) == 1:
        (name,) = names
        if size == D.symbol(name) and name.endswith("]"):
            return name
    return None
