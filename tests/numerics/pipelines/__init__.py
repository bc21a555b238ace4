"""Pipelines against one device."""
