"""One configuration setting, and the category it belongs to.

Settings are declared as class attributes of categories (``keys.py``). Those declarations are the only table there
is: parsing, checking, the error messages and the reference page are all read from it.
"""

from __future__ import annotations

import inspect
from typing import Any, Generic, TypeVar, overload

from whale.config.kinds import Kind
from whale.errors import ConfigError, Site, nearest
from whale.libraries import is_library

T = TypeVar("T")


class Setting(Generic[T]):
    """A configuration key, as a data descriptor on its category's class.

    Bound to a second name in the same class, it is the same setting under an alias.
    """

    def __init__(self, kind: Kind[T], default: T, about: str, *, instead: str = "", needs: str = "") -> None:
        """Describe a setting.

        Args:
            kind: the values it takes.
            default: the value when nobody sets it.
            about: one sentence for the reference page.
            instead: empty when the feature exists. Otherwise what works today in its place: any value but the
                default is then refused with this advice.
            needs: the missing feature that the setting is about, where it is not the setting itself.
        """
        self.kind = kind
        self.default = default
        self.about = about
        self.instead = instead
        self.needs = needs
        self.category = ""
        self.name = ""
        self.aliases: tuple[str, ...] = ()

    def __set_name__(self, owner: type[Category], name: str) -> None:
        if self.name:
            self.aliases += (name,)
        else:
            self.category, self.name = owner.category, name

    @property
    def key(self) -> str:
        """The full name, ``category.name``."""
        return f"{self.category}.{self.name}"

    @overload
    def __get__(self, instance: None, owner: type[Category]) -> Setting[T]: ...
    @overload
    def __get__(self, instance: Category, owner: type[Category]) -> T: ...
    def __get__(self, instance: Category | None, owner: type[Category]) -> Setting[T] | T:
        if instance is None:
            return self
        return instance.given.get(self.key, instance.fallback.get(self.key, self.default))

    def __set__(self, instance: Category, value: T) -> None:
        instance.given[self.key] = self.check(value)

    def check(self, value: object, variable: str = "") -> T:
        """The value in its own type.

        Args:
            value: what was set.
            variable: the environment variable it came from, or empty when the script set it.

        Raises:
            ConfigError: the value is not allowed, or its feature does not exist in this version.
        """
        site = None if variable else script_site()
        place = f"{variable} ({self.key})" if variable else self.key
        try:
            checked = self.kind.check(value)
        except ValueError:
            near = nearest(value, self.kind.allowed.split('"')[1::2]) if isinstance(value, str) else ""
            fix = f"{near} " if near else ""
            raise ConfigError(
                f"{place} cannot be {value!r}", site=site, fix=f"{fix}allowed: {self.kind.allowed}"
            ) from None
        if self.instead and checked != self.default:
            feature = f"it is about {self.needs}, which" if self.needs else "this feature"
            raise ConfigError(
                f"{place} = {checked!r}: {feature} is not available in this version of Whale",
                site=site,
                fix=self.instead if self.needs else f"leave it at {self.default!r}; {self.instead}",
            )
        return checked


class Category:
    """A group of settings, reached as an attribute of ``Config``; only its settings can be assigned."""

    category = ""
    """Name of the group, the first half of its keys."""
    shorthand = ""
    """The setting meant when the group's own name is given a plain value, or empty."""
    given: dict[str, Any]
    fallback: dict[str, Any]

    def __init__(self, given: dict[str, Any], fallback: dict[str, Any]) -> None:
        """Show the values of one ``Config``: ``fallback`` holds where ``given`` is silent; both by full key."""
        vars(self).update(given=given, fallback=fallback)

    @classmethod
    def settings(cls) -> dict[str, Setting[Any]]:
        """The settings of this group by name, aliases included, in the order of their declaration."""
        return {name: member for name, member in vars(cls).items() if isinstance(member, Setting)}

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self.settings():
            raise unknown_key(f"{self.category}.{name}", [f"{self.category}.{known}" for known in self.settings()])
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        values = ", ".join(f"{s.name}={getattr(self, s.name)!r}" for s in dict.fromkeys(self.settings().values()))
        return f"{type(self).__name__}({values})"


def unknown_key(key: str, known: list[str], variable: str = "") -> ConfigError:
    """The error for a key that does not exist, naming the nearest ones."""
    subject = f"environment variable {variable}" if variable else f"{key!r}"
    return ConfigError(
        f"{subject} is not a configuration key",
        site=None if variable else script_site(),
        fix=nearest(variable or key, known) or f"the keys are {', '.join(known)}",
    )


def script_site() -> Site | None:
    """The innermost line now running that is neither Whale's nor an installed library's."""
    frame = inspect.currentframe()
    while frame is not None:
        path = frame.f_code.co_filename
        if not is_library(path):
            return Site(path, frame.f_lineno)
        frame = frame.f_back
    return None
