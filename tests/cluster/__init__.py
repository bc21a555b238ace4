"""Clusters, their files and layouts: no TensorFlow, no devices."""
