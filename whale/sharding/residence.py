"""On which copies each op runs.

An op that works on pieces runs on every copy. An op on whole values runs on the first copy alone (*home*), or on every
copy where its result is read by every copy: what depends on variables or on reduced gradients is computed again rather
than sent; what was drawn, fed or gathered at home is sent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from whale.errors import VerifyError
from whale.ir.placement import EACH, PARTIAL, REPLICATED, Sharded
from whale.ir.program import Op, Program, split_tensor
from whale.sharding.facts import Local, Relaxed, Want
from whale.sharding.order import ENTERS, EXITS, MERGES, SWITCHES
from whale.sharding.propagate import Analysis
from whale.sharding.rules.control import CONTAINERS
from whale.sharding.rules.source import RANDOM
from whale.sharding.rules.state import on_variable, writes_variable, written

_CONTROL = frozenset({*SWITCHES, "NextIteration", "RefNextIteration", "LoopCond", "NoOp", *MERGES, *ENTERS, *EXITS})
SMALL_REDUCTION = 1
"""Partial tensors of at most this many elements are summed at home and sent, not all-reduced."""


@dataclasses.dataclass(frozen=True)
class Residence:
    """Where ops run."""

    everywhere: frozenset[str]
    """Ops with one copy per device; the others run at home."""
    collectives: tuple[str, ...]
    """Partial tensors to be all-reduced, in data-flow order."""
    merged_frames: frozenset[str] = frozenset()
    """Outermost loop frames in which copies exchange values: one loop spans the devices, its predicate at home."""

    def all(self, op: str) -> bool:
        """Whether an op has a copy on every device."""
        return op in self.everywhere


def reside(program: Program, analysis: Analysis, feeds: Iterable[str]) -> Residence:
    """Decides on which copies each op of an analysed run executes."""
    return _Residence(analysis, frozenset(feeds)).solve()


class _Residence:
    def __init__(self, analysis: Analysis, feeds: frozenset[str]) -> None:
        self.analysis = analysis
        self.feeds = feeds
        self.ops: dict[str, Op] = {op.name: op for op in analysis.order.ops}
        self.sources = {s.tensor for s in analysis.sources}
        self.everywhere: set[str] = set()
        self.home: dict[str, bool] = {}
        self.depth: dict[str, int] = {}
        self.reductions: list[str] = []
        self.collective: set[str] = set()
        self.merged_frames: set[str] = set()

    def solve(self) -> Residence:
        self._conditional_depth()
        self._find_reductions()
        while True:
            self.everywhere.clear()
            for op in self.analysis.order.ops:
                self.home[op.name] = self._home_resident(op)
            self._demand()
            exchanging = self._exchanging_frames()
            if exchanging & self.analysis.own_frames:
                raise VerifyError(f"copies exchange values in loops over samples: {sorted(exchanging)}")
            if exchanging <= self.merged_frames:
                break
            self.merged_frames |= exchanging
        summed = self._summed_everywhere()
        used = tuple(t for t in self.reductions if t in self.collective and t in summed)
        return Residence(frozenset(self.everywhere), used, frozenset(self.merged_frames))

    # -- which partial tensors are all-reduced -----------------------------------------------------------------

    def _conditional_depth(self) -> None:
        for op in self.analysis.order.ops:
            before = [self.depth.get(split_tensor(t)[0], 0) for t in op.inputs if t not in self.feeds]
            before.extend(self.depth.get(c, 0) for c in op.controls)
            depth = max(before, default=0)
            if op.type in SWITCHES:
                depth += 1
            elif op.type in MERGES:
                depth = max(depth - 1, 0)
            self.depth[op.name] = depth

    def _find_reductions(self) -> None:
        seen: set[str] = set()
        for op in self.analysis.order.ops:
            for tensor, want in zip(op.inputs, self.analysis.decisions[op.name].wants):
                fact = self.analysis.facts[tensor]
                if fact.placement == PARTIAL and want is not None and want != PARTIAL and tensor not in seen:
                    seen.add(tensor)
                    self.reductions.append(tensor)
        feeding = self._feeding_reductions()
        for tensor in self.reductions:
            if self._collective(tensor) and tensor not in feeding:
                self.collective.add(tensor)

    def _collective(self, tensor: str) -> bool:
        name, index = split_tensor(tensor)
        op = self.ops.get(name)
        if op is None or (self.analysis.order.frame(name) and op.type not in EXITS):
            return False
        if len(self.analysis.order.frame(name)) > 1 or self.depth[name] > len(self.analysis.order.frame(name)):
            return False
        dims = self.analysis.facts[tensor].dims
        static = dims is not None and all(isinstance(d, int) for d in dims)
        if not static or op.outputs[index].dtype not in ("float32", "float64", "float16"):
            return False
        count = 1
        for d in dims or ():
            count *= d if isinstance(d, int) else 1
        return count > SMALL_REDUCTION

    def _feeding_reductions(self) -> set[str]:
        """Reductions whose sum is read, at some remove, by another reduction: not to be put off to a bucket.

        What a loop is given, any turn of it may read, and what it gives may come from any turn; so a loop counts as
        one, together with the containers through which it hands values to the loop of its gradients.
        """
        wanted = set(self.reductions)
        units = self._units()
        reach: set[str] = set()
        feeding: set[str] = set()
        readers: dict[str, list[Op]] = {}
        waiting: dict[str, list[str]] = {}
        for op in self.analysis.order.ops:
            for tensor in dict.fromkeys(op.inputs):
                readers.setdefault(tensor, []).append(op)
            for control in op.controls:
                waiting.setdefault(control, []).append(op.name)

        def reaches(op: Op) -> bool:
            """Whether a sum is read behind an op; notes the sums that are read before another."""
            found = any(units[name] in reach for name in waiting.get(op.name, ()))
            for i in range(len(op.outputs)):
                tensor = op.output(i)
                for reader in readers.get(tensor, ()):
                    hit = units[reader.name] in reach
                    want = self.analysis.decisions[reader.name].wants[reader.inputs.index(tensor)]
                    summed = tensor in wanted and want is not None and want != PARTIAL
                    if summed and hit:
                        feeding.add(tensor)
                    found |= hit or summed
            return found

        grew = True
        while grew:
            before = len(reach)
            reach.update(units[op.name] for op in reversed(self.analysis.order.ops) if reaches(op))
            grew = bool(self.analysis.order.frames) and len(reach) > before
        return feeding

    def _units(self) -> dict[str, str]:
        """By op: itself, or what it is one with as to what depends on what: its loop, or a container's other ops."""
        units: dict[str, str] = {}
        by_origin: dict[str, str] = {}
        merged: dict[str, str] = {}

        def root(unit: str) -> str:
            while unit in merged:
                unit = merged[unit]
            return unit

        for op in self.analysis.order.ops:
            frame = self.analysis.order.frame(op.name)
            units[op.name] = f"loop {frame[0]}" if frame else op.name
            origin = self._origin(op) if frame and op.type in CONTAINERS else None
            if origin is not None:
                unit = root(units[op.name])
                other = root(by_origin.setdefault(origin, unit))
                if other != unit:
                    merged[unit] = other
        return {name: root(unit) for name, unit in units.items()}

    # -- home or everywhere ------------------------------------------------------------------------------------

    def _home_resident(self, op: Op) -> bool:
        """Whether an op's whole value exists at home and is sent from there."""
        decision = self.analysis.decisions[op.name]
        if decision.recipe.startswith(("reduce_pieces", "mean_of_integers")) or self._recipe_at_home(op):
            return True
        if decision.distributed or on_variable(op.type) or op.type == "Const" or self._of_draws(op):
            return False
        frame = self.analysis.order.frame(op.name)
        merged = bool(frame) and frame[0] in self.merged_frames
        if op.type == "LoopCond":
            return merged
        if op.stateful and op.type not in CONTAINERS and op.type not in _CONTROL:
            return merged or not (frame and op.type in RANDOM)
        if frame or op.type in CONTAINERS:
            return False
        home = False
        for tensor, want in zip(op.inputs, decision.wants):
            if self._arrives_at_home(tensor, want):
                home = True
            elif not self._neutral(tensor):
                return False
        return home

    def _neutral(self, tensor: str) -> bool:
        op = self.ops.get(split_tensor(tensor)[0])
        return op is not None and op.type == "Const"

    def _arrives_at_home(self, tensor: str, want: Want) -> bool:
        if tensor in self.feeds and not isinstance(self.analysis.facts[tensor].placement, Sharded):
            return True
        placement = self.analysis.facts[tensor].placement
        if isinstance(placement, Sharded):
            return True
        if placement == PARTIAL:
            return tensor not in self.collective
        return self.home.get(split_tensor(tensor)[0], False)

    def _demand(self) -> None:
        holders: dict[str, list[str]] = {}
        origins: dict[str, list[str]] = {}
        for op in self.analysis.order.ops:
            if self.analysis.decisions[op.name].distributed and not self._recipe_at_home(op):
                self.everywhere.add(op.name)
            if writes_variable(op.type):
                for variable in written(self.ops, op):
                    holders.setdefault(variable, []).append(op.name)
            if op.type in CONTAINERS:
                origin = self._origin(op)
                if origin is not None:
                    origins.setdefault(origin, []).append(op.name)
        grew = True
        while grew:
            before = len(self.everywhere)
            for op in reversed(self.analysis.order.ops):
                if op.name in self.everywhere:
                    self._demand_inputs(op)
            for holder, writers in holders.items():
                if holder in self.everywhere:
                    self.everywhere.update(writers)
            for users in origins.values():
                if any(u in self.everywhere for u in users):
                    self.everywhere.update(users)
            grew = len(self.everywhere) > before

    def _recipe_at_home(self, op: Op) -> bool:
        """Whether the shape of a whole tensor is put together at home, and not by every copy from its own piece.

        In a loop every copy does it: the loops of the copies need not wait for one another then. So does every copy
        that draws its own samples: each draw may be padded to a length of its own.
        """
        if not self.analysis.decisions[op.name].recipe.startswith("global_"):
            return False
        cuts = [cut for cut in (self.analysis.facts[tensor].sharded for tensor in op.inputs) if cut is not None]
        counted = all(isinstance(cut.outer, int) and isinstance(cut.inner, int) for cut in cuts)
        return not ((self.analysis.order.frame(op.name) or self._of_draws(op)) and counted)

    def _of_draws(self, op: Op) -> bool:
        """Whether an op asks for the shape of what every copy draws for itself."""
        cuts = (self.analysis.facts[tensor].sharded for tensor in op.inputs)
        shape = self.analysis.decisions[op.name].recipe.startswith("global_")
        return shape and any(cut is not None and self.analysis.is_drawn(cut.batch) for cut in cuts)

    def _demand_inputs(self, op: Op) -> None:
        for tensor in op.inputs:
            name = split_tensor(tensor)[0]
            if tensor in self.feeds or name not in self.ops or tensor in self.sources:
                continue
            placement = self.analysis.facts[tensor].placement
            if placement == REPLICATED and not self.home[name]:
                self.everywhere.add(name)
        for control in op.controls:
            # What waits on a copy must wait for that copy's own reads: an update must not overtake them.
            if control in self.ops and not self.home[control]:
                self.everywhere.add(control)

    def _origin(self, op: Op) -> str | None:
        for tensor in (*op.inputs, *op.outputs_named()):
            origin = self.analysis.facts[tensor].origin if tensor in self.analysis.facts else None
            if origin is not None:
                return origin
        return None

    def _summed_everywhere(self) -> set[str]:
        """Partial tensors whose sum some op reads on every copy."""
        summed: set[str] = set()
        for op in self.analysis.order.ops:
            if op.name in self.everywhere:
                for name, want in zip(op.inputs, self.analysis.decisions[op.name].wants):
                    if want is not None and want != PARTIAL:
                        summed.add(name)
        return summed

    # -- loops -------------------------------------------------------------------------------------------------

    def _exchanging_frames(self) -> set[str]:
        """Frames whose copies exchange values: gathers, sums, or values of home read by every copy."""
        found: set[str] = set()
        for op in self.analysis.order.ops:
            frame = self.analysis.order.frame(op.name)
            if not frame or frame[0] in found:
                continue
            if self.analysis.decisions[op.name].exchanges:
                found.add(frame[0])
            for tensor, want in zip(op.inputs, self.analysis.decisions[op.name].wants):
                if self._inside(tensor) and self._exchanges(op, tensor, want):
                    found.add(frame[0])
        return found

    def _inside(self, tensor: str) -> bool:
        name = split_tensor(tensor)[0]
        frame = self.analysis.order.frame(name)
        op = self.ops.get(name)
        return bool(frame) and not (op is not None and op.type in EXITS and len(frame) == 1)

    def _exchanges(self, op: Op, tensor: str, want: Want) -> bool:
        placement = self.analysis.facts[tensor].placement
        pieces = isinstance(placement, Sharded) or placement in (PARTIAL, EACH)
        if pieces and want is not None and want != placement:
            return True
        producer = split_tensor(tensor)[0]
        if isinstance(want, (Local, Relaxed)) and self.analysis.decisions[producer].recipe.startswith("global_"):
            return False  # every copy asks its own piece
        return op.name in self.everywhere and producer not in self.everywhere
