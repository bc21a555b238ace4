"""Addresses of workers."""

from __future__ import annotations

import pytest

from whale.cluster import parse_address
from whale.errors import ClusterError


@pytest.mark.parametrize(
    ("text", "machine", "port"),
    [("10.0.0.1:2222", "10.0.0.1", 2222), ("node-7.lan:0", "node-7.lan", 0), ("[fd00::1]:65535", "[fd00::1]", 65535)],
)
def test_an_address_is_machine_and_port(text: str, machine: str, port: int) -> None:
    assert parse_address(text) == (machine, port)


@pytest.mark.parametrize("text", ["", "10.0.0.1", "10.0.0.1:", ":2222", "a:65536", "a b:1", "fd00::1:22", "a:1,b:2"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="is not an address"):
        parse_address(text)
