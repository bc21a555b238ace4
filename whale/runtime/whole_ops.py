"""Ops of a step that take whole values whatever their inputs are, for an update's sake."""

from __future__ import annotations

from whale.ir.program import Op, Phase, split_tensor
from whale.rewriter.mesh import Mesh
from whale.runtime.signature import Run
from whale.runtime.subject import Subject
from whale.sharding.propagate import Source
from whale.sharding.rules.control import CONTAINERS


def whole_updates(subject: Subject, sources: tuple[Source, ...], run: Run, mesh: Mesh) -> dict[str, str]:
    """The ops that read rows of gradients for an update, where these rows are to be put together first.

    Rows of draws that are padded to lengths of their own are put together and not taken apart again.

    With micro-batches, what an update does with rows (to add up equal ones) is done once, not for each of them. And
    where every copy draws a batch of the size that the script wrote, the script's means are each copy's own: a sum over
    the copies is averaged for it, and rows are scaled (``Totals.as_gradient``) before anything is done with them.
    """
    own = mesh.local and any(s.static is not None and s.tensor not in run.feeds for s in sources)
    drawn = [subject.program.tensor(s.tensor).shape for s in sources if mesh.local and s.tensor not in run.feeds]
    padded = any(shape is None or None in shape[1:] for shape in drawn)
    if not own and not padded and not mesh.has_micro_batches:
        return {}
    backward = {op.name for op in subject.ordered.ops if op.phase is Phase.BACKWARD}
    read = {tensor for op in subject.ordered.ops for tensor in op.inputs}.union(subject.fetches)

    def takes_gradients(op: Op) -> bool:
        """Whether an op does something with gradients: not one that nobody reads, nor one that passes a container."""
        values = [t for t in op.inputs if subject.program.tensor(t).dtype not in ("resource", "variant")]
        used = not op.outputs or any(tensor in read for tensor in op.outputs_named())
        return used and op.type not in CONTAINERS and any(split_tensor(tensor)[0] in backward for tensor in values)

    reason = "rows of a gradient are put together before they are read"
    return {op.name: reason for op in subject.ordered.ops if op.phase is Phase.UPDATE and takes_gradients(op)}
