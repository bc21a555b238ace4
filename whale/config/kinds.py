"""The kinds of value that settings take: how they are checked, read from text, and put in words."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Generic, SupportsIndex, TypeVar

from whale.config.schedule_names import NAMES, name_for_scripts
from whale.errors import ScheduleError

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Kind(Generic[T]):
    """The values a setting takes."""

    allowed: str
    """The values in words, for messages and the reference page."""
    check: Callable[[object], T]
    """The value in its own type; raises ValueError for one that is not allowed."""
    parse: Callable[[str], object]
    """A value from the text of an environment variable, still to be checked; text it cannot read comes back as is."""


def _check_switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _parse_switch(text: str) -> object:
    return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)


SWITCH = Kind("True or False", _check_switch, _parse_switch)
"""On or off."""

OPTIONAL_SWITCH: Kind[bool | None] = Kind(
    "True, False or None",
    lambda value: None if value is None else _check_switch(value),
    lambda text: None if text.lower() == "none" else _parse_switch(text),
)
"""On, off, or left to a rule."""


def choice(*values: str) -> Kind[str]:
    """One of a few words; case does not matter, as in EPL, and the spelling given here is what comes back."""
    spelling = {value.lower(): value for value in values}

    def check(value: object) -> str:
        if not isinstance(value, str) or value.lower() not in spelling:
            raise ValueError
        return spelling[value.lower()]

    return Kind(" or ".join(f'"{value}"' for value in values), check, lambda text: text)


def _check_schedule(value: object) -> str:
    try:
        return name_for_scripts(value)
    except ScheduleError:
        raise ValueError from None


SCHEDULE = Kind(" or ".join(f'"{name}"' for name in NAMES), _check_schedule, lambda text: text)
"""The order of a pipeline's micro-batches; the name that scripts use is what comes back."""


def integer(at_least: int) -> Kind[int]:
    """A whole number; NumPy's integers count, True and 2.0 do not."""

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise ValueError
        try:
            number = operator.index(value)
        except TypeError as error:  # an array of several numbers
            raise ValueError from error
        if number < at_least:
            raise ValueError
        return number

    return Kind(f"an integer of at least {at_least}", check, lambda text: _parse_number(text, int))


def _check_positive(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError
    return value


def _parse_number(text: str, number: type[int] | type[float]) -> object:
    try:
        return number(text)
    except ValueError:
        return text


POSITIVE = Kind("a positive number", _check_positive, lambda text: _parse_number(text, float))
"""A finite number above 0."""


def _check_not_negative(value: object) -> float:
    return 0 if value == 0 and not isinstance(value, bool) else _check_positive(value)


NOT_NEGATIVE = Kind("a number of at least 0", _check_not_negative, lambda text: _parse_number(text, float))
"""A finite number of at least 0."""


def _check_loss_scale(value: object) -> str | float:
    if isinstance(value, str):
        return "dynamic" if value.lower() == "dynamic" else _check_positive(_parse_number(value, float))
    return _check_positive(value)


LOSS_SCALE: Kind[str | float] = Kind('"dynamic" or a positive number', _check_loss_scale, lambda text: text)
"""How the loss is scaled in mixed precision; a number may come as text, as in EPL."""


def _check_device_list(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    numbers = [part.strip() for part in value.split(",")] if value.strip() else []
    if not all(part.isascii() and part.isdigit() for part in numbers) or len(set(numbers)) != len(numbers):
        raise ValueError
    return ",".join(numbers)


DEVICE_LIST = Kind('device numbers such as "0,2", each once, or ""', _check_device_list, lambda text: text)
"""Which local devices to use; empty: all."""
