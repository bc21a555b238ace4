"""The table of a graph's variables: what initialises them, what updates them, and with which gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from whale.annotations.peel import Part, Peeling
from whale.annotations.phases import classify_flow
from whale.annotations.writes import Write, Writes, direct_reads, writes_of
from whale.ir.flow import Flow, flow
from whale.ir.graph_def import restore_notes
from whale.ir.program import Phase, Program, Variable
from whale.sharding.held import Variables
from whale.sharding.rules.state import HOLDERS

_PARTS = {Phase.BACKWARD: Part.GRADIENT, Phase.UPDATE: Part.UPDATE}


def complete(program: Program, graph: tf.Graph) -> Program:
    """A captured program with phases, forward ops and variables.

    Capture leaves them out, because a session's first run does not need them.

    Args:
        program: what ``capture`` read of the graph.
        graph: the user's graph, for its collection of trainable variables; not changed.
    """
    return tabulate(program, trainable_names(graph))


def tabulate(program: Program, trainable: frozenset[str]) -> Program:
    """As ``complete``, given the names of the ops that hold the trainable variables."""
    program = restore_notes(program)
    edges = flow(program)
    writes = writes_of(edges)
    program = classify_flow(program, edges, writes, trainable & program.ops.keys())
    return dataclasses.replace(program, variables=variables_of(program, edges, writes, trainable))


def trainable_names(graph: tf.Graph) -> frozenset[str]:
    """Names of the ops that hold what the collection of trainable variables lists."""
    return frozenset(_holder_name(variable) for variable in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES))


def variables_in(graph: tf.Graph) -> Variables:
    """Which variables of a graph are trained, and which are of this process alone."""
    trainable = trainable_names(graph)
    local = {_holder_name(variable) for variable in graph.get_collection(tf.GraphKeys.LOCAL_VARIABLES)}
    return Variables(trainable, frozenset(local - trainable))


def _holder_name(variable: tf.Variable) -> str:
    return (variable.handle if hasattr(variable, "handle") else variable).op.name


def variables_of(program: Program, edges: Flow, writes: Writes, trainable: frozenset[str]) -> dict[str, Variable]:
    """The variables of a classified program, in the order of the graph.

    Args:
        program: the program with phases.
        edges: its edges.
        writes: its writes.
        trainable: names of the ops that hold the trainable variables.
    """
    updates = writes.by_variable()

    def part(name: str) -> Part:
        return _PARTS.get(program.ops[name].phase, Part.OUTSIDE)

    peeling = Peeling(edges, updates, writes.by_op(), direct_reads(edges), part)
    table: dict[str, Variable] = {}
    for op in program.ops.values():
        if op.type not in HOLDERS:
            continue
        initialiser = writes.initialisers.get(op.name)
        table[op.name] = Variable(
            name=op.name,
            dtype=str(op.attrs.get("dtype", "")),
            shape=op.attrs.get("shape"),
            trainable=op.name in trainable,
            initial_value=initialiser.op.inputs[1] if initialiser is not None else None,
            updates=tuple(write.op.name for write in updates.get(op.name, ())),
            gradients=tuple(peeling.gradients(op.name)) if op.name in trainable else (),
        )
    slots = _slots(edges, table, updates)
    return {name: dataclasses.replace(variable, slot_of=slots.get(name)) for name, variable in table.items()}


def _slots(edges: Flow, table: Mapping[str, Variable], updates: Mapping[str, list[Write]]) -> dict[str, str]:
    """For each optimizer slot, its variable.

    A slot is handed to the op that updates the variable. Where an optimizer is written out in small ops, a slot has
    the variable's shape, its value leads to that variable's updates alone, and its own updates come from the
    variable's gradient.
    """
    found: dict[str, str] = {}
    for variable, writes in updates.items():
        for write in writes:
            for slot in write.slots:
                # A variable that several others' updates take is shared by them: the slot of none.
                found[slot] = variable if found.get(slot, variable) == variable else ""
    updated = [name for name, writes in updates.items() if writes]
    bit = {name: 1 << number for number, name in enumerate(updated)}
    reach = edges.reach(_marks(updates, bit))
    trained = [name for name in updated if table[name].trainable and table[name].gradients]
    mask = sum(bit[name] for name in trained)
    by_bit = {bit[name]: name for name in trained}
    for name in updated:
        owner = by_bit.get(reach.get(name, 0) & mask)
        if name in found or table[name].trainable or owner is None or table[owner].shape != table[name].shape:
            continue
        gradients = (reach.get(tensor.rpartition(":")[0], 0) for tensor in table[owner].gradients)
        if any(bits & bit[name] for bits in gradients):
            found[name] = owner
    return {slot: variable for slot, variable in found.items() if variable and not table[slot].trainable}


def _marks(updates: Mapping[str, list[Write]], bit: Mapping[str, int]) -> dict[str, int]:
    marks: dict[str, int] = {}
    for name, writes in updates.items():
        for write in writes:
            marks[write.op.name] = bit[name]
    return marks
