"""MonitoredTrainingSession: hooks, checkpoints, resuming, summaries, recovery."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import plane


def build(tf, rows=31, batch=7):
    """A small regression from tf.data with a global step: returns loss and training op."""
    data = tf.data.Dataset.from_tensor_slices(plane(rows=rows, width=4)).repeat().batch(batch)
    x, y = tf.data.make_one_shot_iterator(data).get_next()
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.dense(x, 5, tf.nn.tanh), 1) - y))
    step = tf.train.get_or_create_global_step()
    return loss, tf.train.AdamOptimizer(0.05).minimize(loss, global_step=step)


@case()
def hooks(tf, record, workdir):
    """A stop hook, a NaN hook, a hook of the script's own, and one that reads values at the end."""
    loss, train = build(tf)

    class Watch(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs({"loss": loss})

        def after_run(self, run_context, run_values):
            record("loss", run_values.results["loss"])

        def end(self, session):
            record("last_step", session.run(tf.train.get_global_step()))

    final = tf.train.FinalOpsHook(tf.trainable_variables()[0].read_value())
    hooks = [tf.train.StopAtStepHook(last_step=10), tf.train.NanTensorHook(loss), Watch(), final]
    with tf.train.MonitoredTrainingSession(hooks=hooks, log_step_count_steps=None) as sess:
        while not sess.should_stop():
            sess.run(train)
    record("final", final.final_ops_values)


@case()
def checkpoint_and_resume(tf, record, workdir):
    """Train five steps, then a second graph and session resume from the checkpoint."""
    for last_step in (5, 10):
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            loss, train = build(tf)
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(workdir),
                hooks=[tf.train.StopAtStepHook(last_step=last_step)],
                save_checkpoint_steps=2,
                log_step_count_steps=None,
            ) as sess:
                while not sess.should_stop():
                    record("loss", sess.run([loss, train])[0])
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(workdir)))
    for name in sorted(reader.get_variable_to_shape_map()):
        record(name, reader.get_tensor(name))


@case()
def summaries(tf, record, workdir):
    """Scalars and histograms are written by the session's own hook and read back from the event file."""
    loss, train = build(tf)
    with tf.control_dependencies([train]):
        weights = tf.trainable_variables()[0].read_value()
    tf.summary.scalar("loss", loss)
    tf.summary.histogram("weights", weights)
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(workdir),
        hooks=[tf.train.StopAtStepHook(last_step=9)],
        save_summaries_steps=3,
        save_summaries_secs=None,
        log_step_count_steps=None,
    ) as sess:
        while not sess.should_stop():
            sess.run(train)
    tf.summary.FileWriterCache.clear()
    for path in sorted(workdir.glob("events.out.tfevents*")):
        for event in tf.train.summary_iterator(str(path)):
            for value in event.summary.value:
                record(f"{event.step}/{value.tag}", value.simple_value or value.histo.sum)


@case()
def recovery(tf, record, workdir):
    """A hook raises AbortedError once: the session is made anew from the last checkpoint and goes on."""
    loss, train = build(tf)
    step = tf.train.get_global_step()

    class Preempt(tf.train.SessionRunHook):
        preempted = False

        def after_run(self, run_context, run_values):
            if run_context.session.run(step) == 5 and not Preempt.preempted:
                Preempt.preempted = True
                raise tf.errors.AbortedError(None, None, "preempted")

    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(workdir),
        hooks=[Preempt(), tf.train.StopAtStepHook(last_step=10)],
        save_checkpoint_steps=2,
        save_checkpoint_secs=None,
        log_step_count_steps=None,
    ) as sess:
        while not sess.should_stop():
            record("loss", sess.run([loss, train])[0])
    record("preempted", Preempt.preempted)


@case()
def scaffold(tf, record, workdir):
    """A Scaffold with an init_fn, a feed for initialisation and local variables, in SingularMonitoredSession."""
    loss, train = build(tf)
    seen = tf.get_local_variable("seen", [], initializer=tf.zeros_initializer(), trainable=False)
    count = tf.assign_add(seen, 1.0)
    start = tf.placeholder(tf.float32, [4, 5])
    kernel = tf.trainable_variables()[0]
    assign = kernel.assign(start)

    def init(scaffold, sess):
        sess.run(assign, {start: np.full([4, 5], 0.25)})

    with tf.train.SingularMonitoredSession(scaffold=tf.train.Scaffold(init_fn=init)) as sess:
        record("kernel", sess.run(kernel))
        for _ in range(10):
            value, _, number = sess.run([loss, train, count])
            record("loss", value)
            record("count", number)
        record_variables(tf, sess.raw_session(), record)


@case()
def fed_steps(tf, record, workdir):
    """run_step_fn and a feed_dict through a monitored session, then a Saver on the raw session inside it."""
    features, targets = plane(rows=30, width=4)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    loss = tf.losses.huber_loss(y, tf.layers.dense(x, 1))
    train = tf.train.RMSPropOptimizer(0.01).minimize(loss, tf.train.get_or_create_global_step())
    saver = tf.train.Saver()

    def step_with(feeds):
        def step_fn(step_context):
            return step_context.session.run([loss, train], feeds)

        return step_fn

    with tf.train.MonitoredTrainingSession(log_step_count_steps=None) as sess:
        for step in range(10):
            feeds = {x: features[step : step + 13], y: targets[step : step + 13]}
            if step % 2:
                record("loss", sess.run([loss, train], feeds)[0])
            else:
                record("loss", sess.run_step_fn(step_with(feeds))[0])
        raw = sess._tf_sess()
        path = saver.save(raw, str(workdir / "model"))
    reader = tf.train.load_checkpoint(path)
    for name in sorted(reader.get_variable_to_shape_map()):
        record(name, reader.get_tensor(name))
