"""The environment in which TF1 source runs on TensorFlow 2.15 to 2.21 without an edit."""

from __future__ import annotations

from whale_tf1.install import Installation, install

__all__ = ["Installation", "install"]
