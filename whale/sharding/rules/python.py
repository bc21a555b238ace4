"""Python functions of the script (``tf.py_func``).

What a function does with its rows nobody can tell, so it is called once, with the whole batch. Where every copy draws
its own batch, the function was written for such a batch: each copy calls it with its own.
"""

from __future__ import annotations

from collections.abc import Callable

from whale.ir.placement import Sharded
from whale.sharding.call import Call
from whale.sharding.facts import Decision, Decline

Rule = Callable[[Call], Decision]


def py_func(call: Call) -> Decision:
    """PyFunc: on each copy's own draw if every input and output has its rows there, else once on the whole batch."""
    cuts = [fact.sharded for fact in call.ins if fact.sharded is not None]
    if not cuts:
        return call.whole()
    first = cuts[0]
    if not call.is_drawn(first):
        raise Decline("a Python function is called once, with the whole batch")
    if not all(cut.plain and cut.dim == 0 and call.batches.meet(cut.batch, first.batch) for cut in cuts):
        raise Decline("a Python function reads rows of different batches")
    rows = call.batches[first.batch].static
    for kind in call.op.outputs:
        if not kind.shape or kind.shape[0] not in (None, rows):
            raise Decline("an output of a Python function has no row per sample (set_shape tells)")
    outputs = [call.fact(Sharded(0, first.batch), kind.shape, i) for i, kind in enumerate(call.op.outputs)]
    return call.decide(call.settled(), *outputs)


RULES: dict[str, Rule] = dict.fromkeys(("PyFunc", "PyFuncStateless", "EagerPyFunc"), py_func)
