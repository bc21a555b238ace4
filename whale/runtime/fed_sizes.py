"""Sizes of fed values: for which of them the analysis of a run holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.sharding.propagate import Analysis


@dataclasses.dataclass(frozen=True)
class FedSizes:
    """What was taken of the sizes of fed values, in symbols named after their dims (``x:0[1]``)."""

    shapes: tuple[tuple[Dim, ...], ...] = ()
    """Of each fed value. A size that the script leaves open is a symbol of its own, or what it must be equal to."""
    batches: tuple[str, ...] = ()
    """The sizes that are cut; these may be anything, others that are not one must not become one: it is broadcast."""
    clash: tuple[Dim, Dim] | None = None
    """Two sizes that must be equal and are not, for a run that TensorFlow is to refuse."""

    def fit(self, names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether values of other shapes, in the same order, are fed alike."""
        actual = sizes(names, shapes)
        for name, expected, shape in zip(names, self.shapes, shapes):
            for dim, (size, count) in enumerate(zip(expected, shape)):
                own, value = f"{name}[{dim}]", D.evaluate(size, actual)
                if value is not None and value != count:
                    return False
                if count == 1 and (value is None or (size == D.symbol(own) and own not in self.batches)):
                    return False
        return True

    def clashes(self, names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether the two sizes differ here too, and neither is one."""
        assert self.clash is not None, "asked only of runs that TensorFlow refuses"
        actual = sizes(names, shapes)
        one, other = (D.evaluate(size, actual) for size in self.clash)
        return one != other and 1 not in (one, other)

    def smallest(self, names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> int | None:
        """Samples of the smallest batch that is fed; None where none is."""
        actual = sizes(names, shapes)
        return min((actual[name] for name in self.batches), default=None)


def sizes(names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> Mapping[str, int]:
    """The sizes of fed values by the names that the analysis gives them."""
    return {f"{name}[{dim}]": size for name, shape in zip(names, shapes) for dim, size in enumerate(shape)}


def fed_sizes(analysis: Analysis, feeds: Sequence[str]) -> FedSizes:
    """What an analysis took of the sizes of the values fed."""
    named: dict[str, Dim] = {}
    for number, source in enumerate(analysis.sources):
        root = f"n{analysis.batches.find(number)}"
        if source.tensor in feeds and root not in named:
            named[root] = D.symbol(f"{source.tensor}[{source.dim}]")
    shapes = [tuple(D.substitute(size, named) for size in analysis.facts[t].dims or ()) for t in feeds]
    clash = analysis.batches.clash
    found = None if clash is None else (D.substitute(clash[0], named), D.substitute(clash[1], named))
    return FedSizes(tuple(shapes), tuple(str(size) for size in named.values()), found)
