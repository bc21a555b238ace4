"""Blocks: what the cost model and a planner see of a model. A chain of blocks is a training step without its devices.

All amounts are those of one device that runs the whole block; ``split`` marks what tensor parallelism divides.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

from whale.cost_model.curve import ZERO, Curve
from whale.ir.program import Phase


class WorkClass(enum.Enum):
    """Classes of work that run at rates of their own."""

    MATMUL = "matmul"
    """Products with a weight."""
    BATCH_MATMUL = "batch_matmul"
    """Products of two activations: attention."""
    CONVOLUTION = "convolution"
    NORMALIZATION = "normalization"
    """Batch normalisation, which is one kernel of a library; bound by memory."""
    REDUCTION = "reduction"
    """Reductions as a compiler writes them, with what it fuses into them: bound by memory."""
    MEMORY = "memory"
    """Element-wise work, reductions, copies: bound by memory."""


BOUND_BY_MEMORY = frozenset({WorkClass.NORMALIZATION, WorkClass.REDUCTION, WorkClass.MEMORY})


class Recompute(enum.Enum):
    """What is kept of the forward pass for the backward pass."""

    NONE = "none"
    """Everything the backward pass reads."""
    SELECTIVE = "selective"
    """Products of activations (attention) are run again, with the random numbers they had."""
    FULL = "full"
    """The input of each block; the block's forward pass runs again."""


@dataclasses.dataclass(frozen=True)
class Work:
    """One kernel: an op, or several element-wise ops fused into one."""

    work_class: WorkClass
    phase: Phase
    """FORWARD, BACKWARD or UPDATE."""
    flops: Curve
    elements: Curve
    """Floating-point elements read and written."""
    other_bytes: Curve = ZERO
    """Bytes of all other types read and written."""
    split: bool = False
    """Whether tensor parallelism divides it."""
    redone: bool = False
    """Whether selective recomputation runs it again."""


@dataclasses.dataclass(frozen=True)
class Amount:
    """Part of a block's memory."""

    elements: Curve
    """Floating-point elements."""
    other_bytes: Curve = ZERO
    split: bool = False
    """Whether tensor parallelism divides it."""


@dataclasses.dataclass(frozen=True)
class Exchange:
    """An all-reduce over a tensor-parallel group, where the block is split."""

    phase: Phase
    """FORWARD or BACKWARD."""
    elements: Curve


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A variable that is read by the block."""

    elements: int
    split: bool
    """Whether tensor parallelism divides it."""
    trainable: bool
    slots: int
    """Optimizer slots of its size."""
    shared: str = ""
    """Its name where several blocks read it; empty for a block's own."""


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """A run of ops that is placed as one. Equal blocks of a chain are one object."""

    name: str
    work: tuple[Work, ...]
    parameters: tuple[Parameter, ...]
    stash: tuple[Amount, ...]
    """Activations kept for the backward pass without recomputation."""
    selective_stash: tuple[Amount, ...]
    """The same under selective recomputation."""
    exchanges: tuple[Exchange, ...]
    output: Curve
    """Floating-point elements that the next block needs; gradients of the same size come back."""
    workspace: Amount
    """The largest tensors that live while one op runs."""

    def flops(self, phase: Phase, samples: float) -> float:
        """FLOPs of one phase for a number of samples."""
        return sum(w.flops.at(samples) for w in self.work if w.phase is phase)


@dataclasses.dataclass(frozen=True)
class Chain:
    """The blocks of a model in order. Block i reads what block i - 1 makes."""

    blocks: tuple[Block, ...]
    unknown: tuple[tuple[str, int], ...] = ()
    """Op types without a cost rule, which count zero FLOPs and their tensor bytes, and how many there are."""
    ops: tuple[tuple[str, ...], ...] = ()
    """By block: its forward ops that flow from the batch; empty for a chain that is no captured graph's."""

    def runs(self) -> list[tuple[int, int]]:
        """(start, count) of equal blocks that follow each other, in order."""
        found: list[tuple[int, int]] = []
        for index, block in enumerate(self.blocks):
            if found and self.blocks[found[-1][0]] is block:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            else:
                found.append((index, 1))
        return found

    def resized(self, counts: Sequence[int]) -> Chain:
        """The chain with other numbers of its repeated blocks.

        Args:
            counts: for each run of two or more, in order, how many there are to be.

        Raises:
            ValueError: there are not as many such runs.
        """
        repeated = [run for run in self.runs() if run[1] > 1]
        if len(counts) != len(repeated):
            raise ValueError(f"{len(counts)} numbers for {len(repeated)} runs of equal blocks")
        wanted = iter(counts)
        blocks: list[Block] = []
        for start, count in self.runs():
            blocks.extend([self.blocks[start]] * (count if count == 1 else next(wanted)))
        return dataclasses.replace(self, blocks=tuple(blocks), ops=())
