"""The private TensorFlow names Whale relies on, one small function per need.

Nothing outside this file touches a private name. Checked with TensorFlow 2.15 to 2.21.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import op_def_pb2, types_pb2
from tensorflow.python.client import pywrap_tf_session as c_api
from tensorflow.python.client import session as session_module
from tensorflow.python.framework import c_api_util, op_def_registry
from tensorflow.python.ops import gradients_util
from tensorflow.python.util import tf_stack

BaseSession = session_module.BaseSession

Handle = Any
"""A TF_Operation of a C graph."""


def original_op(op: tf.Operation) -> tf.Operation | None:
    """The forward op whose gradient ``op`` computes, where ``tf.gradients`` noted it."""
    return getattr(op, "_original_op", None)


def attribute_scope(graph: tf.Graph, attributes: Mapping[str, tf.AttrValue]) -> contextlib.AbstractContextManager[None]:
    """Within the scope, every op made in the graph carries the attributes."""
    return graph._attr_scope(dict(attributes))


def without_frames_of(files: Iterable[str]) -> contextlib.AbstractContextManager[Any]:
    """Within the context, on this thread, the place where an op is made is noted without the frames of some files."""
    return _Hidden(frozenset(files))


class _Hidden(tf_stack.StackTraceFilter):
    def __init__(self, files: frozenset[str]) -> None:
        super().__init__()
        self._files = files

    def get_filtered_filenames(self) -> frozenset[str]:
        return self._files | self.parent.get_filtered_filenames()


def op_is_stateful(op_type: str) -> bool:
    """Whether TensorFlow registers the op type as stateful; unknown types (functions) count as stateful."""
    definition = op_def_registry.get(op_type)
    return True if definition is None else definition.is_stateful


def op_definition(op_type: str) -> Any | None:
    """The OpDef of a type, or None."""
    return op_def_registry.get(op_type)


def op_types() -> list[str]:
    """Names of all op types that TensorFlow registers."""
    registered = op_def_pb2.OpList()
    registered.ParseFromString(c_api.TF_GetBuffer(c_api.TF_GetAllOpList()))
    return sorted(op.name for op in registered.op)


@functools.cache
def state_inputs(op_type: str) -> tuple[int, ...]:
    """Inputs that an op type takes by reference or handle."""
    definition = op_definition(op_type)
    arguments = () if definition is None else definition.input_arg
    return tuple(i for i, a in enumerate(arguments) if a.is_ref or a.type == types_pb2.DT_RESOURCE)


def graph_version(graph: tf.Graph) -> int:
    """A number that grows with every op added."""
    return graph._last_id if hasattr(graph, "_last_id") else graph.version


def tensor_output(operation: Handle, index: int) -> Any:
    """A TF_Output naming one output of a TF_Operation."""
    return c_api_util.tf_output(operation, index)


def import_nodes(
    graph: tf.Graph,
    serialized: bytes,
    inputs: Mapping[tuple[str, int], Any],
    controls: Mapping[str, Handle],
    wanted: Sequence[str],
) -> dict[str, Handle]:
    """Adds a serialized GraphDef to a graph's C graph without making a Python op.

    A node that is named as a scope of nodes that are there gets another name in the C graph; its handle is what counts.

    Args:
        graph: the shadow graph.
        serialized: the GraphDef.
        inputs: for tensors named in it but made earlier, (op name, index) -> TF_Output.
        controls: for ops named as control inputs but made earlier, op name -> TF_Operation.
        wanted: names of new nodes whose handles are returned.

    Raises:
        tf.errors.OpError: TensorFlow refuses a node.
    """
    options = c_api_util.ScopedTFImportGraphDefOptions()
    c_api.TF_ImportGraphDefOptionsSetPrefix(options.options, "")
    # A name that is also a scope of earlier ops is legal in a graph; an import that keeps all names refuses it.
    c_api.TF_ImportGraphDefOptionsSetUniquifyNames(options.options, True)
    c_api.TF_ImportGraphDefOptionsSetValidateColocationConstraints(options.options, False)
    for (name, index), output in inputs.items():
        c_api.TF_ImportGraphDefOptionsAddInputMapping(options.options, name, index, output)
    for name, operation in controls.items():
        c_api.TF_ImportGraphDefOptionsRemapControlDependency(options.options, name, operation)
    for name in wanted:
        c_api.TF_ImportGraphDefOptionsAddReturnOperation(options.options, name)
    with c_api_util.tf_buffer(serialized) as buffer, graph._c_graph.get() as c_graph:
        raw = c_api.TF_GraphImportGraphDefWithResults(c_graph, buffer, options.options)
        results = c_api_util.ScopedTFImportGraphDefResults(raw)
        operations = c_api.TF_ImportGraphDefResultsReturnOperations(results.results)
        return dict(zip(wanted, operations))


def raw_session(session: Any) -> Any:
    """The ``tf.Session`` inside of a MonitoredSession or of a hook's context; any other object as it is."""
    inner = getattr(session, "_tf_sess", None)
    return inner() if callable(inner) else session


def target_of(session: BaseSession) -> str:
    """What a script gave a session to run on, of its own; empty for this process."""
    return session._target.decode() if session._target else ""


