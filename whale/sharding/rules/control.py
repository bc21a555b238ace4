"""Control flow of the graph: conditionals, loops, and the containers that loops use.

A predicate is one value for all copies. What a loop carries is found by fixed point in ``propagate``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from whale.ir.placement import REPLICATED, Placement, Sharded
from whale.sharding.call import Call
from whale.sharding.containers import GRADIENT, Common
from whale.sharding.facts import Decision, Decline, Fact, PartDims, Relaxed, Want

Rule = Callable[[Call], Decision]


def switch(call: Call) -> Decision:
    """Both branches see the tensor as it is."""
    fact = call.ins[0]
    outs = [_pass(call, fact, i) for i in range(len(call.op.outputs))]
    return call.decide([None, REPLICATED], *outs)


def forward_one(call: Call) -> Decision:
    """Enter, Exit, NextIteration: the tensor as it is."""
    return call.decide([None], _pass(call, call.ins[0], 0))


def _pass(call: Call, fact: Fact, index: int) -> Fact:
    passed = call.fact(fact.placement, fact.dims, index, value=fact.value, zero=fact.zero, iota=fact.iota)
    return dataclasses.replace(passed, origin=fact.origin)


def loop_condition(call: Call) -> Decision:
    """LoopCond: one value for all copies."""
    return call.decide([REPLICATED], call.fact(REPLICATED, ()))


def array_new(call: Call) -> Decision:
    """TensorArray, stack or tensor list made empty: a container per copy."""
    outs = [
        dataclasses.replace(call.fact(REPLICATED, None, i), origin=call.op.name) for i in range(len(call.op.outputs))
    ]
    return call.decide([REPLICATED] * len(call.ins), *outs)


def array_grad(call: Call) -> Decision:
    """The gradient's container of a TensorArray: one per array and source."""
    origin = f"{_origin(call, 0)}{GRADIENT}{call.attr('source', '')}"
    outs = [dataclasses.replace(call.fact(REPLICATED, None, i), origin=origin) for i in range(2)]
    return call.decide([None] * len(call.ins), *outs)


def _origin(call: Call, index: int) -> str:
    origin = call.ins[index].origin
    if origin is None:
        raise Decline("the container's origin is not known")
    return origin


def write(value_at: int, drop: int) -> Rule:
    """A write of one element (``drop`` = 0) or of a stack of them along dim 0 (``drop`` = 1)."""

    def rule(call: Call) -> Decision:
        origin, fact = _origin(call, 0), call.ins[value_at]
        placement: Placement = fact.placement
        if isinstance(placement, Sharded) and drop:
            placement = REPLICATED if placement.dim == 0 else placement.on(placement.dim - 1)
        dims: PartDims = None if fact.dims is None else fact.dims[drop:]
        if dims and call.op.type == "TensorArraySplitV3":
            dims = (None, *dims[1:])
        known = call.containers.elements.get(origin)
        if isinstance(known, Sharded) and isinstance(placement, Sharded) and call.one_cut(known, placement):
            placement = known
        stored = call.containers.write(origin, fact, placement, dims)
        want: Want = stored.on(stored.dim + drop) if isinstance(stored, Sharded) else stored
        wants: list[Want] = [None if f.origin else REPLICATED for f in call.ins]
        wants[value_at] = call.piece(value_at, want) if isinstance(want, Sharded) else _as(fact, want)
        outs = [dataclasses.replace(call.fact(REPLICATED, (), i), origin=origin) for i in range(len(call.op.outputs))]
        return call.decide(wants, *outs)

    return rule


def _as(fact: Fact, want: Want) -> Want:
    return None if fact.placement == want else want


_ELEMENT_SHAPE = {
    "TensorListFromTensor": 1,
    "TensorListReserve": 0,
    "EmptyTensorList": 0,
    "TensorListStack": 1,
    "TensorListGetItem": 2,
    "TensorListPopBack": 1,
    "TensorListGather": 2,
}
"""The input of list ops that names the shape of an element."""


