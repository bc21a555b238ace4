"""What an activation does to sessions, and what remains when it is closed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale import _tf
from whale.cluster import Cluster
from whale.config import Config
from whale.errors import ClusterError, SessionError
from whale.runtime.activation import Activation, activate
from whale.runtime.options import Options

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def activation() -> Iterator[Activation]:
    """Two CPU devices, with a fresh default graph."""
    with activate(Options(cluster=Cluster.local(2), quiet=True)) as made, tf.Graph().as_default():
        yield made


def model() -> tuple[Any, Any, Any]:
    """A fed batch, its loss and a training step."""
    x = tf.placeholder(tf.float32, [None, 3])
    weights = tf.get_variable("w", [3, 1], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)))
    return x, loss, tf.train.GradientDescentOptimizer(0.001).minimize(loss)


def devices_of_a_run(session: Any, fetches: Any, feeds: Any) -> int:
    """How many devices took part in a run."""
    metadata = tf.RunMetadata()
    session.run(fetches, feeds, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    return len([row for row in metadata.step_stats.dev_stats if row.device.rpartition("/")[2].startswith("device:CPU")])


def test_closing_restores_tensorflow() -> None:
    plain = dict(vars(_tf.BaseSession))
    made = activate(Options(cluster=Cluster.local(2), quiet=True))
    assert _tf.BaseSession.__init__ is not plain["__init__"]
    made.close()
    assert dict(vars(_tf.BaseSession)) == plain
    made.close()


def test_a_bound_session_goes_on_being_cut_after_closing(activation: Activation) -> None:
    x, loss, train = model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run([loss, train], {x: ROWS})[0]
        assert devices_of_a_run(session, loss, {x: ROWS}) == 2
        activation.close()
        assert devices_of_a_run(session, loss, {x: ROWS}) == 2
        reports = len(activation.reports)
        after = session.run([loss, train], {x: ROWS})[0]
        assert after < before
        # A kind of run that was not met before the activation was closed, ops made after it included.
        late = loss * 2.0
        np.testing.assert_allclose(session.run(late, {x: ROWS[:3]}), 2 * session.run(loss, {x: ROWS[:3]}), rtol=1e-6)
        assert len(activation.reports) > reports and activation.reports[-1].cut
        step = session.make_callable([loss, train], [x])
        assert step(ROWS)[0] < after
    with tf.Session() as other:
        other.run(tf.global_variables_initializer())
        assert devices_of_a_run(other, loss, {x: ROWS}) == 1


@pytest.mark.parametrize("closed", [False, True])
def test_a_session_is_released_with_its_last_holder(closed: bool) -> None:
    """As under plain TensorFlow: no collector of cycles is needed, also after a checked step and a callable."""
    with activate(Options(cluster=Cluster.local(2), config=Config({"check.mode": "on"}), quiet=True)):
        with tf.Graph().as_default() as graph:
            x, loss, train = model()
            initialise = tf.global_variables_initializer()
        session = tf.Session(graph=graph)
    session.run(initialise)
    session.run([loss, train], {x: ROWS})
    step = session.make_callable(loss, [x])
    step(ROWS)
    if closed:
        session.close()
    held = weakref.ref(session)
    gc.disable()
    try:
        del session
        assert held() is not None, "a callable holds its session"
        binding = weakref.ref(held().whale_binding)
        del step
        assert held() is None
        assert binding() is None, "the shadow graph goes with it"
    finally:
        gc.enable()


@pytest.mark.parametrize("first", [0, 1])
def test_a_first_batch_that_is_too_small_does_not_keep_later_ones_whole(activation: Activation, first: int) -> None:
    x, loss, train = model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for rows in (ROWS[:first], ROWS, ROWS[:first]):
            session.run([loss, train], {x: rows})
    told = [report for report in activation.reports if report.trains]
    assert told[0].reason == "the batch has fewer samples than there are devices"
    assert any(report.cut for report in told[1:])


def updated_by_hand(x: Any) -> Any:
    """A training step without an optimizer: the weights are assigned."""
    weights = tf.get_variable("w", [3, 1], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)))
    return weights.assign(weights - 0.001 * tf.gradients(loss, weights)[0])


@pytest.mark.parametrize("batch", ["constant", "drawn", "fed"])
def test_an_update_by_hand_that_is_not_cut_is_told(batch: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sample, which is no batch to cut: whatever it comes from, the script trains, on one device."""
    with activate(Options(cluster=Cluster.local(2))) as activation, tf.Graph().as_default(), tf.Session() as session:
        dataset = tf.data.Dataset.from_tensors(ROWS[0]).repeat().batch(1, drop_remainder=True)
        makers = {
            "constant": lambda: tf.constant(ROWS[:1]),
            "drawn": lambda: tf.data.make_one_shot_iterator(dataset).get_next(),
            "fed": lambda: tf.placeholder(tf.float32, [None, 3]),
        }
        x = makers[batch]()
        step = updated_by_hand(x)
        session.run(tf.global_variables_initializer())
        assert not any(report.renews for report in activation.reports)
        session.run(step, {x: ROWS[:1]} if batch == "fed" else {})
        assert activation.reports[-1].renews == {"w"}
    said = capsys.readouterr().err
    reasons = {
        "constant": "nothing is fed or drawn that can be cut",
        "drawn": "IteratorGetNext:0 always has one row",
        "fed": "the batch has fewer samples than there are devices",
    }
    assert said.count("whale: one replica: ") == 1 and reasons[batch] in said


