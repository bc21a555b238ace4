# TensorFlow assembles this module while it is imported, so a checker that does not run it cannot see into it.
from typing import Any

def __getattr__(name: str) -> Any: ...
