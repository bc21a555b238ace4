"""Nodes that wait for what is outside of a step: data, files, Python functions, other steps.

A step may take as long as these do. What only reads or writes state of its own process, or waits for other nodes of
the step, is not one of them. An op whose type says nothing of it is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from whale import _tf
from whale.rewriter.frames import producer

_WAITS = frozenset(
    [
        "AccumulatorTakeGradient",
        "BarrierInsertMany",
        "BarrierTakeMany",
        "InitializeTableFromTextFile",
        "MatchingFiles",
        "PyFuncStateless",
        "QueueDequeue",
        "QueueDequeueMany",
        "QueueDequeueUpTo",
        "QueueEnqueue",
        "QueueEnqueueMany",
        "ReadFile",
        "ReaderRead",
        "ReaderReadUpTo",
        "SparseAccumulatorTakeGradient",
    ]
)
"""Types that wait though TensorFlow does not call them stateful."""

_PROMPT = re.compile(
    r"_?Arg|Anonymous|Assert$|Assign|Case$|CheckNumerics|Collective|CudnnRNN|DeepCopy|Delete|Destroy|Empty|FakeQueue|"
    r"(FIFO|PaddingFIFO|Priority|RandomShuffle)Queue(V2)?$|GuaranteeConst|If$|InitializeTable(V2)?$|Iterator(V2)?$|"
    r"IteratorFromStringHandle|IteratorToStringHandle|LookupTable|Multinomial|Mutable|HashTable|NonDeterministic|"
    r"OneShotIterator|Parameterized|QueueClose|QueueIsClosed|QueueSize|Random|ReadVariable|Resource(?!Accumulator)|Rng|"
    r"SampleDistorted|Skipgram|NegTrain|Stack|Stateful|Stateless|TemporaryVariable|TensorArray|Timestamp|Truncated|"
    r"Var|While$|XlaLaunch|_Host(Send|Recv)$|\w*CandidateSampler$|\w*Dataset(V\d)?$"
)
"""Stateful types that are done as soon as they have their inputs, functions apart, which are looked into."""

_READS_DATA = frozenset({"ReduceDataset", "DatasetToSingleElement", "SleepIdentityOp"})
"""Types with the names of datasets that draw from them."""


def outside(graph: GraphDef, roots: Iterable[str], fed: Collection[str]) -> list[NodeDef]:
    """The nodes that a run reaches and that wait for what is outside of it.

    Args:
        graph: with all nodes.
        roots: nodes and tensors that are run.
        fed: tensors that are fed.
    """
    waiting = _waiting_functions({function.signature.name: function.node_def for function in graph.library.function})
    found = reached({node.name: node for node in graph.node}, roots, fed)
    return [node for node in found.values() if _waits(node, waiting)]


def reached(nodes: Mapping[str, NodeDef], roots: Iterable[str], fed: Collection[str] = ()) -> dict[str, NodeDef]:
    """The nodes that a run of some nodes and tensors executes, by name."""
    found: dict[str, NodeDef] = {}
    stack = [root for root in roots if root not in fed]
    while stack:
        name = producer(stack.pop())
        if name in found:
            continue
        found[name] = nodes[name]
        stack.extend(text for text in nodes[name].input if (text if ":" in text else f"{text}:0") not in fed)
    return found


@functools.cache
def type_waits(op_type: str) -> bool:
    """Whether nodes of a type wait for what is outside, functions apart."""
    if op_type in _WAITS or op_type in _READS_DATA:
        return True
    return _tf.op_definition(op_type) is not None and _tf.op_is_stateful(op_type) and not _PROMPT.match(op_type)


def _waits(node: NodeDef, functions: set[str]) -> bool:
    return type_waits(node.op) or any(name in functions for name in _called(node))


def _called(node: NodeDef) -> Iterator[str]:
    """The functions that a node may call. Those of a dataset are called by what draws from it."""
    yield node.op
    for attr in node.attr.values():
        yield attr.func.name
        yield from (function.name for function in attr.list.func)


def _waiting_functions(library: Mapping[str, Sequence[NodeDef]]) -> set[str]:
    found: set[str] = set()
    grew = True
    while grew:
        new = {name for name, body in library.items() if name not in found and any(_waits(n, found) for n in body)}
        grew = bool(new)
        found |= new
    return found
