"""How much TensorFlow's graph optimizer (Grappler) does for a session on several devices."""

from __future__ import annotations

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from whale import _tf

MOST_NODES = 50_000
"""Ops times devices above which the optimizer is left out. Its time grows faster than the graph does (two minutes for
eight copies of BERT-Large), and what it finds in one copy it finds again in each."""


def limit(config: tf.ConfigProto, graph: tf.Graph | None, devices: int, on_gpus: bool) -> None:
    """Turns the optimizer off in ``config`` for a large graph, unless the script chose its passes itself.

    On GPUs the choice of data layout stays: convolutions are much slower without it. The memory pass is left out for
    every graph: it simulates the devices, and takes what random ops receive (``streams``) for messages of its own.
    """
    options = config.graph_options.rewrite_options
    ops = _tf.graph_version(graph or tf.get_default_graph())
    if options.ByteSize():
        return
    if ops * devices <= MOST_NODES:
        options.memory_optimization = rewriter_config_pb2.RewriterConfig.NO_MEM_OPT
        return
    if on_gpus:
        options.optimizers.append("layout")
    else:
        options.disable_meta_optimizer = True
