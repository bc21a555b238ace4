# protobuf makes the classes of these modules while they are imported.
from typing import Any

def __getattr__(name: str) -> Any: ...
