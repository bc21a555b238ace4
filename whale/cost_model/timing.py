"""Seconds of blocks on a device: a roofline with fitted efficiencies.

A kernel takes the longer of its arithmetic and its memory traffic, each at the part of the peak rate that its device
reaches for its class of work, plus a fill time per kernel: small kernels are less efficient, ``f / (f + f_half)`` of
the large ones' rate. A pass over a block takes the longer of its kernels and of the time the runtime needs to hand
them to the device.
"""

from __future__ import annotations

import dataclasses
import functools

from whale.cluster import CATALOGUE, Catalogue
from whale.cost_model.block import BOUND_BY_MEMORY, Block, Recompute, Work, WorkClass
from whale.cost_model.coefficients import Coefficients, packaged_coefficients
from whale.cost_model.runtimes import Precision, Runtime, element_bytes
from whale.errors import ClusterError
from whale.ir.program import Phase

_CARD = "-PCIe"
"""Of a name in the catalogue: the same chip on a card, which reaches the same part of its own peaks."""

UPDATE_BYTES = 4
"""Of an element in 32 bits, with which optimizers compute."""


@dataclasses.dataclass(frozen=True)
class Pass:
    """One pass over a block on one device, without what it exchanges."""

    seconds: float
    """On the device."""
    kernels: int
    """Kernels handed to it."""

    def __add__(self, other: Pass) -> Pass:
        return Pass(self.seconds + other.seconds, self.kernels + other.kernels)


@dataclasses.dataclass(frozen=True)
class Share:
    """What part of the work one device has."""

    samples: float
    """Samples of a micro-batch."""
    parts: int = 1
    """Devices that divide what is split."""
    sequence_parallel: bool = False
    """Whether they divide the rest as well, along the sequence."""


@dataclasses.dataclass(frozen=True)
class Rates:
    """What a device reaches, in FLOPs and bytes per second."""

    flops: dict[WorkClass, float]
    bytes_per_second: float
    fill_seconds: float