def relaxed(rule: Rule) -> Rule:
    """A list op whose elements are cut: the size of their cut dim is left open."""

    def wrapped(call: Call) -> Decision:
        decision = rule(call)
        at = _ELEMENT_SHAPE[call.op.type]
        origin = call.ins[0].origin or call.op.name
        cut = call.containers.cut(origin)
        value = call.ins[at].value
        if cut is None or value is None or value.ndim == 0:
            return decision
        wants = [Relaxed(cut.dim) if i == at else w for i, w in enumerate(decision.wants)]
        return dataclasses.replace(decision, wants=tuple(wants))

    return wrapped


def push(call: Call) -> Decision:
    """StackPush: writes an element and passes it on."""
    origin, fact = _origin(call, 0), call.ins[1]
    stored = call.containers.write(origin, fact, fact.placement, fact.dims)
    return call.decide(
        [None, None if fact.placement == stored else stored], call.fact(stored, fact.dims, zero=fact.zero)
    )


def read(add: int, value_out: int = 0) -> Rule:
    """A read of one element (``add`` = 0) or of a stack of them along dim 0 (``add`` = 1)."""

    def rule(call: Call) -> Decision:
        handles = call.op.outputs[value_out].dtype in ("variant", "resource")
        origin = call.containers.holding(_origin(call, 0), handles)
        stored = call.containers.read(origin)
        placement: Placement = stored.on(stored.dim + add) if isinstance(stored, Sharded) else stored
        wants: list[Want] = [None if f.origin else REPLICATED for f in call.ins]
        outs: list[Fact] = []
        for i in range(len(call.op.outputs)):
            if i == value_out:
                common = call.containers.common.get(origin, Common())
                dims = None if common.dims is None else (*([None] * add), *common.dims)
                value = common.value if not add and placement == REPLICATED else None
                zero = call.containers.zeros.get(origin, False)
                out = call.fact(placement, dims, i, value=value, zero=zero)
                outs.append(dataclasses.replace(out, origin=common.origin))
            else:
                outs.append(dataclasses.replace(call.fact(REPLICATED, None, i), origin=origin))
        return call.decide(wants, *outs)

    return rule


def joined(add: int) -> Rule:
    """Elements joined along dim 0 (TensorArrayConcat) or taken apart along it (TensorArraySplit)."""

    def rule(call: Call) -> Decision:
        origin = _origin(call, 0)
        stored = call.containers.read(origin)
        if isinstance(stored, Sharded) and stored.dim == 0:
            raise Decline("joins or splits elements along the batch")
        common = call.containers.common.get(origin, Common())
        dims = None if not common.dims else (None, *common.dims[1:])
        outs = [call.fact(stored, dims, 0), *(call.fact(REPLICATED, None, i) for i in range(1, len(call.op.outputs)))]
        return call.decide([None if f.origin else REPLICATED for f in call.ins], *outs)

    return rule


def of_lists(rule: Rule) -> Rule:
    """AddN and ZerosLike, which also take tensor lists: all lists and the result are cut alike."""

    def wrapped(call: Call) -> Decision:
        origins = [f.origin for f in call.ins]
        if call.op.outputs[0].dtype != "variant" or any(o is None for o in origins):
            decision = rule(call)  # of a TensorArray's flow, a plain number that only orders its writes
            flow = next((o for o in origins if o is not None), None) if call.op.type == "AddN" else None
            out = dataclasses.replace(decision.outputs[0], origin=flow)
            return dataclasses.replace(decision, outputs=(out, *decision.outputs[1:]))
        known = [o for o in origins if o is not None]
        placements = {call.containers.elements[o] for o in known if o in call.containers.elements}
        if len(placements) > 1 or call.op.name in call.containers.forced:
            for origin in known:
                call.containers.force(origin)
            placements = {REPLICATED}
        common = call.containers.common.get(known[0], Common())
        element = Fact(value=common.value, origin=common.origin)
        for placement in placements:
            for origin in (*known, call.op.name):
                if origin not in call.containers.elements:
                    call.containers.write(origin, element, placement, common.dims)
        out = dataclasses.replace(call.fact(REPLICATED, ()), origin=call.op.name)
        return call.decide([None] * len(call.ins), out)

    return wrapped


