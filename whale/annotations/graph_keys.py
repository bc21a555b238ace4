"""Names of the collections that say how a fetched tensor is merged over the copies."""

from __future__ import annotations


class GraphKeys:
    """Keys of ``add_to_collection``.

    ``GLOBAL`` merges over all replicas of a step; ``LOCAL`` only over the micro-batches of one replica, and the
    first replica's result is fetched. ``CONCAT`` joins on the first dim in order; ``MEAN`` and ``SUM`` are
    element-wise.
    """

    GLOBAL_CONCAT_OBJECTS = "global_concat_objects"
    GLOBAL_MEAN_OBJECTS = "global_mean_objects"
    GLOBAL_SUM_OBJECTS = "global_sum_objects"
    LOCAL_CONCAT_OBJECTS = "local_concat_objects"
    LOCAL_MEAN_OBJECTS = "local_mean_objects"
    LOCAL_SUM_OBJECTS = "local_sum_objects"


ALL_KEYS: tuple[str, ...] = (
    GraphKeys.GLOBAL_CONCAT_OBJECTS,
    GraphKeys.GLOBAL_MEAN_OBJECTS,
    GraphKeys.GLOBAL_SUM_OBJECTS,
    GraphKeys.LOCAL_CONCAT_OBJECTS,
    GraphKeys.LOCAL_MEAN_OBJECTS,
    GraphKeys.LOCAL_SUM_OBJECTS,
)
"""Every key, in the order of the reference page."""
