"""What a lowering is given and what it leaves: the devices of the copies, and the handles of one run."""

from __future__ import annotations

import dataclasses

from whale.rewriter.buckets import WORTH_A_MESSAGE, Reduced


@dataclasses.dataclass(frozen=True)
class Feed:
    """One value that a run feeds into the shadow graph."""

    node: str
    """Tensor of the shadow graph."""
    tensor: str
    """Tensor the user feeds."""
    kind: str
    """``whole``, ``piece`` (a copy's samples) or ``count`` (the number of samples)."""
    replica: int = 0
    """The copy, for a piece."""
    dim: int = 0
    """The dim that is cut or counted."""


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A run of the shadow graph that computes a run of the user's graph."""

    fetches: tuple[str, ...]
    """Tensors of the shadow graph, one per fetched tensor."""
    targets: tuple[str, ...]
    """Ops of the shadow graph."""
    feeds: tuple[Feed, ...]
    """What is fed."""
    mirrored: frozenset[str]
    """Variables that every copy reads or writes: their mirrors must be in step before the run."""
    home_writes: frozenset[str]
    """Variables written at home only: other mirrors are out of step after the run."""
    collectives: tuple[tuple[Reduced, ...], ...] = ()
    """Buckets that are all-reduced."""
    observed: tuple[str, ...] = ()
    """The tensors that were asked to be observable, whole."""
    sent: tuple[str, ...] = ()
    """Those of the targets that an observing run needs: nodes that send random ops their inputs."""


@dataclasses.dataclass(frozen=True)
class Mesh:
    """The devices of the replica axis."""

    devices: tuple[str, ...]
    """One device string per copy; the first is home."""
    shares: tuple[int, ...]
    """Relative batch share of each copy."""
    max_splits: int = 5
    """Most buckets per all-reduce, beside large tensors."""
    worth: int = WORTH_A_MESSAGE
    """Bytes from which a tensor travels alone."""
    communicators: int = 2
    """Buckets that may be under way at once."""
    local: bool = False
    """Whether every copy draws its own batch from the input pipeline."""

    @property
    def hint(self) -> str:
        """Communication hint of collectives."""
        return "nccl" if all("GPU" in d for d in self.devices) else "ring"
