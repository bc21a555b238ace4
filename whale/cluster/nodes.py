"""Strict reading of YAML: every error names the file, the line and the field.

PyYAML's ``safe_load`` forgets where a value stood and lets a repeated key win silently, so this reads its node tree.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Generator, Sequence

import yaml

from whale.errors import ClusterError, Site, nearest

_INTEGER = "tag:yaml.org,2002:int"
_STRING = "tag:yaml.org,2002:str"
_BOOLEAN = "tag:yaml.org,2002:bool"

# Python refuses to read numbers of thousands of digits with an error of its own.
_MOST_DIGITS = 18


@dataclasses.dataclass(frozen=True)
class Place:
    """A value in a file."""

    path: str
    """The file."""
    field: str
    """The way to the value, such as ``hosts[0].devices[1].model``; empty for the whole document."""
    node: yaml.Node

    @property
    def line(self) -> int:
        """Line of the value's first character, from 1."""
        return int(self.node.start_mark.line) + 1

    def error(self, what: str, fix: str = "") -> ClusterError:
        """A fault of this value."""
        return ClusterError(f"{self.field}: {what}" if self.field else what, site=Site(self.path, self.line), fix=fix)

    @contextlib.contextmanager
    def blamed(self) -> Generator[None, None, None]:
        """Puts a ClusterError of the block that names no place down to this value."""
        try:
            yield
        except ClusterError as error:
            if error.site is not None:
                raise
            raise self.error(error.what, error.fix) from None

    def mapping(self, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Place]:
        """The fields of a mapping, by name. Raises ClusterError for one that is unknown, repeated or missing."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"must be a mapping with the fields {', '.join(required)}")
        known = (*required, *optional)
        fields: dict[str, Place] = {}
        for key_node, value_node in self.node.value:
            key = Place(self.path, self.field, key_node).scalar()
            field = Place(self.path, f"{self.field}.{key}" if self.field else key, value_node)
            key_place = dataclasses.replace(field, node=key_node)
            if key not in known:
                raise key_place.error("unknown field", nearest(key, known) or f"known fields: {', '.join(known)}")
            if key in fields:
                raise key_place.error(f"given twice, first on line {fields[key].line}", "keep one of them")
            fields[key] = field
        for name in required:
            if name not in fields:
                raise self.error(f"field {name!r} is missing", f"fields: {', '.join(known)}")
        return fields

    def sequence(self) -> list[Place]:
        """The entries of a list. Raises ClusterError when it is no list, or empty."""
        if not isinstance(self.node, yaml.SequenceNode) or not self.node.value:
            raise self.error("must be a list of at least one entry")
        return [Place(self.path, f"{self.field}[{index}]", node) for index, node in enumerate(self.node.value)]

    def text(self) -> str:
        """A string. Raises ClusterError for any other value, numbers and ``yes`` or ``no`` included."""
        text = self.scalar()
        if self.node.tag != _STRING:
            raise self.error(f"must be text, and YAML reads {text!r} otherwise", f'write "{text}"')
        return text

    def integer(self) -> int:
        """A whole number. Raises ClusterError for any other value."""
        text = self.scalar()
        if self.node.tag != _INTEGER or not text.isdecimal() or len(text) > _MOST_DIGITS:
            raise self.error(f"must be a whole number, not {text!r}")
        return int(text)

    def boolean(self) -> bool:
        """True or false. Raises ClusterError for any other value."""
        text = self.scalar()
        if self.node.tag != _BOOLEAN:
            raise self.error(f"must be true or false, not {text!r}")
        return text.lower() in ("true", "yes", "on")

    def scalar(self) -> str:
        """What stands there, unread. Raises ClusterError for a list or a mapping."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.error("must be a single value")
        return str(self.node.value)


def read(path: str | os.PathLike[str]) -> Place:
    """The document in a file. Raises ClusterError when it cannot be read or is not YAML of one document."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ClusterError(
            f"cannot read the cluster file {name!r}: {error.strerror}", fix="correct the path or its permissions"
        ) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ClusterError("not UTF-8 text", site=Site(name, line), fix="save it as UTF-8") from error
    try:
        node = yaml.SafeLoader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        site = Site(name, mark.line + 1 if mark else 1)
        raise ClusterError(f"not valid YAML: {error.problem or error.context}", site=site) from error
    except yaml.reader.ReaderError as error:
        site = Site(name, text.count("\n", 0, error.position) + 1)
        raise ClusterError(f"not valid YAML: {error.reason}", site=site, fix="remove the character") from error
    except RecursionError:
        raise ClusterError("not a cluster file: lists nested too deeply", site=Site(name, 1)) from None
    if node is None:
        raise ClusterError("the cluster file is empty", site=Site(name, 1), fix="see docs/cluster.md for an example")
    return Place(name, "", node)
