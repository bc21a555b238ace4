"""Tables of op types by what they are for in a graph."""

from __future__ import annotations

import functools

from whale.ir.program import Op


def names(text: str) -> frozenset[str]:
    """The words of a text, for tables of op types."""
    return frozenset(text.split())


RESTORES = frozenset({"RestoreV2", "Restore", "RestoreSlice"})
"""Ops that read a checkpoint."""

SOURCES = names(
    "Placeholder PlaceholderV2 PlaceholderWithDefault Iterator IteratorV2 OneShotIterator AnonymousIterator "
    "AnonymousIteratorV2 AnonymousIteratorV3 IteratorGetNext IteratorGetNextSync IteratorGetNextAsOptional "
    "IteratorToStringHandle IteratorFromStringHandle IteratorFromStringHandleV2 OptionalGetValue InfeedDequeue "
    "InfeedDequeueTuple Unstage Stage ReadFile MatchingFiles"
)
"""Op types that bring batches into a graph; queues, readers and datasets are known by their names."""

_PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
_SOURCE_WORDS = ("Queue", "Reader", "Dataset")

SHAPES = names("Shape ShapeN Size Rank ZerosLike OnesLike VariableShape BroadcastGradientArgs")
"""Ops whose values do not depend on the values of their inputs."""

CHECKPOINT = names("Save SaveSlices SaveV2 MergeV2Checkpoints ShardedFilename ShardedFilespec") | RESTORES
"""Ops that write, read or name checkpoints."""

INITIALISES = names(
    "InitializeTable InitializeTableV2 InitializeTableFromTextFile InitializeTableFromTextFileV2 LookupTableImport "
    "LookupTableImportV2 MakeIterator"
)
"""Ops that initialise something other than a variable."""

ASKS = frozenset({"IsVariableInitialized", "VarIsInitializedOp"})
"""Ops that ask whether a variable is initialised."""


def is_source(op: Op) -> bool:
    """Whether an op brings batches into the graph, or belongs to the pipeline that makes them."""
    return _is_source_type(op.type) or (op.type in _PYTHON and not op.inputs)


@functools.cache
def _is_source_type(op_type: str) -> bool:
    return op_type in SOURCES or any(word in op_type for word in _SOURCE_WORDS)
