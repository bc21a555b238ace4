"""Builds a benchmark's model with TF1 code and captures it. Needs TensorFlow, as the builders do."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from benchmarks.graphs import convolutional, transformer
from benchmarks.graphs.sizes import Model, Transformer
from whale.annotations.capture import capture
from whale.annotations.variables import complete
from whale.cost_model import Chain, Fusion, build_chain
from whale.ir.program import reachable
from whale.sharding.order import order
from whale.sharding.propagate import Request, Source, propagate


def capture_chains(model: Model) -> dict[Fusion, Chain]:
    """The blocks of a model as runtimes see them, by who joins ops into kernels."""
    graph = tf.Graph()
    with graph.as_default(), tf.variable_scope("", use_resource=False):
        train = (transformer if isinstance(model, Transformer) else convolutional).training_step(model)
    program = complete(capture(graph), graph)
    ops = reachable(program, [], [train.name], [])
    inputs = [op for op in ops if op.type == "Placeholder"]
    feeds = {op.output(): op.outputs[0] for op in inputs}
    batches = tuple(Source(t, 0, None, None) for t, kind in feeds.items() if kind.shape and kind.shape[0] is None)
    analysis = propagate(Request(order(ops, frozenset(feeds)), feeds), batches)
    return {fusion: build_chain(program, analysis, fusion=fusion) for fusion in Fusion}
