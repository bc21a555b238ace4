"""``Config``: the values of all keys, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from whale.config.keys import (
    CATEGORIES,
    SETTINGS,
    Amp,
    Auto,
    Batch,
    Check,
    ClusterSettings,
    Communication,
    GradientCheckpoint,
    Hang,
    Io,
    Offload,
    Optimizer,
    Pipeline,
    Random,
    Zero,
)
from whale.config.setting import Category, script_site, unknown_key
from whale.errors import ConfigError


class Config:
    """Values of every configuration key.

    ``Config({"pipeline.num_micro_batch": 4})`` and ``Config({"pipeline": {"num_micro_batch": 4}})`` are the same, and
    values are read as ``config.pipeline.num_micro_batch``. Assigning to a setting checks it as the constructor does;
    nothing else can be assigned.

    Raises:
        ConfigError: a key or value is unknown, is given twice, or its feature does not exist in this version.
    """

    auto: Auto
    io: Io
    communication: Communication
    pipeline: Pipeline
    gradient_checkpoint: GradientCheckpoint
    zero: Zero
    offload: Offload
    amp: Amp
    cluster: ClusterSettings
    optimizer: Optimizer
    batch: Batch
    random: Random
    check: Check
    hang: Hang

    _given: dict[str, Any]
    _fallback: dict[str, Any]

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        given: dict[str, Any] = {}
        fallback: dict[str, Any] = {}
        groups = {category.category: category(given, fallback) for category in CATEGORIES}
        vars(self).update(groups, _given=given, _fallback=fallback)
        given.update(_checked({} if settings is None else settings))

    def fall_back_on(self, environment: Mapping[str, Any]) -> None:
        """Take the values of ``from_environment`` for every key the script does not set.

        The object itself is changed, because scripts keep it and go on assigning to it after ``init``. Values of an
        earlier call are forgotten.
        """
        checked = _checked(environment)
        self._fallback.clear()
        self._fallback.update(checked)

    def given(self) -> dict[str, Any]:
        """The values the script set, by full key."""
        return dict(self._given)

    def as_dict(self) -> dict[str, Any]:
        """The value of every key, by full key: what the script set, else the environment, else the default."""
        defaults = {setting.key: setting.default for setting in SETTINGS.values()}
        return {**defaults, **self._fallback, **self._given}

    def __setattr__(self, name: str, value: Any) -> None:
        group = vars(self).get(name)
        if not isinstance(group, Category):
            raise unknown_key(name, [category.category for category in CATEGORIES])
        if not group.shorthand:
            raise ConfigError(
                f"configuration category {name!r} cannot be replaced",
                site=script_site(),
                fix=f"assign to one of its settings: {', '.join(f'{name}.{known}' for known in group.settings())}",
            )
        setattr(group, group.shorthand, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.as_dict() == other.as_dict()

    __hash__ = None  # pyright: ignore[reportAssignmentType] - it can be changed

    def __repr__(self) -> str:
        return f"Config({self.given()!r})"


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Flat or nested settings as checked values by canonical key."""
    if not isinstance(settings, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - scripts are not typed
        raise ConfigError(
            f"the configuration cannot be {settings!r}", site=script_site(), fix="give a dict of keys and values"
        )
    values: dict[str, Any] = {}
    for key, value in _flattened(settings):
        setting = SETTINGS.get(key)
        if setting is None:
            raise unknown_key(key, list(SETTINGS))
        if setting.key in values:
            names = " or ".join(repr(name) for name, known in SETTINGS.items() if known is setting)
            raise ConfigError(
                f"configuration key {setting.key!r} is given twice", site=script_site(), fix=f"keep one of {names}"
            )
        values[setting.key] = setting.check(value)
    return values


def _flattened(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(full key, value) pairs of settings whose categories may be nested dicts or have a shorthand."""
    shorthands = {category.category: category.shorthand for category in CATEGORIES}
    for key, value in settings.items():
        if key not in shorthands:
            yield str(key), value
        elif isinstance(value, Mapping):
            for name, inner in cast("Mapping[str, Any]", value).items():
                yield f"{key}.{name}", inner
        elif shorthands[key]:
            yield f"{key}.{shorthands[key]}", value
        else:
            raise ConfigError(
                f"configuration category {key!r} cannot be {value!r}",
                site=script_site(),
                fix=f"give a dict of its settings, or the full key, such as '{key}.NAME'",
            )


def from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Settings found in environment variables, checked, by full key.

    A variable is named ``WHALE_<CATEGORY>_<KEY>`` or, as in EPL, ``EPL_<CATEGORY>_<KEY>``; an empty one counts as
    not set. Variables of these prefixes that belong to no category are not configuration and are left alone.

    Raises:
        ConfigError: a variable names an unknown key of a category, holds a value that is not allowed, or contradicts
            another.
    """
    known = {key.replace(".", "_").upper(): setting for key, setting in SETTINGS.items()}
    known |= {c.category.upper(): c.settings()[c.shorthand] for c in CATEGORIES if c.shorthand}
    prefixes = tuple(f"{category.category.upper()}_" for category in CATEGORIES)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for variable, text in sorted(environ.items()):
        prefix, _, rest = variable.partition("_")
        if prefix not in ("WHALE", "EPL") or not text or not (rest in known or rest.startswith(prefixes)):
            continue
        setting = known.get(rest)
        if setting is None:
            raise unknown_key(rest, [f"{prefix}_{name}" for name in known], variable)
        value = setting.check(setting.kind.parse(text), variable)
        if values.get(setting.key, value) != value:
            raise ConfigError(
                f"environment variables {sources[setting.key]} and {variable} contradict each other",
                fix="unset one of them",
            )
        values[setting.key] = value
        sources[setting.key] = variable
    return values
