"""What the ops of a program cost: floating-point operations and bytes moved, from the sizes of their tensors.

Bytes are what an op must read and write at least: its inputs and outputs, and of a table the rows that are touched.
Sizes are polynomials in the unknown dims, so one analysis serves every batch size. An op type without a rule costs zero
FLOPs and its tensor bytes, and says that it is unknown. An op that calls a function (a v2 loop or branch) is unknown:
what it runs is not of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping

from whale.ir import dims as D
from whale.ir.cost import Cost, Dims, Kind, Sizes, Unsized
from whale.ir.cost_rules import RULES
from whale.ir.program import Op, Program, split_tensor


def op_cost(program: Program, op: Op, dims: Mapping[str, Dims] | None = None) -> Cost:
    """The cost of an op.

    Args:
        program: the program it belongs to.
        op: the op.
        dims: sizes of tensors; a tensor that is missing has its static shape, its unknown dims being symbols.
    """
    known: Mapping[str, Dims] = dims or {}
    sizes = Sizes(
        op=op,
        ins=tuple(tensor_dims(program, tensor, known) for tensor in op.inputs),
        outs=tuple(tensor_dims(program, tensor, known) for tensor in op.outputs_named()),
        in_types=tuple(_type(program, tensor) for tensor in op.inputs),
    )
    rule = RULES.get(op.type)
    if rule is None:
        return Cost(0, sizes.moved(), Kind.UNKNOWN)
    try:
        return rule(sizes)
    except Unsized:
        return Cost(0, sizes.moved(), Kind.UNKNOWN)


def program_costs(program: Program, dims: Mapping[str, Dims] | None = None) -> dict[str, Cost]:
    """The cost of every op, by name."""
    return {name: op_cost(program, op, dims) for name, op in program.ops.items()}


def unknown_types(program: Program, costs: Mapping[str, Cost]) -> dict[str, int]:
    """Op types whose cost is unknown, with how many ops there are, the most frequent first."""
    counts: dict[str, int] = {}
    for name, cost in costs.items():
        if not cost.known:
            counts[program.ops[name].type] = counts.get(program.ops[name].type, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def tensor_dims(program: Program, tensor: str, dims: Mapping[str, Dims]) -> Dims:
    """Sizes of a tensor: as given, else its static shape with a symbol for each unknown dim."""
    if tensor in dims:
        return dims[tensor]
    name, index = split_tensor(tensor)
    kinds = program.ops[name].outputs
    shape = kinds[index].shape if index < len(kinds) else None
    if shape is None:
        return None
    return tuple(D.symbol(f"{tensor}[{at}]") if size is None else size for at, size in enumerate(shape))


def _type(program: Program, tensor: str) -> str:
    name, index = split_tensor(tensor)
    kinds = program.ops[name].outputs
    return kinds[index].dtype if index < len(kinds) else ""
