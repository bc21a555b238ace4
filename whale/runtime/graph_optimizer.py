"""How much TensorFlow's graph optimizer (Grappler) does for a session on several devices."""

from __future__ import annotations

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from whale import _tf

MOST_TWICE = 10_000
"""Nodes of a step up to which the optimizer goes over it twice, as is TensorFlow's default. Once takes half of the
time, which every kind of run pays before its first step (1.7 s at 6,000 nodes), and finds nearly all."""

MOST_NODES = 30_000
"""Nodes of a step above which the optimizer is left out. Its time grows faster than the graph does (two minutes for
eight copies of BERT-Large), and what it finds in one copy it finds again in each."""


def limit(config: tf.ConfigProto, graph: tf.Graph, copies: int, on_gpus: bool) -> None:
    """Turns the optimizer down or off in ``config`` for a large graph, unless the script chose its passes itself.

    On GPUs the choice of data layout stays: convolutions are much slower without it. The memory pass is left out for
    every graph: it simulates the devices, and takes what random ops receive (``streams``) for messages of its own.

    Args:
        config: changed in place.
        graph: the script's.
        copies: of each of its ops in a training step: over devices, and over micro-batches where these are not a loop.
        on_gpus: whether the devices are GPUs.
    """
    options = config.graph_options.rewrite_options
    nodes = _tf.graph_version(graph) * copies
    if options.ByteSize():
        return
    if nodes <= MOST_NODES:
        options.memory_optimization = rewriter_config_pb2.RewriterConfig.NO_MEM_OPT
        if nodes > MOST_TWICE:
            options.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
        return
    if on_gpus:
        options.optimizers.append("layout")
    else:
        options.disable_meta_optimizer = True
