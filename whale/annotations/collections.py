"""Collections of tensors by how their values over the copies are merged when they are fetched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from whale.annotations.graph_keys import ALL_KEYS
from whale.annotations.scopes import annotated_graph
from whale.annotations.state import record_of
from whale.config.setting import script_site
from whale.errors import ScopeError, Site, nearest


def add_to_collection(tensors: Any, key: str) -> None:
    """Says how one tensor, or each of a list, is merged.

    Raises:
        ScopeError: the key is not one of ``GraphKeys``, a value is not a tensor or variable, or a tensor has another
            rule already.
    """
    site = script_site()
    _check_key(key, site)
    for value in tensors if isinstance(tensors, Sequence) and not isinstance(tensors, str) else [tensors]:
        tensor = _tensor(value, site)
        collections = record_of(tensor.graph).collections
        for other, names in collections.items():
            if other != key and tensor.name in names:
                raise ScopeError(
                    f"tensor {tensor.name!r} is in the collection {other!r} already, and a tensor has one merge rule",
                    site=site,
                    fix=f"add it to {other!r} or to {key!r}, not to both",
                )
        names = collections.setdefault(key, [])
        if tensor.name not in names:
            names.append(tensor.name)


def get_collection(key: str) -> list[tf.Tensor]:
    """The tensors of the default graph under a key, in the order in which they were added.

    Raises:
        ScopeError: the key is not one of ``GraphKeys``.
    """
    site = script_site()
    _check_key(key, site)
    graph = annotated_graph(site)
    return [graph.get_tensor_by_name(name) for name in record_of(graph).collections.get(key, ())]


def get_all_collections() -> list[list[tf.Tensor]]:
    """The tensors of the default graph under every key, in the order of ``GraphKeys``."""
    return [get_collection(key) for key in ALL_KEYS]


def _check_key(key: object, site: Site | None) -> None:
    if key not in ALL_KEYS:
        near = nearest(key, ALL_KEYS) if isinstance(key, str) else ""
        raise ScopeError(
            f"{key!r} is not a key of a collection",
            site=site,
            fix=near or "use one of wh.GraphKeys, such as wh.GraphKeys.GLOBAL_MEAN_OBJECTS",
        )


def _tensor(value: Any, site: Site | None) -> tf.Tensor:
    """What ``Session.run`` would fetch for a tensor or variable."""
    try:
        if not hasattr(value, "graph"):
            raise TypeError
        return value.graph.as_graph_element(value, allow_operation=False)
    except (TypeError, ValueError):
        raise ScopeError(
            f"{value!r} cannot be in a collection", site=site, fix="add a tensor, a variable or a list of them"
        ) from None
