"""Contrib symbols that TensorFlow and tf-slim no longer have, written from their definitions.

Every module here imports TensorFlow, and is imported only when a script asks for one of its symbols.
"""
