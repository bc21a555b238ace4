"""Several sessions, graphs and threads."""

from __future__ import annotations

import threading

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


def model(tf, training=True):
    """Placeholders, loss and, for the training graph, the training op."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    hidden = tf.layers.dense(x, 5, tf.nn.tanh, name="hidden")
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1, name="output") - y))
    return x, y, loss, tf.train.MomentumOptimizer(0.03, 0.8).minimize(loss) if training else None


@case()
def two_graphs_one_checkpoint(tf, record, workdir):
    """The NMT pattern: a training and an inference graph, each with a session, meeting in checkpoints."""
    features, targets = plane(rows=26, width=4)
    training, inference = tf.Graph(), tf.Graph()
    with training.as_default():
        tf.set_random_seed(3)
        x, y, loss, train = model(tf)
        saver, initialise = tf.train.Saver(), tf.global_variables_initializer()
    with inference.as_default():
        infer_x, infer_y, infer_loss, _ = model(tf, training=False)
        infer_saver = tf.train.Saver()
    first, second = tf.Session(graph=training), tf.Session(graph=inference)
    first.run(initialise)
    for epoch in range(3):
        for a, b in batches(7, features, targets):
            record("loss", first.run([loss, train], {x: a, y: b})[0])
        path = saver.save(first, str(workdir / "model"), global_step=epoch)
        infer_saver.restore(second, path)
        record("inferred", second.run(infer_loss, {infer_x: features, infer_y: targets}))
    record_variables(tf, first, record)
    record_variables(tf, second, record)
    first.close()
    second.close()


@case()
def two_sessions_one_graph(tf, record, workdir):
    """Two sessions over one graph keep variables of their own."""
    features, targets = plane(rows=20, width=4)
    x, y, loss, train = model(tf)
    initialise = tf.global_variables_initializer()
    with tf.Session() as one, tf.Session() as other:
        one.run(initialise)
        other.run(initialise)
        for a, b in batches(7, features, targets):
            record("loss", one.run([loss, train], {x: a, y: b})[0])
            record("other", other.run(loss, {x: a, y: b}))
        other.run(train, {x: features[:5], y: targets[:5]})
        record_variables(tf, one, record)
        record_variables(tf, other, record)


@case()
def trained_in_a_thread(tf, record, workdir):
    """Training runs in a thread of its own, as in old reinforcement-learning code."""
    features, targets = plane(rows=26, width=4)
    x, y, loss, train = model(tf)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())

        def work():
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])

        for _ in range(3):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        record_variables(tf, sess, record)


@case()
def evaluated_by_several_threads(tf, record, workdir):
    """Four threads evaluate at once between training steps; each gets its own rows' loss."""
    features, targets = plane(rows=28, width=4)
    x, y, loss, train = model(tf)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            found = {}

            def work(part, found=found):
                rows = slice(7 * part, 7 * part + 7)
                found[part] = sess.run(loss, {x: features[rows], y: targets[rows]})

            threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            record("evaluated", [found[part] for part in range(4)])
            record("loss", sess.run([loss, train], {x: features[:13], y: targets[:13]})[0])
        record_variables(tf, sess, record)


@case()
def session_with_a_config(tf, record, workdir):
    """A ConfigProto of the script's own: soft placement, GPU options, one thread, optimiser options."""
    features, targets = plane(rows=20, width=4)
    x, y, loss, train = model(tf)
    config = tf.ConfigProto(allow_soft_placement=True, log_device_placement=False, intra_op_parallelism_threads=1)
    config.gpu_options.allow_growth = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case()
def shared_variables_in_two_towers_of_use(tf, record, workdir):
    """A training and an evaluation model in one graph share weights by reuse; their batches differ in size."""
    features, targets = plane(rows=26, width=4)
    with tf.variable_scope("model"):
        x, y, loss, train = model(tf)
    with tf.variable_scope("model", reuse=True):
        eval_x, eval_y, eval_loss, _ = model(tf, training=False)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
            record("evaluated", sess.run(eval_loss, {eval_x: features, eval_y: targets}))
        both = sess.run(
            [loss, eval_loss], {x: features[:7], y: targets[:7], eval_x: features[:10], eval_y: targets[:10]}
        )
        record("both", both)
        record_variables(tf, sess, record)
