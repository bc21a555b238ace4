"""Which ops have a copy per piece of the batch, rather than one per device."""

from __future__ import annotations

from whale.ir.placement import REPLICATED
from whale.ir.program import Phase, split_tensor
from whale.sharding.propagate import Analysis
from whale.sharding.residence import Residence
from whale.sharding.rules.control import CONTAINERS
from whale.sharding.rules.state import on_variable


def divided(analysis: Analysis, residence: Residence) -> frozenset[str]:
    """The ops that run once per copy: those on pieces, what groups them, and all of a loop that has one in it."""
    found = {
        op.name
        for op in analysis.order.ops
        if analysis.decisions[op.name].distributed
        or any(
            want is None and analysis.facts[tensor].placement != REPLICATED
            for tensor, want in zip(op.inputs, analysis.decisions[op.name].wants)
        )
    }
    found.update(_own_sizes(analysis, residence))
    readers: dict[str, list[str]] = {}
    for op in analysis.order.ops:
        for tensor in op.inputs:
            readers.setdefault(split_tensor(tensor)[0], []).append(op.name)
    for op in analysis.order.ops:
        # A constant that waits for pieces is one for all of them where something reads it once for all.
        waits = not op.inputs and residence.all(op.name) and any(control in found for control in op.controls)
        if waits and all(reader in found for reader in readers.get(op.name, ())):
            found.add(op.name)
    roots = {op.name: analysis.order.frame(op.name)[:1] for op in analysis.order.ops if analysis.order.frame(op.name)}
    before = -1
    while len(found) > before:  # what uses a loop's containers may be in another loop
        before = len(found)
        found.update(_containers(analysis, residence, found))
        found.update(_handles(analysis, residence, found))
        loops = {roots[name] for name in found if name in roots}
        found.update(name for name, root in roots.items() if root in loops)
    return frozenset(found)


def _own_sizes(analysis: Analysis, residence: Residence) -> set[str]:
    """What is worked out from the shapes of samples that every copy draws for itself: each draw may be padded to a
    length of its own. It ends where copies exchange values, and at variables."""
    found: set[str] = set()
    for op in analysis.order.ops:
        facts = [analysis.facts[tensor] for tensor in op.inputs]
        if analysis.decisions[op.name].recipe.startswith("global_"):
            own = any(fact.sharded is not None and analysis.is_drawn(fact.sharded.batch) for fact in facts)
        else:
            whole = all(fact.placement == REPLICATED for fact in facts)
            pure = not (op.stateful or op.phase is Phase.UPDATE or on_variable(op.type))
            own = whole and pure and any(split_tensor(tensor)[0] in found for tensor in op.inputs)
        if own and residence.all(op.name):
            found.add(op.name)
    return found


def _containers(analysis: Analysis, residence: Residence, divided: set[str]) -> set[str]:
    """The ops around containers (TensorArrays, stacks, lists) of which one that works on pieces has something to do:
    each copy has a container of its own."""
    users: dict[str, set[str]] = {}
    for op in analysis.order.ops:
        for tensor in (*op.inputs, *op.outputs_named()):
            origin = analysis.facts[tensor].origin if tensor in analysis.facts else None
            if origin is not None:
                users.setdefault(origin, set()).add(op.name)
    found = {name for names in users.values() if names & divided for name in names}
    ops = {op.name: op for op in analysis.order.ops}
    flows = [ops[name].inputs[-1] for name in found if ops[name].type.startswith("TensorArray") and ops[name].inputs]
    while flows:  # what orders their use stands between them
        name = split_tensor(flows.pop())[0]
        if name in ops and name not in found and ops[name].type == "Identity":
            found.add(name)
            flows.append(ops[name].inputs[0])
    return {name for name in found if residence.all(name)}


def _handles(analysis: Analysis, residence: Residence, divided: set[str]) -> set[str]:
    """The ops from where containers are made to where they are used, where one of the users works on pieces.

    By the handles themselves: what is known of elements may be lost on the way, into a loop within a loop for one. A
    stack that copies share would give one copy what another has pushed.
    """
    ops = {op.name: op for op in analysis.order.ops}
    ways: dict[str, set[str]] = {}
    for op in analysis.order.ops:
        if op.type not in CONTAINERS or not op.inputs:
            continue
        way, tensor = {op.name}, op.inputs[0]
        while tensor:
            name, index = split_tensor(tensor)
            if name in way or name not in ops or ops[name].outputs[index].dtype not in ("resource", "string_ref"):
                break
            way.add(name)
            if ops[name].type in CONTAINERS and not ops[name].type.startswith("TensorArrayGrad"):
                ways.setdefault(name, set()).update(way)
                break
            tensor = ops[name].inputs[0] if ops[name].inputs else ""
    found = {name for names in ways.values() if names & divided for name in names}
    return {name for name in found if residence.all(name)}
