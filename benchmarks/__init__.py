"""Whale's speed and memory, as ratios measured side by side in one run: ``python -m benchmarks.run``."""

from __future__ import annotations
