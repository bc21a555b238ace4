"""Addresses of workers, ``machine:port``."""

from __future__ import annotations

import re
from typing import NamedTuple

from whale.errors import ClusterError

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\],]+):([0-9]{1,5})")


class Address(NamedTuple):
    """Where a worker's server listens."""

    machine: str
    """Host name or IP; an IPv6 address keeps its brackets."""
    port: int


def parse_address(text: str) -> Address:
    """Splits ``10.0.0.1:2222`` or ``[fd00::1]:2222``. Raises ClusterError when it is neither."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match.group(2)) > 65535:
        raise ClusterError(f"{text!r} is not an address", fix="write it as machine:port, such as 10.0.0.1:2222")
    return Address(match.group(1), int(match.group(2)))
