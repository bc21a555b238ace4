# Private to TensorFlow: typed in some versions, not in others, and differently in each.
from typing import Any

def __getattr__(name: str) -> Any: ...
