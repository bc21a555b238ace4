from typing import Any

# A class, since annotations name it; whatever else is asked of it is Any.
class BaseSession(Any):
    def __init__(self, target: str, graph: Any = None, config: Any = None) -> None: ...

def __getattr__(name: str) -> Any: ...
