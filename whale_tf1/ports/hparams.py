"""Hyperparameters with a type each, overridden by text: ``rate=0.1,layers=[3,4]``."""

from __future__ import annotations

import json
import numbers
import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["HParams", "parse_values"]

# name, optional [index], =, then a list in brackets or a scalar up to the next comma.
_CLAUSE = re.compile(
    r"\s*(?P<name>[a-zA-Z][\w.]*)\s*(?:\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"(?:\[(?P<list>[^\]]*)\]|(?P<scalar>[^,\[]*))\s*(?:,|$)"
)

_TRUE = ("true", "1")
_FALSE = ("false", "0")


def parse_values(values: str, type_map: Mapping[str, type], ignore_unknown: bool = False) -> dict[str, Any]:
    """Reads assignments separated by commas.

    ``a=1`` gives a scalar, ``a=[1,2]`` a list, ``a[3]=1`` a dictionary ``{3: 1}``.

    Args:
        values: the text.
        type_map: type of each known name (of the elements, for lists).
        ignore_unknown: names outside of ``type_map`` are skipped.

    Raises:
        ValueError: the text is malformed, a name is unknown or assigned twice, a value has the wrong type.
    """
    result: dict[str, Any] = {}
    position = 0
    while position < len(values):
        match = _CLAUSE.match(values, position)
        if match is None:
            raise ValueError(f"malformed hyperparameter value: {values[position:]!r} in {values!r}")
        position = match.end()
        name, index = match["name"], match["index"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(f"unknown hyperparameter {name!r} in {values!r}")
        kind = type_map[name]
        if match["list"] is not None:
            if index is not None:
                raise ValueError(f"a list cannot be assigned to one element: {match[0]!r} in {values!r}")
            _assign(result, name, [_convert(name, kind, text, values) for text in _items(match["list"])], values)
        elif index is None:
            _assign(result, name, _convert(name, kind, match["scalar"].strip(), values), values)
        else:
            elements = result.setdefault(name, {})
            if not isinstance(elements, dict):
                raise ValueError(f"hyperparameter {name!r} is assigned twice in {values!r}")
            key = int(index)
            if key in elements:
                raise ValueError(f"hyperparameter '{name}[{key}]' is assigned twice in {values!r}")
            elements[key] = _convert(name, kind, match["scalar"].strip(), values)
    return result


class HParams:
    """Names with values; every later value must fit the type of the first.

    ``HParams(rate=0.1, layers=[3, 4])`` has the attributes ``rate`` and ``layers``. A value may be a number, a string,
    a bool, None, or a list of one of them.
    """

    _types: dict[str, tuple[type, bool]]

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        """Takes the values by keyword.

        Raises:
            ValueError: ``hparam_def``, a protocol buffer of TF1, is given; a name is reserved.
        """
        if hparam_def is not None:
            raise ValueError("hparam_def is a protocol buffer that left TensorFlow with contrib: pass keywords")
        # name -> (type of the value or of its elements, whether it is a list)
        self.__dict__["_types"] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a name.

        Raises:
            ValueError: the name exists already or is one of this class; the list is empty.
        """
        if getattr(self, name, None) is not None:
            raise ValueError(f"hyperparameter name {name!r} is reserved or in use")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f"hyperparameter {name!r} is an empty list: its type is unknown")
            self._types[name] = (type(value[0]), True)
        else:
            self._types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Replaces a value.

        Raises:
            KeyError: no such name.
            ValueError: the value does not fit its type.
        """
        kind, is_list = self._types[name]
        if isinstance(value, (list, tuple)):
            if not is_list:
                raise ValueError(f"hyperparameter {name!r} is not a list")
            setattr(self, name, [_fit(name, kind, item) for item in value])
        elif is_list:
            raise ValueError(f"hyperparameter {name!r} must be a list")
        else:
            setattr(self, name, _fit(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Removes a name, if it is there."""
        if self._types.pop(name, None) is not None:
            delattr(self, name)

    def parse(self, values: str) -> HParams:
        """Overrides values by text; see ``parse_values``. Returns itself.

        Raises:
            ValueError: as ``parse_values``, or a list is assigned to a scalar.
        """
        kinds = {name: kind for name, (kind, _) in self._types.items()}
        return self.override_from_dict(parse_values(values, kinds))

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Overrides values; a dictionary of indices changes elements of a list. Returns itself.

        Raises:
            KeyError: no such name.
            ValueError: a value does not fit.
        """
        for name, value in values_dict.items():
            if isinstance(value, dict):
                elements = list(getattr(self, name))
                for index, element in value.items():
                    elements[index] = element
                value = elements
            self.set_hparam(name, value)
        return self

    def set_model_structure(self, model_structure: Any) -> None:
        """Keeps an object with the hyperparameters."""
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        """The object kept by ``set_model_structure``."""
        return self._model_structure

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """The values as a JSON object; functions are left out."""
        plain = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(plain, indent=indent, separators=separators, sort_keys=sort_keys)

    def parse_json(self, values_json: str) -> HParams:
        """Overrides values from a JSON object. Returns itself."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """A dictionary of all values."""
        return {name: getattr(self, name) for name in self._types}

    def get(self, key: str, default: Any = None) -> Any:
        """A value, or ``default`` when there is no such name.

        Raises:
            ValueError: ``default`` does not fit the type of the value.
        """
        if key not in self._types:
            return default
        if default is not None:
            kind, is_list = self._types[key]
            if isinstance(default, (list, tuple)) != is_list:
                raise ValueError(f"the default {default!r} does not fit hyperparameter {key!r}")
            for item in default if is_list else [default]:
                _fit(key, kind, item)
        return getattr(self, key)

    def __contains__(self, key: object) -> bool:
        return key in self._types

    def __str__(self) -> str:
        return str(sorted(self.values().items()))

    def __repr__(self) -> str:
        return f"HParams({', '.join(f'{name}={value!r}' for name, value in sorted(self.values().items()))})"


def _items(text: str) -> list[str]:
    return [item for item in re.split(r"[ ,]+", text) if item]


def _assign(result: dict[str, Any], name: str, value: Any, values: str) -> None:
    if name in result:
        raise ValueError(f"hyperparameter {name!r} is assigned twice in {values!r}")
    result[name] = value


def _convert(name: str, kind: type, text: str, values: str) -> Any:
    try:
        if kind is bool:
            return _bool(text)
        return text if kind is type(None) else kind(text)
    except ValueError as error:
        raise ValueError(f"hyperparameter {name!r} of type {kind.__name__} cannot be {text!r} in {values!r}") from error


def _bool(text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(f"{text!r} is not a bool")


def _fit(name: str, kind: type[Any], value: Any) -> Any:
    """The value as ``kind``, if nothing is lost."""
    convert: Callable[[Any], Any] = kind
    wrong = ValueError(f"hyperparameter {name!r} of type {kind.__name__} cannot be {value!r}")
    if value is None or kind is type(None) or isinstance(value, kind):
        if issubclass(kind, numbers.Number) and kind is not bool and isinstance(value, bool):
            raise wrong
        return value
    if kind is bool or isinstance(value, bool):
        raise wrong
    if issubclass(kind, str) != isinstance(value, (str, bytes)):
        raise wrong
    if issubclass(kind, numbers.Integral) and not isinstance(value, numbers.Integral):
        raise wrong
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        raise wrong from error
