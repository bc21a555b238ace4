"""How many micro-batches a stage keeps at one time, counted in a real run.

A ``py_func`` cannot count: it runs once, on the rows of all micro-batches. TensorFlow's own step statistics say when
each node began and ended. A micro-batch is live on a stage from the begin of its forward product to the end of its
last backward product there.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.numerics.pipelines.compare import pipelined
from tests.numerics.pipelines.scopes import PARTS, Cut, StageScopes
from tests.numerics.process import start_tensorflow
from whale.ir.schedule import live
from whale.ir.schedules import make

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]

BATCH, WIDTH, STEPS = 4, 64, 3

PRODUCT = re.compile(r"replica_(\d+)/micro_batch_(\d+)/(gradients/)?layer(\d)(?:_grad/MatMul(?:_1)?)?$")
"""A product of a copy in the forward pass or, with ``gradients/``, in the backward pass."""

Span = tuple[int, int]
"""Begin and end in microseconds."""


def spans(cut: Cut) -> list[dict[tuple[int, int], Span]]:
    """By step, and in it by (stage, copy): the time for which the copy was live on the stage."""
    tf = start_tensorflow()
    with pipelined(cut, "local")(), tf.Graph().as_default():
        scopes = StageScopes(cut)
        rows = np.random.RandomState(0).randn(BATCH * cut.copies * (STEPS + 1), WIDTH).astype(np.float32)
        dataset = tf.data.Dataset.from_tensor_slices(rows).batch(BATCH, drop_remainder=True)
        value = tf.data.make_one_shot_iterator(dataset).get_next()
        with scopes.model():
            for part in range(PARTS):
                with scopes.part(part):
                    kernel = tf.get_variable(f"kernel{part}", [WIDTH, WIDTH])
                    value = tf.tanh(tf.matmul(value, kernel, name=f"layer{part}"))
            with scopes.part(PARTS - 1):
                loss = tf.reduce_mean(tf.square(value))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        found = []
        with tf.Session(config=config) as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            for _ in range(STEPS):
                metadata = tf.RunMetadata()
                sess.run(train, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
                found.append(_live_spans(cut, metadata.step_stats))
        return found


def _live_spans(cut: Cut, statistics: Any) -> dict[tuple[int, int], Span]:
    found: dict[tuple[int, int], Span] = {}
    backward: dict[tuple[int, int], int] = {}
    for device in statistics.dev_stats:
        for node in device.node_stats:
            match = PRODUCT.search(node.node_name)
            if match is None:
                continue
            key = (cut.stage(int(match[4])), int(match[1]) * cut.micro_batches + int(match[2]))
            begin = node.all_start_micros + node.op_start_rel_micros
            end = node.all_start_micros + node.op_end_rel_micros
            low, high = found.get(key, (begin, end))
            found[key] = (min(low, begin), max(high, end))
            backward[key] = backward.get(key, 0) + bool(match[3])
    for (stage, copy), count in backward.items():
        layers = sum(cut.stage(part) == stage for part in range(PARTS))
        assert count == 2 * layers, f"stage {stage}, copy {copy}: {count} products of {layers} layers"
    return found


def peaks(cut: Cut, found: dict[tuple[int, int], Span]) -> list[int]:
    """By stage: the largest number of copies of one replica that were live at once."""
    result = []
    for stage in range(cut.stages):
        most = 0
        for replica in range(cut.replicas):
            copies = range(replica * cut.micro_batches, (replica + 1) * cut.micro_batches)
            events = [(found[stage, copy][1], -1) for copy in copies] + [(found[stage, copy][0], 1) for copy in copies]
            now = 0
            for _, change in sorted(events):  # at one time, ends come before begins
                now += change
                most = max(most, now)
        result.append(most)
    return result


@pytest.mark.parametrize(
    "cut",
    [
        Cut(2, 5),
        Cut(4, 5),
        Cut(3, 4, 2),
        Cut(4, 2),
        Cut(4, 5, 1, "PreferBackwardOptimizer"),
        Cut(3, 4, 2, "PreferBackwardOptimizer"),
        Cut(3, 4, 1, "PreferForward"),
        Cut(4, 5, 1, "PreferForward"),
    ],
    ids=str,
)
def test_live_micro_batches_are_the_schedule_s(cut: Cut) -> None:
    """1F1B: at most min(M, S - s), one more for ``PreferBackwardOptimizer``; GPipe: all M."""
    planned = live(make(cut.schedule, cut.stages, cut.stages, cut.micro_batches))
    stages, most = cut.stages, cut.micro_batches
    for found in spans(cut):
        assert len(found) == stages * cut.copies
        counted = peaks(cut, found)
        if cut.schedule == "PreferForward":
            assert counted == [most] * stages
        else:
            more = cut.schedule == "PreferBackwardOptimizer"
            assert all(counted[s] <= min(most, stages - s + more) for s in range(stages)), counted
        assert tuple(counted) == planned
