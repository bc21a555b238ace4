"""``tensorflow.examples`` and ``tensorflow.examples.tutorials``: empty but for the MNIST reader below them."""

from __future__ import annotations

__path__: list[str] = []
