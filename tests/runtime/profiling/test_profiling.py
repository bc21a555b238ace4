"""Sessions whose training steps are timed and traced in turn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale.cluster import Cluster
from whale.cost_model import BlockTimes, Share, runtime
from whale.cost_model.calibration import calibrate
from whale.runtime.options import Options
from whale.runtime.planning.training_step import Given
from whale.runtime.profiling.measure import measured_step
from whale.runtime.profiling.profiling import WARM_UP, Profiled, Profiling, StepsMeasured

OPTIONS = Options(cluster=Cluster.local(1))
STEPS = 2
ALL = WARM_UP + 2 * STEPS
FEED = {"rows:0": np.ones([8, 3], np.float32)}


@pytest.fixture
def profiling() -> Iterator[Profiling]:
    with tf.Graph().as_default(), Profiling(OPTIONS, STEPS, lambda: None) as made:
        assert isinstance(made, Profiling)
        yield made


def model() -> tuple[tf.Tensor, tf.Operation]:
    rows = tf.placeholder(tf.float32, [None, 3], name="rows")
    weights = tf.get_variable("weights", [3, 64], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.nn.relu(tf.matmul(rows, weights, name="product")), name="loss")
    return loss, tf.train.GradientDescentOptimizer(0.01).minimize(loss)


def found(profiling: Profiling) -> Profiled:
    result = profiling.profiled()
    assert result is not None
    return result


def test_a_script_ends_after_the_last_measured_step(profiling: Profiling) -> None:
    loss, train = model()
    losses: list[float] = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(StepsMeasured) as ended:
            while True:
                session.run(loss, FEED)  # an evaluation counts for nothing
                losses.append(session.run([train, loss], FEED)[1])
    assert ended.value.code == 0
    assert len(losses) == ALL - 1
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]  # it really trains, traced or not
    result = found(profiling)
    assert profiling.is_over and len(result.seconds) == len(result.traces) == STEPS
    assert all(seconds > 0 for seconds in result.seconds)
    assert all("product" in {span.node for span in trace.kernels} for trace in result.traces)


def test_fewer_steps_are_what_there_is(profiling: Profiling) -> None:
    _, train = model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for number in range(WARM_UP + 2):
            assert profiling.profiled() is None, number
            session.run(train, FEED)
    assert len(found(profiling).traces) == 1
    assert profiling.met == WARM_UP + 2
    assert not profiling.is_over


def test_steps_of_another_kind_or_size_are_left_alone(profiling: Profiling) -> None:
    loss, train = model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, FEED)
        for _ in range(ALL):
            session.run([train, loss], FEED)
            session.run(train, {"rows:0": np.ones([4, 3], np.float32)})
    assert profiling.met == 1


def test_what_the_script_traces_itself_is_its_own(profiling: Profiling) -> None:
    _, train = model()
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        for _ in range(ALL):
            session.run(train, FEED, options=options, run_metadata=metadata)
    assert metadata.step_stats.dev_stats
    assert profiling.met == 0


def test_monitored_sessions_and_callables_are_measured(profiling: Profiling) -> None:
    loss, train = model()
    tf.train.get_or_create_global_step()
    with pytest.raises(StepsMeasured), tf.train.MonitoredTrainingSession() as session:
        while not session.should_stop():
            session.run([train, loss], FEED)
    assert len(found(profiling).traces) == STEPS


def test_callables_are_measured(profiling: Profiling) -> None:
    loss, train = model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        call = session.make_callable([loss, train], ["rows:0"])
        with pytest.raises(StepsMeasured):
            for _ in range(ALL):
                assert call(FEED["rows:0"])[0] > 0
    assert len(found(profiling).traces) == STEPS


def test_a_script_that_goes_on_is_told_again(profiling: Profiling) -> None:
    _, train = model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(ALL - 1):
            session.run(train, FEED)
        for _ in range(2):
            with pytest.raises(StepsMeasured):
                session.run(train, FEED)
    assert len(found(profiling).traces) == STEPS


def test_tensorflow_is_as_before_when_it_is_closed(profiling: Profiling) -> None:
    with tf.Session() as session:
        assert {"_do_run", "run"} <= vars(session).keys()
    profiling.close()
    with tf.Session() as session:
        assert {"_do_run", "run"}.isdisjoint(vars(session))


def test_a_measured_step_calibrates_the_cost_model(profiling: Profiling) -> None:
    _, train = model()
    with tf.Session() as session, pytest.raises(StepsMeasured):
        session.run(tf.global_variables_initializer())
        while True:
            session.run(train, FEED)
    step = measured_step(found(profiling), OPTIONS, Given(), title="test")
    names = {kernel.name for kernel in step.measured.kernels}
    assert "product" in names
    assert (step.measured.samples, step.measured.model) == (8, "CPU")
    calibration = calibrate(step.measured, step.chain)
    assert all(c.fitted_to == "test" and c.value >= 0 for c in calibration.fitted.values.values())
    # The host's rest makes up what ops leave of the step; ops that did not run are the cost model's alone.
    assert calibration.fitted_step_seconds >= 0.99 * step.measured.step_seconds
    times = BlockTimes(runtime("tensorflow"), "fp32", coefficients=calibration.merged)
    ran = sum(times.kernel_seconds(w, "CPU", Share(8)) for kernel in step.measured.kernels for w in kernel.work)
    assert ran == pytest.approx(sum(kernel.seconds for kernel in step.measured.kernels), rel=0.05)