def drive(session: BaseSession, graph: tf.Graph) -> None:
    """Makes a Python session drive a new C session, on another graph, and releases the one it had."""
    options = c_api.TF_NewSessionOptions(target=session._target, config=session._config)
    try:
        with graph._c_graph.get() as c_graph:
            fresh = c_api.TF_NewSessionRef(c_graph, options)
    finally:
        c_api.TF_DeleteSessionOptions(options)
    old = session._session
    session._session = fresh
    if old is not None:
        c_api.TF_CloseSession(old)
        c_api.TF_DeleteSession(old)


def do_run(session: BaseSession) -> Any:
    """What ``Session.run`` calls when it has made fetches and feeds out: its own method, or one that was put there.

    Its arguments are the handle of a partial run or None, targets, fetches, values by reference of a tensor, options
    and metadata; it returns the fetched values.
    """
    return session._do_run


def class_do_run(session: BaseSession) -> Any:
    """The same method of the session's class, which no session has replaced."""
    return type(session)._do_run.__get__(session)


def with_session_errors(session: BaseSession, function: Any, *arguments: Any) -> Any:
    """A call whose errors are raised as ``Session.run`` raises them: with the ops of the session's graph."""
    return session._do_call(function, *arguments)


def set_methods(
    session: BaseSession, *, do_run: Any = None, extend_graph: Any = None, from_options: Any = None
) -> None:
    """Gives one session methods of its own below its public ones; None leaves one as it is.

    Args:
        session: the session.
        do_run: in the place of what ``do_run`` of this file says.
        extend_graph: called without arguments where the C session is to see new ops.
        from_options: makes a callable of CallableOptions.
    """
    methods = {"_do_run": do_run, "_extend_graph": extend_graph, "_make_callable_from_options": from_options}
    for name, method in methods.items():
        if method is not None:
            setattr(session, name, method)


def close_session(session: BaseSession) -> None:
    """Closes a session, as its class does, from any thread: its runs are cancelled and raise."""
    BaseSession.close(session)


def extend_session(session: BaseSession) -> None:
    """Tells the C session about nodes added to its graph."""
    c_api.ExtendSession(session._session)


def run_session(
    session: BaseSession,
    options: Any,
    feeds: Mapping[Any, Any],
    fetches: Sequence[Any],
    targets: Sequence[Handle],
    metadata: Any,
) -> list[Any]:
    """One step of the C session; fetches and feeds are TF_Outputs, targets TF_Operations."""
    return c_api.TF_SessionRun_wrapper(session._session, options, feeds, fetches, targets, metadata)


def fetch_here(session: BaseSession, fetch: Any) -> Any:
    """The value of a TF_Output, computed in this thread: it needs none of TensorFlow's own, which may all wait."""
    options = c_api.TF_NewBufferFromString(tf.RunOptions(inter_op_thread_pool=-1).SerializeToString())
    try:
        return run_session(session, options, {}, [fetch], [], None)[0]
    finally:
        c_api.TF_DeleteBuffer(options)


def check_fetches(graph: tf.Graph, fetches: Any) -> None:
    """Raises what ``Session.make_callable`` does for fetches that are not of the graph: ValueError, or TypeError."""
    session_module._FetchHandler(graph, fetches, {})


@contextlib.contextmanager
def patched(owner: Any, replacements: Mapping[str, Any]) -> Iterator[None]:
    """Replaces attributes of a class or module for the time of the context."""
    undo = patch(owner, replacements)
    try:
        yield
    finally:
        undo()


def patch(owner: Any, replacements: Mapping[str, Any]) -> Any:
    """Replaces attributes of a class or module; returns the function that restores them."""
    saved = {name: owner.__dict__[name] for name in replacements}
    for name, value in replacements.items():
        setattr(owner, name, value)

    def undo() -> None:
        for name, value in saved.items():
            setattr(owner, name, value)

    return undo


def output_shapes(operations: Iterable[tf.Operation]) -> dict[str, list[tuple[int | None, ...] | None]]:
    """Static shapes of every output of the operations, by op name."""
    shapes: dict[str, list[tuple[int | None, ...] | None]] = {}
    for op in operations:
        row: list[tuple[int | None, ...] | None] = []
        for tensor in op.outputs:
            shape = tensor.shape
            row.append(None if shape.rank is None else tuple(shape.as_list()))
        shapes[op.name] = row
    return shapes


gradients_helper_owner = gradients_util


def graph_producer() -> int:
    """The GraphDef version TensorFlow writes."""
    return int(tf.GRAPH_DEF_VERSION)


def inferred_types(graph: tf.Graph, handles: Iterable[Handle]) -> list[list[tuple[str, tuple[int | None, ...] | None]]]:
    """For each node that ``import_nodes`` made: type name and static shape of its outputs.

    The Python operations are made for this alone; the graph's own list of operations does not hold them.
    """
    names: dict[Any, str] = {}
    rows: list[list[tuple[str, tuple[int | None, ...] | None]]] = []
    for handle in handles:
        row: list[tuple[str, tuple[int | None, ...] | None]] = []
        for tensor in tf.Operation._from_c_op(handle, graph).outputs:
            dtype, (dims, unknown) = tensor._dtype, tensor._shape
            if dtype not in names:
                names[dtype] = dtype.name
            row.append((names[dtype], None if unknown else tuple(None if d is None or d < 0 else d for d in dims)))
        rows.append(row)
    return rows
