"""tf.train.Supervisor, the older way of MonitoredTrainingSession."""

from __future__ import annotations

from tests.numerics.case import case, record_variables
from tests.numerics.data import plane


@case()
def managed_session(tf, record, workdir):
    """A managed session over fed batches, saved by hand and found again by a second Supervisor."""
    features, targets = plane(rows=40, width=4)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    init = tf.global_variables_initializer()
    saver = tf.train.Saver()
    for _ in range(2):
        supervisor = tf.train.Supervisor(
            logdir=str(workdir), init_op=init, saver=saver, summary_op=None, save_model_secs=0, global_step=step
        )
        with supervisor.managed_session() as sess:
            record("start", sess.run(step))
            for at in range(5):
                feeds = {x: features[at : at + 13], y: targets[at : at + 13]}
                record("loss", sess.run([loss, train], feeds)[0])
            supervisor.saver.save(sess, supervisor.save_path, global_step=step)
            record_variables(tf, sess, record)


@case()
def queue_runners(tf, record, workdir):
    """The Supervisor starts the queue runners and the loop asks it when to stop."""
    one_x, one_y = tf.train.slice_input_producer(list(plane(rows=22, width=4)), num_epochs=3, shuffle=False)
    x, y = tf.train.batch([one_x, one_y], batch_size=7)
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    supervisor = tf.train.Supervisor(logdir=str(workdir), summary_op=None, save_model_secs=0)
    with supervisor.managed_session() as sess:
        while not supervisor.should_stop() and sess.run(step) < 8:
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)
