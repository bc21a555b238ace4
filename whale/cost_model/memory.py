"""Memory of each device under a plan, by what lives when.

Parameters, gradients and optimizer slots live all the time; activations from a micro-batch's forward pass to its
backward pass, so a stage holds as many micro-batches as its schedule has live at once; the largest op's tensors and,
under recomputation, one block's activations come on top.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from whale.cost_model.block import BOUND_BY_MEMORY, Amount, Block, Chain, Parameter, Recompute
from whale.cost_model.coefficients import Coefficients
from whale.cost_model.curve import Curve
from whale.cost_model.plan import ParallelPlan
from whale.cost_model.runtimes import Precision, Runtime, element_bytes
from whale.ir.program import Phase
from whale.ir.schedule import Phase as TaskPhase

MASTER_BYTES = 4
"""Of a parameter's copy in 32 bits, which mixed precision updates, and of each optimizer slot."""


@dataclasses.dataclass(frozen=True)
class MemoryUse:
    """Peak bytes of one device, by what they are for."""

    parameters: float
    gradients: float
    slots: float
    """Optimizer state, the 32-bit copy of parameters in mixed precision included."""
    activations: float
    workspace: float
    """The largest op's tensors, and what is recomputed for one block."""
    runtime: float
    """What the framework, its kernels and its communication buffers take."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.parameters + self.gradients + self.slots + self.activations + self.workspace + self.runtime


def stage_memory(
    chain: Chain, plan: ParallelPlan, row: int, replica: int, runtime: Runtime, coefficients: Coefficients
) -> MemoryUse:
    """Peak bytes of each device of a row of the pipeline (``ParallelPlan.rows``) in one replica."""
    numbers = range(row, len(plan.stages), plan.rows)
    blocks = [block for n in numbers for block in chain.blocks[plan.stages[n].start : plan.stages[n].stop]]
    parts = plan.stages[row].tensor_parallel
    samples = plan.samples(replica)
    parameters, gradients, slots = state_bytes(blocks, parts, plan.precision, runtime)
    held = {
        n: sum(
            kept_bytes(chain.blocks[at], plan, samples, parts, _entering(chain, at))
            for at in range(plan.stages[n].start, plan.stages[n].stop)
        )
        for n in numbers
    }
    workspace = max(_transient(block, plan, samples, parts) for block in blocks)
    if runtime.separate_passes and plan.micro_batches > 1:
        workspace *= 2
    fixed = coefficients.get(f"runtime/{runtime.name}/context_bytes", "runtime/*/context_bytes")
    return MemoryUse(parameters, gradients, slots, _peak(plan, row, held, runtime), workspace, fixed)


def _peak(plan: ParallelPlan, row: int, held: Mapping[int, float], runtime: Runtime) -> float:
    """The most bytes of activations at once: from a micro-batch's forward pass on a stage to its backward pass."""
    if runtime.buffers and plan.micro_batches > 1 and row < plan.rows - 1:
        return runtime.buffers * len(plan.stages) * sum(held.values())
    if len(held) == 1:
        return plan.live()[row] * held[row]
    now = most = 0.0
    for task in plan.short_order().rows[row]:
        now += held[task.stage] if task.phase is TaskPhase.FORWARD else -held[task.stage]
        most = max(most, now)
    return most


def state_bytes(
    blocks: Iterable[Block], parts: int, precision: Precision, runtime: Runtime
) -> tuple[float, float, float]:
    """Bytes of parameters, gradients and optimizer state of some blocks on one device."""
    unique = list(_parameters(blocks))
    mixed = element_bytes(precision) == 2
    width = element_bytes(precision)
    parameters = sum(_size(p, parts) * width for p in unique)
    trained = [p for p in unique if p.trainable]
    gradients = sum(_size(p, parts) * (runtime.gradient_bytes if mixed else 4) for p in trained)
    slots = sum(_size(p, parts) * MASTER_BYTES * (p.slots + (1 if mixed else 0)) for p in trained)
    return parameters, gradients, slots


def gradient_bytes(blocks: Iterable[Block], parts: int, precision: Precision, runtime: Runtime) -> float:
    """Bytes that data-parallel replicas reduce, per device: a gradient for each trained parameter."""
    width = runtime.reduced_bytes if element_bytes(precision) == 2 else 4
    return sum(_size(p, parts) * width for p in _parameters(blocks) if p.trainable)


def _parameters(blocks: Iterable[Block]) -> Iterable[Parameter]:
    """The parameters of some blocks; those that several read once."""
    seen: set[str] = set()
    for block in blocks:
        for parameter in block.parameters:
            if parameter.shared and parameter.shared in seen:
                continue
            seen.add(parameter.shared)
            yield parameter


def _size(parameter: Parameter, parts: int) -> float:
    return parameter.elements / parts if parameter.split else parameter.elements


def kept_bytes(block: Block, plan: ParallelPlan, samples: float, parts: int, entering: Curve) -> float:
    """Activations of one micro-batch that a block keeps for its backward pass.

    Under full recomputation that is what enters the block. Blocks without products (embeddings) keep nothing: they run
    again with the block behind them.
    """
    width = element_bytes(plan.precision)
    if plan.recompute is Recompute.FULL:
        if not _has_products(block):
            return 0.0
        return entering.at(samples) * width / (parts if plan.sequence_parallel else 1)
    amounts = block.selective_stash if plan.recompute is Recompute.SELECTIVE else block.stash
    return sum(_bytes(a, plan, samples, parts) for a in amounts)


def _entering(chain: Chain, index: int) -> Curve:
    return chain.blocks[index - 1].output if index else Curve()


def _has_products(block: Block) -> bool:
    return any(work.work_class not in BOUND_BY_MEMORY for work in block.work if work.phase is Phase.FORWARD)


def _transient(block: Block, plan: ParallelPlan, samples: float, parts: int) -> float:
    again = 0.0
    if plan.recompute is Recompute.FULL:
        again = sum(_bytes(a, plan, samples, parts) for a in block.stash)
    elif plan.recompute is Recompute.SELECTIVE:
        kept = sum(_bytes(a, plan, samples, parts) for a in block.selective_stash)
        again = max(0.0, sum(_bytes(a, plan, samples, parts) for a in block.stash) - kept)
    return again + _bytes(block.workspace, plan, samples, parts)


def _bytes(amount: Amount, plan: ParallelPlan, samples: float, parts: int) -> float:
    size = amount.elements.at(samples) * element_bytes(plan.precision) + amount.other_bytes.at(samples)
    return size / parts if amount.split or plan.sequence_parallel else size
