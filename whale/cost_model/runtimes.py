"""What executes a step, as far as its speed and memory depend on it."""

from __future__ import annotations

import dataclasses
from typing import Literal

from whale.errors import PlanError, nearest

Precision = Literal["bf16", "fp16", "fp32", "tf32"]
"""Format of matrix products. With 16 bits, activations and gradients have 16 bits and the optimizer 32 (mixed)."""

PRECISIONS: tuple[Precision, ...] = ("bf16", "fp16", "fp32", "tf32")


def element_bytes(precision: Precision) -> int:
    """Bytes of an activation."""
    return 4 if precision in ("fp32", "tf32") else 2


@dataclasses.dataclass(frozen=True)
class Runtime:
    """A framework and how it runs ops."""

    name: str
    fused: bool
    """Whether it fuses element-wise ops, by a compiler or by hand-written kernels."""
    execution: str
    """Whose time for handing out kernels it has, in the coefficients."""
    communication: str
    """Whose gradient reduction it has."""
    gradient_bytes: int = 4
    """Of a gradient under mixed precision."""
    waits: bool = False
    """Whether a device that sends to the next stage waits until that is done."""
    scatters: bool = True
    """Whether the devices of a tensor-parallel group send a part each to the next stage, or each the whole."""
    separate_passes: bool = False
    """Whether forward and backward pass have workspaces of their own when a step has several micro-batches."""


RUNTIMES: dict[str, Runtime] = {
    runtime.name: runtime
    for runtime in (
        Runtime("tensorflow", False, "tensorflow", "horovod"),
        Runtime("xla", True, "xla", "horovod"),
        Runtime("distribute", False, "tensorflow", "distribute"),
        Runtime("distribute-xla", True, "xla", "distribute"),
        Runtime("parameter-server", False, "tensorflow", "parameter-server"),
        Runtime("megatron", True, "megatron", "megatron", waits=True, scatters=False),
        Runtime("megatron-deepspeed", True, "megatron-deepspeed", "megatron-deepspeed", waits=True, scatters=False),
        Runtime("deepspeed", True, "deepspeed", "deepspeed", waits=True),
        Runtime("oneflow", True, "oneflow", "oneflow", gradient_bytes=2, scatters=False, separate_passes=True),
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
