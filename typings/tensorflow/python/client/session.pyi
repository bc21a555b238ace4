from typing import Any

# A class of its own, since annotations name it.
class BaseSession:
    _session: Any
    def __getattr__(self, name: str) -> Any: ...

def __getattr__(name: str) -> Any: ...
