"""The tensors of a program as the cost model reads them: sizes, which are one buffer, which flow from the batch."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from whale.cost_model.curve import ZERO, Curve, from_dim
from whale.ir import dims as D
from whale.ir.cost import ELEMENT_BYTES, Cost, Dims, Kind
from whale.ir.costs import op_cost, tensor_dims
from whale.ir.dims import Dim
from whale.ir.placement import Sharded
from whale.ir.program import Op, Phase, Program, split_tensor
from whale.sharding.propagate import Analysis

FLOATING = frozenset({"float32", "float16", "half", "bfloat16", "float64"})

VIEWS = frozenset(
    {
        *("CheckNumerics", "ExpandDims", "Identity", "PreventGradient", "ReadVariableOp"),
        *("Reshape", "Snapshot", "Squeeze", "StopGradient"),
    }
)
"""Ops whose output is their first input's buffer."""

_PASSING = frozenset({"Cast", "Transpose", "Enter", "RefEnter"})
"""Ops that hand on a variable's value in another form."""

SHAPES = frozenset({"Shape", "ShapeN", "Size", "Rank", "VariableShape", "BroadcastGradientArgs"})
"""Ops that read sizes and no values."""

RANDOM = frozenset(
    {
        *("RandomUniform", "RandomStandardNormal", "RandomUniformInt", "TruncatedNormal", "Multinomial"),
        *("StatelessRandomUniform", "StatelessRandomUniformV2", "StatelessRandomNormal", "StatelessRandomNormalV2"),
    }
)
"""Ops that give other values when they run again."""


@dataclasses.dataclass(frozen=True, eq=False)
class Tensors:
    """A program, an analysis of one run of it, and what follows for its tensors."""

    program: Program
    """With phases and variables."""
    analysis: Analysis
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict[str, int])
    """Values of size symbols that are no batch."""

    @functools.cached_property
    def ops(self) -> tuple[Op, ...]:
        """The ops of the run in data-flow order, with their phases."""
        return tuple(self.program.ops[op.name] for op in self.analysis.order.ops)

    @functools.cached_property
    def _dims(self) -> dict[str, Dims]:
        return {name: fact.dims for name, fact in self.analysis.facts.items() if fact.dims is not None}

    @functools.cached_property
    def costs(self) -> dict[str, Cost]:
        """The cost of each op; none for a reduction that reduces nothing, as gradients of broadcasts often do."""
        found: dict[str, Cost] = {}
        for op in self.ops:
            idle = op.type == "Sum" and self._same_count(op)
            found[op.name] = Cost(0, 0, Kind.NONE) if idle else op_cost(self.program, op, self._dims)
        return found

    def _same_count(self, op: Op) -> bool:
        """Whether a Sum has as many results as operands, seen by its output or, where that is open, its reshape."""
        count = self.count(op.inputs[0])
        if self.dims(op.output()) is not None:
            return self.count(op.output()) == count
        readers = self.readers.get(op.output(), ())
        shaped = [r for r in readers if r.type == "Reshape" and self.dims(r.output()) is not None]
        return bool(shaped) and self.count(shaped[0].output()) == count

    @functools.cached_property
    def readers(self) -> dict[str, tuple[Op, ...]]:
        """The ops that read each tensor itself."""
        found: dict[str, list[Op]] = {}
        for op in self.ops:
            for tensor in dict.fromkeys(op.inputs):
                found.setdefault(tensor, []).append(op)
        return {tensor: tuple(ops) for tensor, ops in found.items()}

    def dims(self, tensor: str) -> Dims:
        """Sizes of a tensor."""
        return tensor_dims(self.program, tensor, self._dims)

    def count(self, tensor: str) -> Dim:
        """Number of elements; 0 where the rank is unknown."""
        dims = self.dims(tensor)
        return 0 if dims is None else D.product(dims)

    def static(self, tensor: str) -> int | None:
        """For a tensor cut along a batch whose size the script states: that size."""
        fact = self.analysis.facts.get(tensor)
        cut = fact.sharded if fact is not None else None
        return self.analysis.batches[cut.batch].static if isinstance(cut, Sharded) else None

    def static_of(self, op: Op) -> int | None:
        """The stated batch size that an op's work grows with, or None."""
        for tensor in (*op.inputs, *op.outputs_named()):
            size = self.static(tensor)
            if size is not None:
                return size
        return None

    def elements(self, tensor: str) -> Curve:
        """Elements of a floating-point tensor; zero for any other."""
        return self._curve(tensor) if self.dtype(tensor) in FLOATING else ZERO

    def other_bytes(self, tensor: str) -> Curve:
        """Bytes of a tensor of another type; zero for floating-point ones."""
        dtype = self.dtype(tensor)
        return ZERO if dtype in FLOATING else self._curve(tensor).scaled(ELEMENT_BYTES.get(dtype, 0))

    def _curve(self, tensor: str) -> Curve:
        return from_dim(self.count(tensor), self.sizes, self.static(tensor))

    def dtype(self, tensor: str) -> str:
        """Type of the elements, reference or not."""
        name, index = split_tensor(tensor)
        outputs = self.program.ops[name].outputs
        return outputs[index].dtype.replace("_ref", "") if index < len(outputs) else ""

    @functools.cached_property
    def _roots(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for op in self.ops:
            if (op.type in VIEWS and op.inputs) or (op.type == "Sum" and self.costs[op.name].kind is Kind.NONE):
                found[op.output()] = found.get(op.inputs[0], op.inputs[0])
        return found

    def producer(self, tensor: str) -> Op:
        """The op that makes a tensor, with its phase."""
        return self.program.ops[split_tensor(tensor)[0]]

    def root(self, tensor: str) -> str:
        """The tensor whose buffer a tensor is."""
        return self._roots.get(tensor, tensor)

    @functools.cached_property
    def flowing(self) -> frozenset[str]:
        """Ops of the forward and backward pass whose values come from the batch, not only their sizes."""
        # The producer of a fed tensor is not run, and so is none of the ops.
        found = {split_tensor(source.tensor)[0] for source in self.analysis.sources}
        for op in self.ops:
            if op.type in SHAPES:
                continue
            if op.phase is Phase.INPUT or any(split_tensor(t)[0] in found for t in op.inputs):
                found.add(op.name)
        return frozenset(name for name in found if self.program.ops[name].phase is not Phase.INPUT)

    def weight_operand(self, op: Op) -> int | None:
        """For a product or lookup with a weight: which input the weight is."""
        for index, tensor in enumerate(op.inputs[:2]):
            name = split_tensor(tensor)[0]
            if name not in self.flowing and self.program.ops[name].phase is not Phase.INPUT:
                return index if op.inputs and self.holder(tensor) is not None else None
        return None

    def holder(self, tensor: str) -> str | None:
        """The variable whose value a tensor is, through views and casts; None where it is no variable's."""
        name = split_tensor(self.root(tensor))[0]
        for _ in range(16):
            if name in self.program.variables:
                return name
            op = self.program.ops[name]
            if not op.inputs or (op.type not in VIEWS and op.type not in _PASSING):
                return None
            name = split_tensor(self.root(op.inputs[0]))[0]
        return None
