"""Strict reading of YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from whale.cluster.nodes import Place, read
from whale.errors import ClusterError, Site


def _read(tmp_path: Path, text: str | bytes) -> Place:
    path = tmp_path / "x.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path)


def test_values_know_their_field_and_line(tmp_path: Path) -> None:
    fields = _read(tmp_path, "a:\n  - b: text\n    c: 3\n").mapping(required=("a",))
    entry = fields["a"].sequence()[0].mapping(required=("b",), optional=("c", "d"))
    assert (entry["b"].text(), entry["b"].field, entry["b"].line) == ("text", "a[0].b", 2)
    assert (entry["c"].integer(), entry["c"].field, entry["c"].line) == (3, "a[0].c", 3)
    assert set(entry) == {"b", "c"}


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "the cluster file is empty"),
        ("# nothing\n", 1, "the cluster file is empty"),
        ("a: 1\nb: [\n", 3, "not valid YAML: expected the node content"),
        ("a: 1\n--- \na: 2\n", 2, "not valid YAML: but found another document"),
        ("a: *nothing\n", 1, "not valid YAML: found undefined alias"),
        (b"a: 1\nb: \xff\n", 2, "not UTF-8 text"),
        ("a: 1\nb: \x01\n", 2, "not valid YAML: special characters"),
        ("[" * 600, 1, "nested too deeply"),
    ],
)
def test_what_is_not_yaml_names_the_line(tmp_path: Path, text: str | bytes, line: int, what: str) -> None:
    with pytest.raises(ClusterError, match=what) as caught:
        _read(tmp_path, text)
    assert caught.value.site == Site(str(tmp_path / "x.yaml"), line)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"cannot read the cluster file .*absent\.yaml': No such file"):
        read(tmp_path / "absent.yaml")


@pytest.mark.parametrize("value", ["2.5", "-1", "0x10", "'3'", "9" * 5000, "yes", "[1]", "null"])
def test_only_whole_numbers_are_integers(tmp_path: Path, value: str) -> None:
    with pytest.raises(ClusterError, match="a: must be"):
        _read(tmp_path, f"a: {value}\n").mapping(required=("a",))["a"].integer()


@pytest.mark.parametrize("value", ["2", "yes", "2020-01-01", "{}", "[]", "null", "!!binary aaaa"])
def test_only_text_is_text(tmp_path: Path, value: str) -> None:
    with pytest.raises(ClusterError, match="a: must be"):
        _read(tmp_path, f"a: {value}\n").mapping(required=("a",))["a"].text()