def split_into(call: Call) -> Decision:
    """TensorArraySplit: elements are cut as the tensor, unless it is cut along dim 0."""
    fact = call.ins[1]
    if fact.sharded and fact.sharded.dim == 0:
        raise Decline("splits the batch into elements")
    return write(1, 0)(call)


def touch(call: Call) -> Decision:
    """Size, length, close: nothing but the container."""
    return call.decide([None if f.origin else REPLICATED for f in call.ins], *_plain(call))


def _plain(call: Call) -> list[Fact]:
    return [call.fact(REPLICATED, None, i) for i in range(len(call.op.outputs))]


def resized(call: Call) -> Decision:
    """TensorListResize: the same container, longer or shorter."""
    out = dataclasses.replace(call.fact(REPLICATED, ()), origin=_origin(call, 0))
    return call.decide([None, REPLICATED], out)


def optional_from(call: Call) -> Decision:
    """OptionalFromValue: a container of one element."""
    if len(call.ins) != 1:
        raise Decline("wraps several tensors in one optional")
    fact = call.ins[0]
    stored = call.containers.write(call.op.name, fact, fact.placement, fact.dims)
    out = dataclasses.replace(call.fact(REPLICATED, ()), origin=call.op.name)
    return call.decide([None if fact.placement == stored else stored], out)


def list_from(call: Call) -> Decision:
    """TensorListFromTensor: a container made of a stack of elements."""
    fact = call.ins[0]
    placement: Placement = fact.placement
    if isinstance(placement, Sharded):
        placement = REPLICATED if placement.dim == 0 else placement.on(placement.dim - 1)
    stored = call.containers.write(call.op.name, fact, placement, None if fact.dims is None else fact.dims[1:])
    want: Want = stored.on(stored.dim + 1) if isinstance(stored, Sharded) else stored
    out = dataclasses.replace(call.fact(REPLICATED, ()), origin=call.op.name)
    return call.decide([None if fact.placement == want else want, REPLICATED], out)


RULES: dict[str, Rule] = {
    "Switch": switch,
    "RefSwitch": switch,
    "Enter": forward_one,
    "RefEnter": forward_one,
    "Exit": forward_one,
    "RefExit": forward_one,
    "NextIteration": forward_one,
    "RefNextIteration": forward_one,
    "LoopCond": loop_condition,
    "TensorArrayV3": array_new,
    "StackV2": array_new,
    "OptionalNone": array_new,
    "OptionalFromValue": optional_from,
    "OptionalGetValue": read(0),
    "OptionalHasValue": touch,
    "TensorListReserve": array_new,
    "EmptyTensorList": array_new,
    "TensorArrayGradV3": array_grad,
    "TensorArrayWriteV3": write(2, 0),
    "TensorArrayScatterV3": write(2, 1),
    "TensorArrayReadV3": read(0),
    "TensorArrayGatherV3": read(1),
    "TensorArrayConcatV3": joined(0),
    "TensorArraySplitV3": split_into,
    "TensorArraySizeV3": touch,
    "TensorArrayCloseV3": touch,
    "StackPushV2": push,
    "StackPopV2": read(0),
    "StackCloseV2": touch,
    "TensorListSetItem": write(2, 0),
    "TensorListScatterIntoExistingList": write(1, 1),
    "TensorListGetItem": read(0),
    "TensorListPushBack": write(1, 0),
    "TensorListPopBack": read(0, 1),
    "TensorListStack": read(1),
    "TensorListGather": read(1),
    "TensorListLength": touch,
    "TensorListElementShape": touch,
    "TensorListResize": resized,
    "TensorListFromTensor": list_from,
}

for _name in _ELEMENT_SHAPE:
    RULES[_name] = relaxed(RULES[_name])

CONTAINERS = frozenset(name for name in RULES if name.startswith(("Tensor", "Stack", "Empty", "Optional")))
"""Op types that make, write or read a container; their state is each copy's own."""

PASS_CONTAINERS = CONTAINERS | {
    "Enter",
    "Exit",
    "NextIteration",
    "Switch",
    "Identity",
    "IdentityN",
    "AddN",
    "ZerosLike",
}
"""Op types whose rules know containers: those that use them, and those that pass them on."""
