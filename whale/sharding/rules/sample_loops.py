"""How ops in and around loops over the samples of a batch run, where copies go through their own samples.

Inside such a loop, what depends on a sample is each copy's own: an op that reads some runs on every copy with what the
copy has. The counter is the number of the sample among the copy's own, so nothing but arrays may be asked by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from whale.ir.dims import Dim
from whale.ir.placement import EACH, PARTIAL, REPLICATED, Sharded
from whale.sharding.call import Call
from whale.sharding.containers import GRADIENT, Common
from whale.sharding.facts import Decision, Decline, Fact, PartDims, Want
from whale.sharding.order import ENTERS, EXITS, MERGES
from whale.sharding.sample_loops import COUNTER, FLOW, SUM, SampleLoops

Rule = Callable[[Call], Decision]

ELEMENTS = -1
"""The dim that is cut of the elements of an array with one element per sample: their stack is cut on dim 0."""

_PASSING = frozenset({"Identity", "Switch", "NextIteration", "Enter", "Exit"})


def decide(call: Call, loops: SampleLoops, rule: Rule | None) -> Decision | None:
    """How an op runs that is in a loop over samples or uses its arrays; None where the op's own rule says.

    ``rule`` is the op's own rule. Where a loop turns out not to allow it, ``loops.changed`` is set: the propagation
    starts again, and leaves the loop whole.
    """
    frame = loops.frame(call.op.name)
    try:
        if frame is not None:
            return _inside(call, loops, call.batches.find(loops.batches[frame]), rule)
        return _outside(call, loops, rule)
    except Decline as why:
        if not call.batches.stale:  # else sizes found before and after do not compare, and all is found again
            loops.refuse(frame or _array(call.ins[0]), str(why))
        return None


def _array(fact: Fact) -> str:
    return (fact.origin or "").partition(GRADIENT)[0]


# -- around the loops ----------------------------------------------------------------------------------------------


def _outside(call: Call, loops: SampleLoops, rule: Rule | None) -> Decision | None:
    """A tensor taken apart into an array of samples, or put together from one."""
    if call.op.type not in ("TensorArrayScatterV3", "TensorArrayGatherV3", "TensorArraySizeV3"):
        return None
    array = _array(call.ins[0])
    batch = call.batches.find(loops.batches[array]) if array in loops.batches else None
    if batch is None:
        cut = call.ins[2].sharded if call.op.type == "TensorArrayScatterV3" else None
        if cut is None or cut.dim != 0 or rule is None:
            return None
        if cut.plain:
            loops.take(array, cut.batch)
        reason = loops.refused.get(array, "the samples are gone through in a loop that is not one over each of them")
        return dataclasses.replace(rule(call), declined=reason)
    if call.op.type == "TensorArraySizeV3":
        size = np.array(call.batches.size(batch), dtype=object)
        return call.decide([None, None], call.fact(REPLICATED, (), value=size))
    if not _counts_all(call, call.ins[1], batch):
        raise Decline("only some samples are put into an array or taken from it")
    return _scatter(call, batch) if call.op.type == "TensorArrayScatterV3" else _gather(call, batch)


def _counts_all(call: Call, indices: Fact, batch: int) -> bool:
    """Whether indices are those of all samples, in order."""
    if indices.iota is not None and call.batches.meet(indices.iota, batch):
        return True
    size = call.batches.size(batch)
    return isinstance(size, int) and indices.value is not None and list(indices.value) == list(range(size))


def _scatter(call: Call, batch: int) -> Decision:
    origin, value = call.ins[0].origin or "", call.ins[2]
    want = call.piece(2, Sharded(0, batch))
    call.containers.write(origin, value, Sharded(ELEMENTS, batch), None if value.dims is None else value.dims[1:])
    out = dataclasses.replace(call.fact(REPLICATED, ()), origin=origin)
    return call.decide([None, REPLICATED, want, None], out, recipe="own_elements", batch=batch)


def _gather(call: Call, batch: int) -> Decision:
    cut = Sharded(0, batch)
    element = _element(call)
    if element is None or not all(isinstance(size, int) for size in element):
        call.require_samples(cut)  # the kernel finds no shape for the stack of no elements
    out = call.fact(cut, None if element is None else (None, *element))
    shapes = {} if element is None else {"element_shape": [s if isinstance(s, int) else None for s in element]}
    return call.decide([None, REPLICATED, None], out, recipe="own_elements", batch=batch, shapes=shapes)


def _element(call: Call) -> PartDims:
    """What is known of the sizes of an array's elements; a gradient's have the sizes of the forward ones."""
    known: list[PartDims] = [call.attr("element_shape")]
    for origin in (call.ins[0].origin or "", _array(call.ins[0])):
        known.append(call.containers.common.get(origin, Common()).dims)
    ranks = [dims for dims in known if dims is not None]
    if not ranks:
        return None
    sizes = zip(*(dims for dims in ranks if len(dims) == len(ranks[0])))
    return tuple(next((s for s in size if isinstance(s, int)), size[-1]) for size in sizes)


# -- inside of them ------------------------------------------------------------------------------------------------


def _inside(call: Call, loops: SampleLoops, batch: int, rule: Rule | None) -> Decision | None:
    op = call.op
    directly = loops.directly(op.name)
    if directly and op.type in ENTERS:
        return _enter(call)
    if op.type in MERGES:
        return _merge(call, loops.carried.get(op.name) if directly else None, batch)
    if directly and op.type in EXITS:
        kind = loops.left(op)
        if kind == SUM:
            return call.decide([None], call.fact(PARTIAL, call.ins[0].dims))
        return None if kind != COUNTER else _own(call, batch)
    if op.type == "Switch" and (call.ins[0].origin is not None or loops.goes_on(op)):
        outs = [dataclasses.replace(call.ins[0], value=None)] * 2
        return call.decide([None, None], *outs)
    if op.type.startswith(("TensorArray", "Stack")):
        return _container(call, loops, batch, rule)
    counts = [f.iota is not None and f.placement == EACH for f in call.ins]
    if any(counts):
        return _counter(call, counts, batch)
    if any(f.placement == EACH for f in call.ins):
        return _own(call)
    return None


def _own(call: Call, iota: int | None = None) -> Decision:
    """Every copy runs the op with what it has."""
    outs = [call.fact(EACH, None, i, iota=iota) for i in range(len(call.op.outputs))]
    return call.decide([None if f.placement == EACH else REPLICATED for f in call.ins], *outs)


def _enter(call: Call) -> Decision:
    """What the loop reads of the outside it reads whole."""
    fact = call.ins[0]
    if fact.placement == EACH:
        if fact.iota is None:
            raise Decline("it reads sizes that each copy has for its own piece")
        return _own(call, fact.iota)
    passed = call.fact(REPLICATED, fact.dims, value=fact.value, zero=fact.zero)
    return call.decide([REPLICATED], dataclasses.replace(passed, origin=fact.origin))


def _merge(call: Call, kind: str | None, batch: int) -> Decision | None:
    start, index = call.ins[0], Fact(REPLICATED, ())
    wants: list[Want] = [None] * len(call.ins)
    if kind == FLOW:
        return None
    if kind is None:  # of a conditional, or of a loop within
        if any(f.iota is not None for f in call.ins):
            raise Decline(f"{call.op.type} makes use of the number of a sample")
        if any(f.origin is not None for f in call.ins):
            return None
        return call.decide(wants, call.fact(EACH), Fact(EACH, ()))
    if kind == COUNTER:
        zero = start.value is not None and start.value.item() == 0
        if not zero and (start.placement != EACH or start.iota is None):
            raise Decline("it does not start from the first sample")
        return call.decide(wants, call.fact(EACH, (), iota=batch), index)
    if kind == SUM:
        if not start.zero:
            raise Decline("its sums do not start from zero")
        return call.decide(wants, call.fact(EACH, start.dims), index)
    return call.decide(wants, start, index)


def _counter(call: Call, counts: list[bool], batch: int) -> Decision:
    """What may be asked of a counter: to be passed on, to count, and whether it has come to its end."""
    other = next((f for f, count in zip(call.ins, counts) if not count), None)
    value = None if other is None or other.value is None or other.value.ndim else other.value.item()
    if call.op.type in _PASSING or (call.op.type in ("Add", "AddV2", "Sub") and value == 1):
        return _own(call, batch)
    if call.op.type == "GreaterEqual" and counts[0] and value == 1:
        return _own(call)
    if call.op.type == "Less" and counts[0] and value is not None and _is_size(call, value, batch):
        return call.decide([None, REPLICATED], call.fact(EACH, ()), recipe="own_end", batch=batch)
    raise Decline(f"{call.op.type} makes use of the number of a sample")


def _is_size(call: Call, value: Dim, batch: int) -> bool:
    """Whether a number is that of the samples of a batch; one of another batch that may be the same becomes so."""
    size = call.batches.size(batch)
    return value == size or (not isinstance(value, int) and call.batches.equate(value, size))


def _container(call: Call, loops: SampleLoops, batch: int, rule: Rule | None) -> Decision:
    """Reads and writes of one element, stacks of what the gradient needs, and arrays made in the loop."""
    op, origin, array = call.op, call.ins[0].origin, _array(call.ins[0])
    if rule is None or (origin is None and op.type not in _NEW):
        raise Decline("it uses a container of unknown origin")
    own: list[Want] = [None if f.placement == EACH or f.origin else REPLICATED for f in call.ins]
    if op.type in _NEW or op.type == "TensorArrayGradV3":
        return dataclasses.replace(rule(call), wants=tuple(own))
    if op.type.startswith("Stack"):
        return _stack(call, own)
    if array in loops.batches:
        return _element_of(call, own, batch)
    if loops.frame(array) is None:
        raise Decline(f"{op.type} is of an array that has not one element per sample")
    if op.type in _VALUES:
        call.containers.write(origin or "", call.ins[_VALUES[op.type]], EACH, None)
        outs = [dataclasses.replace(call.fact(REPLICATED, ()), origin=origin)]
    else:
        outs = [call.fact(EACH, None, i) for i in range(len(op.outputs))]
    return call.decide(own, *outs)


_NEW = frozenset({"TensorArrayV3", "StackV2"})
_VALUES = {"TensorArrayWriteV3": 2, "TensorArrayScatterV3": 2, "TensorArraySplitV3": 1}
"""Ops that write elements, and the input that holds them."""


def _element_of(call: Call, wants: list[Want], batch: int) -> Decision:
    """The element of the sample, read or written."""
    origin = call.ins[0].origin or ""
    if call.op.type not in ("TensorArrayReadV3", "TensorArrayWriteV3") or call.ins[1].iota is None:
        raise Decline("it uses other elements than that of the sample")
    if call.op.type == "TensorArrayReadV3":
        return call.decide(wants, call.fact(EACH, call.containers.common.get(origin, Common()).dims))
    value = call.ins[2]
    call.containers.write(origin, value, Sharded(ELEMENTS, batch), value.dims)
    return call.decide(wants, dataclasses.replace(call.fact(REPLICATED, ()), origin=origin))


def _stack(call: Call, wants: list[Want]) -> Decision:
    """What is pushed is each copy's own, but for containers and the order of writes."""
    origin = call.ins[0].origin or ""
    if call.op.type == "StackPushV2":
        value = call.ins[1]
        placement = REPLICATED if value.origin else EACH
        call.containers.write(origin, value, placement, value.dims)
        out = call.fact(placement, value.dims, iota=value.iota)
        return call.decide([None, None], dataclasses.replace(out, origin=value.origin))
    if call.op.type == "StackPopV2":
        common = call.containers.common.get(origin, Common())
        out = call.fact(REPLICATED if common.origin else EACH, common.dims, iota=common.iota)
        return call.decide([None], dataclasses.replace(out, origin=common.origin))
    return call.decide(wants, *(call.fact(REPLICATED, None, i) for i in range(len(call.op.outputs))))