def test_what_is_initialised_restored_or_counted_is_not_told(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    with activate(Options(cluster=Cluster.local(2))), tf.Graph().as_default(), tf.Session() as session:
        weights = tf.get_variable("w", [3, 1])
        rate, fed = tf.get_variable("rate", []), tf.placeholder(tf.float32, [])
        step = tf.train.get_or_create_global_step()
        session.run(tf.global_variables_initializer())
        session.run([step.assign(step + 1), rate.assign(0.5 * fed), weights.assign(tf.ones([3, 1]))], {fed: 1.0})
        saver = tf.train.Saver()
        saver.restore(session, saver.save(session, str(tmp_path / "model")))
    assert "whale:" not in capsys.readouterr().err


def test_the_wrong_type_of_configuration_is_left_to_tensorflow_to_refuse(activation: Activation) -> None:
    wrong: Any = {"device_count": 2}
    assert activation.configure(wrong, None) is wrong


@pytest.mark.parametrize(
    ("count", "chosen", "by_script", "shown"),
    [
        (4, "", "", "0,1,2,3"),
        (2, "", "", "0,1"),
        (1, "", "", "0"),
        (4, "0,2", "", "0,2"),
        (4, "3", "", "3"),
        (4, "2, 0", "", "2,0"),
        (2, "", "1,3", "1,3"),
        (2, "1", "1,3", "3"),
    ],
)
def test_tensorflow_sees_the_chosen_gpus_and_no_others(count: int, chosen: str, by_script: str, shown: str) -> None:
    config = Config({"cluster.run_visible_devices": chosen})
    options = Options(cluster=Cluster.local(count, "GPU"), quiet=True).under(config)
    with activate(options) as made:
        own = tf.ConfigProto(gpu_options=tf.GPUOptions(visible_device_list=by_script, allow_growth=True))
        configured = made.configure(own, None)
        assert configured is not None and configured.gpu_options.visible_device_list == shown
        assert configured.gpu_options.allow_growth
        assert own.gpu_options.visible_device_list == by_script
    names = [device.name for device in options.cluster.compute_devices]
    assert names == [f"/device:GPU:{number}" for number in range(len(shown.split(",")))]


def test_a_script_that_hides_gpus_from_its_session_is_told_so() -> None:
    with activate(Options(cluster=Cluster.local(2, "GPU"), quiet=True)) as made:
        own = tf.ConfigProto(gpu_options=tf.GPUOptions(visible_device_list="1"))
        with pytest.raises(ClusterError, match=r"'1' shows TensorFlow 1 GPU\(s\), and Whale is to use 2") as caught:
            made.configure(own, None)
    assert "run_visible_devices" in caught.value.fix
    assert caught.value.site is not None and caught.value.site.path == __file__


def test_one_cpu_device_leaves_the_scripts_configuration_alone() -> None:
    with activate(Options(cluster=Cluster.local(1), quiet=True)) as made:
        own = tf.ConfigProto()
        assert made.configure(own, None) is own and made.configure(None, None) is None


def test_threads_and_cpu_devices_that_the_script_asks_for_stay(activation: Activation) -> None:
    configured = activation.configure(tf.ConfigProto(device_count={"CPU": 3}, inter_op_parallelism_threads=7), None)
    assert configured is not None
    assert (configured.device_count["CPU"], configured.inter_op_parallelism_threads) == (3, 7)


def test_on_one_device_the_graph_that_runs_is_op_for_op_the_users() -> None:
    """Nothing is rewritten, so nothing can differ or cost."""

    def partition() -> str:
        with tf.Graph().as_default(), tf.Session() as sess:
            x = tf.placeholder(tf.float32, [None, 3])
            w = tf.get_variable("w", [3, 2], initializer=tf.ones_initializer())
            step = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_mean(tf.square(tf.matmul(x, w))))
            sess.run(tf.global_variables_initializer())
            metadata = tf.RunMetadata()
            sess.run(step, {x: np.ones([4, 3])}, tf.RunOptions(output_partition_graphs=True), metadata)
            (graph,) = metadata.partition_graphs
            nodes = sorted(graph.node, key=lambda node: node.name)
            return "\n".join(f"{node.name} {node.op} {list(node.input)} {node.device}" for node in nodes)

    expected = partition()
    with activate(Options(cluster=Cluster.local(1))):
        assert partition() == expected


def test_partial_run_of_a_random_op_that_plans_share_is_refused(activation: Activation) -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    noise, total = tf.random_normal(tf.shape(x)), tf.reduce_sum(x)
    with tf.Session() as session:
        handle = session.partial_run_setup([total], [x])
        assert session.partial_run(handle, total, {x: ROWS}) == 66
        with pytest.raises(SessionError, match="partial_run reaches a random op") as caught:
            session.partial_run_setup([noise, total], [x])
    assert caught.value.site is not None and "--devices 1" in caught.value.fix
