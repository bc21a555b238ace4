"""What is chosen on the command line, in the configuration and by scopes reaches the runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale.annotations.state import Annotations, Scope
from whale.annotations.strategies import Kind, Strategy
from whale.cluster import Cluster
from whale.config import Config
from whale.errors import ClusterError, PlanError
from whale.ir.plan import Plan, load
from whale.rewriter.shadow import Shadow
from whale.runtime import preparation
from whale.runtime.activation import activate
from whale.runtime.options import Options
from whale.runtime.plan_file import read_plan_file

CPUS = tuple(f"/device:CPU:{index}" for index in range(4))


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    """A fresh default graph."""
    with tf.Graph().as_default() as made:
        yield made


def options(**fields: Any) -> Options:
    """Options over four CPU devices."""
    return Options(cluster=Cluster.local(4), quiet=True, **fields)


def replica(*devices: str) -> Annotations:
    """What a script with one replica scope says."""
    return Annotations(scopes=(Scope(0, Strategy(Kind.REPLICA), devices, None, None),))


@pytest.mark.parametrize(
    ("strategy", "said", "devices"),
    [
        ("auto", None, CPUS),
        ("auto", Annotations(), CPUS),
        ("auto", Annotations(auto=()), CPUS),
        ("auto", Annotations(layout=CPUS[1:3]), CPUS[1:3]),
        ("auto", replica(*CPUS), CPUS),
        ("auto", replica(CPUS[3], CPUS[0]), (CPUS[0], CPUS[3])),
        ("auto", replica(CPUS[2]), (CPUS[2],)),
        ("annotated", None, CPUS[:1]),
        ("annotated", Annotations(layout=CPUS[1:3]), CPUS[:1]),
        ("annotated", Annotations(auto=()), CPUS),
        ("annotated", replica(CPUS[1], CPUS[2]), CPUS[1:3]),
        ("replica", None, CPUS),
        ("replica", replica(CPUS[2]), CPUS),
    ],
)
def test_strategy_and_scopes_choose_the_devices(
    strategy: str, said: Annotations | None, devices: tuple[str, ...]
) -> None:
    plan, alone = options(strategy=strategy).plan_for(said)
    assert (plan.devices, plan.shares) == (devices, (1,) * len(devices))
    assert bool(alone) == (len(devices) == 1)


def test_a_plan_file_wins_over_scopes(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"version": 1, "shares": [3, 1]}')
    plan, alone = options(plan_file=read_plan_file(str(path))).plan_for(replica(CPUS[3]))
    assert (plan, alone) == (Plan((3, 1), CPUS[:2]), "")


def test_the_documented_plan_file_is_valid() -> None:
    document = Path(__file__).parents[2] / "docs" / "command-line.md"
    (block,) = re.findall(r"```json\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    assert load(block) == Plan((3, 1), ("/device:GPU:0", "/device:GPU:1"), "global")


def test_a_plan_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="not UTF-8 text"):
        read_plan_file(str(path))


def test_a_configuration_leaves_devices_out_and_another_brings_them_back() -> None:
    base = options()
    some = base.under(Config({"cluster.run_visible_devices": "3,1"}))
    assert (some.visible, len(some.cluster.compute_devices)) == ((3, 1), 2)
    assert base.under(Config()).cluster == base.cluster
    with pytest.raises(ClusterError, match="no device 4 among 4"):
        base.under(Config({"cluster.run_visible_devices": "4"}))


def collectives(config: Config, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many buckets a training step has on two devices, and how many of them may be under way at once."""
    found: list[tuple[int, int]] = []

    def watch(shadow: Shadow, roots: Any, ops: Any) -> None:
        nodes = [node for node in shadow.pending if node.op.startswith("Collective")]
        if nodes:
            groups = {shadow.integers[node.input[2].partition(":")[0]] for node in nodes}
            found.append((len(nodes) // 2, len(groups)))

    monkeypatch.setattr(preparation, "check_collectives", watch)
    with activate(Options(cluster=Cluster.local(2), quiet=True, config=config)):
        x = value = tf.placeholder(tf.float32, [None, 512])
        for index in range(12):  # 2 MiB each: buckets below 4 MiB are not worth a message
            shape = [512, 1024] if index % 2 == 0 else [1024, 512]
            value = tf.matmul(value, tf.get_variable(f"w{index}", shape, initializer=tf.zeros_initializer()))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(value)))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(step, {x: np.ones([4, 512])})
    ((buckets, communicators),) = found
    return buckets, communicators


@pytest.mark.parametrize(
    ("splits", "communicators", "found"), [(1, 2, (1, 1)), (3, 1, (3, 1)), (3, 2, (3, 2)), (6, 4, (6, 4))]
)
def test_splits_and_communicators_shape_the_all_reduce(
    splits: int, communicators: int, found: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"communication.max_splits": splits, "communication.num_communicators": communicators}
    assert collectives(Config(settings), monkeypatch) == found
