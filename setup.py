"""A shim for tools that still look for this file; everything is in pyproject.toml."""

from setuptools import setup

setup()
