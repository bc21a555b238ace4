"""Which activations the backward pass needs of the forward pass.

As TensorFlow runs a graph op by op, every tensor that a backward op reads is kept. A runtime that fuses element-wise
ops keeps what its products read, and of the rest the fewest bytes from which the needed values follow by element-wise
work alone: a minimum cut (as in the partitioner of functorch, "min-cut rematerialization").
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from whale.cost_model.tensors import RANDOM, SHAPES, VIEWS, Tensors
from whale.ir.cost import Kind
from whale.ir.program import Op, Phase, split_tensor

# scipy has no type stubs: imported so that the checker takes what it returns for anything.
_SPARSE: Any = importlib.import_module("scipy.sparse")
_GRAPHS: Any = importlib.import_module("scipy.sparse.csgraph")

_TYPICAL = 8
"""Samples at which sizes are compared."""

_HEAVY = frozenset({Kind.MATMUL, Kind.CONVOLUTION, Kind.UNKNOWN})

_MOST_FLOW = 1 << 28
"""Capacities are scaled to add up to less than this: scipy counts in 32 bits."""


def read_by_backward(tensors: Tensors, ops: Iterable[Op] | None = None) -> dict[str, list[Op]]:
    """Buffers of the forward pass that backward ops read, with those ops."""
    forward = {op.name for op in tensors.ops if op.phase is Phase.FORWARD}
    found: dict[str, list[Op]] = {}
    for op in tensors.ops if ops is None else ops:
        if op.phase is not Phase.BACKWARD or op.type in SHAPES or op.type in VIEWS:
            continue
        for index, tensor in enumerate(op.inputs):
            root = tensors.root(tensor)
            if split_tensor(root)[0] in forward and _matters(tensors, op, index, root):
                found.setdefault(root, []).append(op)
    return found


def _matters(tensors: Tensors, op: Op, index: int, root: str) -> bool:
    """Whether a tensor grows with the batch, and is read for its values."""
    if op.type == "FusedBatchNormGradV3" and index > 1:
        return False
    size = tensors.elements(root) + tensors.other_bytes(root)
    return len(size.coefficients) > 1 and split_tensor(root)[0] not in tensors.program.variables


def kept_by_op(tensors: Tensors) -> set[str]:
    """What a runtime that runs op by op keeps."""
    return set(read_by_backward(tensors))


def kept_by_fusion(tensors: Tensors, alive: frozenset[str], redo_products: bool = False) -> set[str]:
    """What a runtime that fuses keeps.

    Args:
        tensors: the program.
        alive: ops that a step needs.
        redo_products: whether products of activations run again, and random numbers with the same seeds.
    """
    needed = read_by_backward(tensors, [op for op in tensors.ops if op.name in alive])
    again = _between_products(tensors) if redo_products else frozenset[str]()
    forced = {root for root, readers in needed.items() if any(_is_forced(tensors, op, again) for op in readers)}
    return forced | _minimum_cut(tensors, forced, set(needed) - forced, again)


def redone_ops(tensors: Tensors, kept: set[str], alive: frozenset[str]) -> frozenset[str]:
    """Products of activations that must run again when only ``kept`` is there."""
    needed = [t for t in read_by_backward(tensors, [op for op in tensors.ops if op.name in alive]) if t not in kept]
    found: set[str] = set()
    seen: set[str] = set()
    while needed:
        root = needed.pop()
        if root in seen or root in kept:
            continue
        seen.add(root)
        op = tensors.program.ops[split_tensor(root)[0]]
        if op.phase is not Phase.FORWARD:
            continue
        if tensors.costs[op.name].kind in _HEAVY:
            found.add(op.name)
        needed.extend(tensors.root(t) for t in op.inputs if split_tensor(t)[0] in tensors.flowing)
    return frozenset(found)


def _between_products(tensors: Tensors) -> frozenset[str]:
    """Products of activations, and the random numbers that are used on the way from one to the next."""
    forward = [op for op in tensors.ops if op.phase is Phase.FORWARD]
    products = {
        op.name
        for op in forward
        if tensors.costs[op.name].kind is Kind.MATMUL and op.name in tensors.flowing and _unweighted(tensors, op)
    }
    behind: set[str] = set()
    for op in forward:
        names = [split_tensor(t)[0] for t in op.inputs]
        if any(name in products or (name in behind and name not in products) for name in names) and (
            op.name in products or tensors.costs[op.name].kind not in _HEAVY
        ):
            behind.add(op.name)
    before: set[str] = set()
    for op in reversed(forward):
        if op.name in products or op.name in before:
            for name in (split_tensor(t)[0] for t in op.inputs):
                other = tensors.program.ops[name]
                between = name in behind or name not in tensors.flowing or other.type in RANDOM
                if between and other.phase is Phase.FORWARD and tensors.costs[name].kind not in _HEAVY:
                    before.add(name)
    return frozenset(products | {name for name in before if tensors.program.ops[name].type in RANDOM})


def _unweighted(tensors: Tensors, op: Op) -> bool:
    return all(split_tensor(t)[0] in tensors.flowing for t in op.inputs)


def _is_forced(tensors: Tensors, op: Op, again: frozenset[str]) -> bool:
    """Whether a backward op reads its inputs from memory as they are."""
    return tensors.costs[op.name].kind in _HEAVY and op.forward not in again


def _is_light(tensors: Tensors, op: Op, again: frozenset[str]) -> bool:
    """Whether an op of the forward pass may run again."""
    if op.name in again:
        return True
    lookup = op.type in ("Gather", "GatherV2", "ResourceGather")
    return op.type not in RANDOM and not lookup and tensors.costs[op.name].kind not in _HEAVY


def _minimum_cut(tensors: Tensors, free: set[str], needed: set[str], again: frozenset[str]) -> set[str]:
    """The buffers with the fewest bytes from which, with the free ones, all needed ones follow by light ops."""
    if not needed:
        return set()
    edges, sources, capacity = _network(tensors, free, needed, again)
    names = {name: index for index, name in enumerate(capacity)}
    source, sink = 2 * len(names), 2 * len(names) + 1
    endless = sum(capacity.values()) + 1
    arcs: list[tuple[int, int, int]] = []
    for name, size in capacity.items():
        arcs.append((2 * names[name], 2 * names[name] + 1, size))
    arcs += [(2 * names[a] + 1, 2 * names[b], endless) for a, b in edges]
    arcs += [(source, 2 * names[name], endless) for name in sources]
    arcs += [(2 * names[name] + 1, sink, endless) for name in needed]
    reached = _reached(arcs, source, sink)
    return {n for n, i in names.items() if 2 * i in reached and 2 * i + 1 not in reached and n not in free}


def _network(
    tensors: Tensors, free: set[str], needed: set[str], again: frozenset[str]
) -> tuple[list[tuple[str, str]], set[str], Mapping[str, int]]:
    """Edges between buffers, the buffers that no light op makes, and the size of each; only what leads to needed ones.

    Tensors that do not grow with the batch cost nothing, and neither do free ones: they are left out.
    """
    edges: list[tuple[str, str]] = []
    sources: set[str] = set()
    sizes: dict[str, float] = {}
    pending = list(needed)
    while pending:
        root = pending.pop()
        if root in sizes:
            continue
        sizes[root] = 2 * tensors.elements(root).at(_TYPICAL) + tensors.other_bytes(root).at(_TYPICAL)
        op = tensors.program.ops[split_tensor(root)[0]]
        if op.phase is not Phase.FORWARD or not _is_light(tensors, op, again):
            sources.add(root)
            continue
        for tensor in () if op.type in SHAPES else op.inputs:
            before = tensors.root(tensor)
            size = tensors.elements(before) + tensors.other_bytes(before)
            if before not in free and len(size.coefficients) > 1:
                edges.append((before, root))
                pending.append(before)
    scale = max(1.0, sum(sizes.values()) / _MOST_FLOW)
    return edges, sources, {name: max(1, round(size / scale)) for name, size in sizes.items()}


def _reached(arcs: list[tuple[int, int, int]], source: int, sink: int) -> set[int]:
    """Nodes that the source still reaches when the flow is at its maximum."""
    rest = _residual(arcs, source, sink)
    seen = {source}
    stack = [source]
    while stack:
        for other in rest.get(stack.pop(), ()):
            if other not in seen:
                seen.add(other)
                stack.append(other)
    return seen


def _residual(arcs: list[tuple[int, int, int]], source: int, sink: int) -> dict[int, list[int]]:
    """For each node, the nodes to which capacity is left when the flow is at its maximum."""
    rows, columns, values = zip(*arcs)
    shape = (sink + 1, sink + 1)
    capacity = _SPARSE.csr_matrix((np.array(values, dtype=np.int32), (rows, columns)), shape)
    flow = _GRAPHS.maximum_flow(capacity, source, sink).flow
    rest = (capacity.astype(np.int64) - flow.astype(np.int64)).tocoo()
    found: dict[int, list[int]] = {}
    for node, other, left in zip(rest.row.tolist(), rest.col.tolist(), rest.data.tolist()):
        if left > 0:
            found.setdefault(node, []).append(other)
    return found
