"""Configuration: the keys, ``Config`` that holds their values, and ``Env``, the one façade scripts expect."""

from whale.config.env import ClusterFacts, Env
from whale.config.reference import reference_page
from whale.config.store import Config, from_environment

__all__ = ["ClusterFacts", "Config", "Env", "from_environment", "reference_page"]