@dataclasses.dataclass(frozen=True, eq=False)
class BlockTimes:
    """Times of blocks under one runtime and precision."""

    runtime: Runtime
    precision: Precision
    catalogue: Catalogue = CATALOGUE
    coefficients: Coefficients = dataclasses.field(default_factory=packaged_coefficients)

    @functools.cached_property
    def _passes(self) -> dict[tuple[int, Phase, str, Share], tuple[Block, Pass]]:
        """Passes worked out before. By the block's identity, with the block, which so stays alive."""
        return {}

    @functools.cached_property
    def _rates(self) -> dict[str, Rates]:
        return {}

    def rates(self, model: str) -> Rates:
        """The rates of a device model. Raises ClusterError for one of which the catalogue does not have them."""
        found = self._rates.get(model)
        if found is None:
            found = self._rates[model] = self._make_rates(model)
        return found

    def _make_rates(self, model: str) -> Rates:
        entry = self.catalogue.device(model)
        single, memory = entry.number("fp32_flops"), entry.number("memory_bytes_per_second")
        if single is None or memory is None:
            raise ClusterError(
                f"nothing is known of the speed of the device model {model!r}",
                fix="name the product in the cluster file, or describe it in a catalogue file (docs/cost-model.md)",
            )
        chip = model.removesuffix(_CARD)
        precision, peak = _usable({p: entry.number(f"{p}_flops") for p in _FALLBACK[self.precision]})
        flops = {
            work_class: peak
            * self.coefficients.get(
                f"rate/{model}/{precision}/{work_class.value}",
                f"rate/{chip}/{precision}/{work_class.value}",
                f"rate/*/{precision}/{work_class.value}",
                f"rate/*/*/{work_class.value}",
            )
            for work_class in (WorkClass.MATMUL, WorkClass.CONVOLUTION)
        }
        small = self.coefficients.get(f"batch_matmul/{precision}", "batch_matmul/*")
        flops[WorkClass.BATCH_MATMUL] = flops[WorkClass.MATMUL] * small
        flops |= dict.fromkeys(BOUND_BY_MEMORY, single * self.coefficients.get("rate/elementwise"))
        efficiency = self.coefficients.get(f"memory/{model}", f"memory/{chip}", "memory/*")
        return Rates(flops, memory * efficiency, self.coefficients.get("fill_seconds"))

    def kernel_seconds(self, work: Work, model: str, share: Share) -> float:
        """One kernel on a device model of the catalogue."""
        rates = self.rates(model)
        update = work.phase is Phase.UPDATE
        divisor = share.parts if work.split or (share.sequence_parallel and not update) else 1
        width: float = UPDATE_BYTES if update else element_bytes(self.precision)
        if work.work_class in (WorkClass.MEMORY, WorkClass.REDUCTION):
            width += self._wide * (UPDATE_BYTES - width)
        moved = work.elements.at(share.samples) * width + work.other_bytes.at(share.samples)
        if not update:
            moved *= self._traffic.get(work.work_class, 1.0)
        arithmetic = work.flops.at(share.samples) / rates.flops[work.work_class]
        return max(arithmetic, moved / rates.bytes_per_second) / divisor + rates.fill_seconds

    @functools.cached_property
    def _traffic(self) -> dict[WorkClass, float]:
        """How many times the bytes of its operands a kernel moves, where it is not once."""
        return {
            WorkClass.MEMORY: self.coefficients.get(f"runtime/{self.runtime.execution}/traffic", "traffic"),
            WorkClass.NORMALIZATION: self.coefficients.get("normalization/traffic", "traffic"),
            WorkClass.REDUCTION: self.coefficients.get(f"runtime/{self.runtime.execution}/reductions", "traffic"),
        }

    @functools.cached_property
    def _wide(self) -> float:
        """The part of element-wise work that stays at 32 bits under mixed precision.

        TensorFlow's rewrite of the graph leaves some ops alone, and casts around them.
        """
        return self.coefficients.get(f"runtime/{self.runtime.execution}/wide", "wide")

    def block_pass(self, block: Block, phase: Phase, model: str, share: Share) -> Pass:
        """All kernels of one phase of a block. An update does not depend on the samples."""
        key = (id(block), phase, model, share)
        found = self._passes.get(key)
        if found is None:
            chosen = [work for work in block.work if work.phase is phase]
            seconds = sum(self.kernel_seconds(work, model, share) for work in chosen)
            found = self._passes[key] = (block, Pass(seconds, len(chosen)))
        return found[1]

    def redone_pass(self, block: Block, model: str, share: Share) -> Pass:
        """What selective recomputation runs again."""
        chosen = [work for work in block.work if work.redone and work.phase is Phase.FORWARD]
        return Pass(sum(self.kernel_seconds(work, model, share) for work in chosen), len(chosen))

    def backward_pass(self, block: Block, model: str, share: Share, recompute: Recompute) -> Pass:
        """The backward pass with what it runs again of the forward pass."""
        own = self.block_pass(block, Phase.BACKWARD, model, share)
        if recompute is Recompute.FULL:
            return own + self.block_pass(block, Phase.FORWARD, model, share)
        if recompute is Recompute.SELECTIVE:
            return own + self.redone_pass(block, model, share)
        return own

    @functools.cached_property
    def dispatch_seconds(self) -> float:
        """What the runtime needs to hand one kernel to a device."""
        return self.coefficients.get(f"runtime/{self.runtime.execution}/dispatch")

    def bound(self, work: Pass) -> float:
        """Seconds of a pass: the device waits for kernels, or kernels for the device.

        The corner between the two is rounded: where both take equally long, each waits for the other now and then.
        """
        return _rounded_maximum(work.seconds, work.kernels * self.dispatch_seconds)


ROUNDING = 4.0
"""Exponent of the mean that stands for a maximum; a maximum itself has an endless one."""


def _rounded_maximum(a: float, b: float) -> float:
    largest = max(a, b)
    return largest * ((a / largest) ** ROUNDING + (b / largest) ** ROUNDING) ** (1 / ROUNDING) if largest else 0.0


@functools.lru_cache(maxsize=64)
def block_times(runtime: Runtime, precision: Precision, catalogue: Catalogue, coefficients: Coefficients) -> BlockTimes:
    """The same object for the same arguments, so that what it worked out serves every plan."""
    return BlockTimes(runtime, precision, catalogue, coefficients)


_FALLBACK: dict[Precision, tuple[Precision, ...]] = {
    "fp32": ("fp32",),
    "tf32": ("tf32", "fp32"),
    "fp16": ("fp16", "fp32"),
    "bf16": ("bf16", "fp16", "fp32"),
}
"""Formats that a device without one uses instead."""


def _usable(peaks: dict[Precision, float | None]) -> tuple[Precision, float]:
    """The first format that a device has a peak for. Both formats of 16 bits share their fitted rates."""
    for name, peak in peaks.items():
        if peak is not None:
            return "fp16" if name == "bf16" else name, peak
    raise ValueError("no format has a peak")
