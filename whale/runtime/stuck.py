"""A step that may be stuck: what of it may wait for input, and, once it was ended, who waited for what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from whale.errors import HangError
from whale.ir.program import Op
from whale.rewriter.frames import producer
from whale.rewriter.outside import outside, reached
from whale.rewriter.shadow import Shadow
from whale.runtime.draws import Draws
from whale.runtime.messages import failed_nodes

_SHOWN = 4
"""Most things of one kind that a message names."""

_FIX = (
    "start again from the last checkpoint: the session was closed, since some of its variables may be written and "
    "others not. If the script runs on one device (whale run --devices 1), it is a fault of Whale: please report it "
    "with this message, the plan that was printed before and what `whale doctor` says. If the step only takes long, "
    "set hang.seconds (WHALE_HANG_SECONDS) higher, or to 0, which ends no step"
)


class CutStep:
    """One run of a plan, for the watcher."""

    def __init__(
        self,
        session: Any,
        shadow: Shadow,
        ops: Mapping[str, Op],
        roots: Sequence[str],
        fed: Iterable[str],
        draws: Draws | None,
    ) -> None:
        """Describes it.

        Args:
            session: that runs it.
            shadow: the graph it is of.
            ops: the user's, by name.
            roots: what it runs, fetched tensors and targets.
            fed: tensors of the shadow graph that are fed.
            draws: counts its input; None where nothing does.
        """
        self.session = session
        self._shadow = shadow
        self._ops = ops
        self._roots = roots
        self._fed = frozenset(fed)
        self._draws = draws
        self._awaited: Sequence[NodeDef] | None = None

    def begin(self) -> None:
        """It begins."""
        if self._draws is not None:
            self._draws.begin(self.session)

    def end(self, done: bool) -> None:
        """It ended; ``done`` says whether without an error."""
        if self._draws is not None:
            self._draws.end(done)

    def explained(self) -> str:
        """Which of its nodes may wait for what is outside of it, or empty where none does."""
        if self._awaited is None:
            self._awaited = outside(self._graph(), self._roots, self._fed)
        if not self._awaited:
            return ""
        known = self._draws is not None and self._draws.awaited >= {node.name for node in self._awaited}
        if known and self._draws is not None and self._draws.arrived(self.session):
            return ""
        return f"it may wait for {_listed([self._told(node) for node in self._awaited])}"

    def error(self, seconds: float, error: Exception | None) -> HangError:
        """What to raise for it.

        Args:
            seconds: how long nothing went on.
            error: what its run raised when it was ended; None where it came to its end all the same.
        """
        said = str(error) if error is not None else ""
        nodes = reached({node.name: node for node in self._graph().node}, self._roots, self._fed)
        waiting = [name for name in failed_nodes(said, self._shadow) if name in nodes]
        groups = self._groups(nodes)
        lines = [f"a step hangs: none of its nodes finished for {seconds:.3g} s, and it waits for no input"]
        by_group: dict[frozenset[str], list[str]] = {}
        for name in waiting:
            group = next((members for members in groups if name in members), None)
            if group is not None:
                by_group.setdefault(group, []).append(f"{self._where(nodes[name])} is there, and waits for the others")
                continue
            needs = _behind(name, nodes, groups)
            text = f"a device waits for {self._told(nodes[name])} of {self._where(nodes[name])}"
            if needs is None:
                lines.append(text)
            else:
                by_group.setdefault(needs, []).append(f"{text}, which comes after it")
        for group, texts in by_group.items():
            lines.extend([f"in {self._told_group(group, nodes)}:", *(f"  {text}" for text in sorted(texts))])
        if not waiting:
            meet = " Its devices meet in" if groups else ""
            lines.append(f"TensorFlow does not say where.{meet}")
            lines.extend(f"  {self._told_group(group, nodes)}" for group in groups[:_SHOWN])
            lines.extend([f"  and in {len(groups) - _SHOWN} others"] if len(groups) > _SHOWN else [])
        return HangError("\n  ".join(lines), fix=_FIX)

    def _graph(self) -> GraphDef:
        return self._shadow.graph.as_graph_def()

    def _groups(self, nodes: Mapping[str, NodeDef]) -> list[frozenset[str]]:
        """The members of each collective of the step."""
        by_key: dict[int, set[str]] = {}
        for node in nodes.values():
            if node.op.startswith("Collective"):
                by_key.setdefault(self._shadow.integers[producer(node.input[3])], set()).add(node.name)
        return [frozenset(members) for _, members in sorted(by_key.items())]

    def _told_group(self, group: frozenset[str], nodes: Mapping[str, NodeDef]) -> str:
        members = sorted(group, key=lambda name: (self._shadow.origins[name].replica, name))
        summed = [self._told(nodes[name]) for name in _summed(members[0], nodes, self._shadow)]
        places = [f"{self._where(nodes[name])} ('{name}')" for name in members]
        return f"the all-reduce of {_listed(summed)} over {_listed(places)}"

    def _told(self, node: NodeDef) -> str:
        """A node in the user's terms."""
        origin = self._shadow.origins.get(node.name)
        op = self._ops.get(node.name if origin is None else origin.op)
        if op is None:
            return f"{node.op} '{node.name}'"
        user = op.described()
        return f"{node.op} '{node.name}' (for {user})" if origin is not None and origin.own else user

    def _where(self, node: NodeDef) -> str:
        origin = self._shadow.origins.get(node.name)
        return " on ".join(text for text in (str(origin) if origin is not None else "", node.device) if text)


def _listed(told: Sequence[str]) -> str:
    rest = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    return ", ".join(told[:_SHOWN]) + rest


_PACKS = frozenset({"ConcatV2", "Reshape", "Identity"})


def _summed(member: str, nodes: Mapping[str, NodeDef], shadow: Shadow) -> list[str]:
    """The nodes whose values a member of a collective brings, before they are packed into one message."""
    found: list[str] = []
    stack = [nodes[member].input[0]]
    while stack:
        name = producer(stack.pop())
        node, origin = nodes[name], shadow.origins.get(name)
        if origin is not None and origin.own and node.op in _PACKS:
            stack.extend(reversed(node.input if node.op == "ConcatV2" else node.input[:1]))
        elif node.op != "Const":
            found.append(name)
    return list(dict.fromkeys(found))


def _behind(name: str, nodes: Mapping[str, NodeDef], groups: Sequence[frozenset[str]]) -> frozenset[str] | None:
    """The nearest collective that a node waits for; None where there is none."""
    of = {member: group for group in groups for member in group}
    seen, layer = {name}, [name]
    while layer:
        found = next((of[node] for node in layer if node in of), None)
        if found is not None:
            return found
        layer = list(dict.fromkeys(producer(text) for node in layer for text in nodes[node].input))
        layer = [node for node in layer if node not in seen and node in nodes]
        seen.update(layer)
    return None
