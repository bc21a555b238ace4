"""What executes a step, as far as its speed and memory depend on it."""

from __future__ import annotations

import dataclasses
from typing import Literal

from whale.cost_model.fusion import Fusion
from whale.errors import PlanError, nearest

Precision = Literal["bf16", "fp16", "fp32", "tf32"]
"""Format of matrix products. With 16 bits, activations and gradients have 16 bits and the optimizer 32 (mixed)."""

Sending = Literal["beside", "together", "in turn"]
"""How stages send to each other: beside their work; or the sender and the receiver meet, each at the end of what it
does, and both wait until the bytes are there. Of two that send to each other, both do at once (Megatron's batched sends
and receives), or one after the other (DeepSpeed's pipeline)."""

PRECISIONS: tuple[Precision, ...] = ("bf16", "fp16", "fp32", "tf32")


def element_bytes(precision: Precision) -> int:
    """Bytes of an activation."""
    return 4 if precision in ("fp32", "tf32") else 2


@dataclasses.dataclass(frozen=True)
class Runtime:
    """A framework and how it runs ops."""

    name: str
    fusion: Fusion
    """Who joins ops into kernels."""
    execution: str
    """Whose time for handing out kernels it has, in the coefficients."""
    communication: str
    """Whose gradient reduction it has."""
    gradient_bytes: int = 4
    """Of a gradient under mixed precision."""
    reduced_bytes: int = 4
    """Of a gradient under mixed precision as replicas reduce it."""
    packs: bool = True
    """Whether replicas reduce many gradients as one; otherwise each is a collective of its own."""
    sending: Sending = "beside"
    scatters: bool = True
    """Whether the devices of a tensor-parallel group send a part each to the next stage, or each the whole."""
    separate_passes: bool = False
    """Whether forward and backward pass have workspaces of their own when a step has several micro-batches."""
    buffers: int = 0
    """For how many micro-batches, per stage of the pipeline, a stage has buffers of what it keeps; 0: as the schedule
    needs them. OneFlow's graph has twice as many as stages, on all stages but the last (its pipeline_buffer_pass)."""


RUNTIMES: dict[str, Runtime] = {
    runtime.name: runtime
    for runtime in (
        Runtime("tensorflow", Fusion.NONE, "tensorflow", "horovod"),
        Runtime("xla", Fusion.COMPILER, "xla", "horovod"),
        Runtime("distribute", Fusion.NONE, "tensorflow", "distribute", packs=False),
        Runtime("distribute-xla", Fusion.COMPILER, "xla", "distribute", packs=False),
        Runtime("parameter-server", Fusion.NONE, "tensorflow", "parameter-server"),
        Runtime(
            "megatron",
            Fusion.HAND,
            "megatron",
            "megatron",
            reduced_bytes=2,
            sending="together",
            scatters=False,
        ),
        Runtime(
            "megatron-deepspeed",
            Fusion.HAND,
            "megatron-deepspeed",
            "megatron-deepspeed",
            reduced_bytes=2,
            sending="in turn",
        ),
        Runtime("deepspeed", Fusion.HAND, "deepspeed", "deepspeed", sending="in turn"),
        Runtime(
            "oneflow",
            Fusion.HAND,
            "oneflow",
            "oneflow",
            gradient_bytes=2,
            reduced_bytes=2,
            scatters=False,
            separate_passes=True,
            buffers=2,
        ),
    )
}
"""TensorFlow op by op (as Whale and Horovod run it) and compiled; TensorFlow's own multi-worker strategy, likewise; its
parameter servers; PyTorch run by Megatron, by both Megatron and DeepSpeed, by DeepSpeed; OneFlow."""


def runtime(name: str) -> Runtime:
    """A runtime by name. Raises PlanError for an unknown one."""
    found = RUNTIMES.get(name)
    if found is None:
        raise PlanError(f"unknown runtime {name!r}", fix=nearest(name, RUNTIMES) or f"known: {', '.join(RUNTIMES)}")
    return found
