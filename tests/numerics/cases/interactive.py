"""Sessions at a prompt: ops added after the first run, evaluation by methods, callables, partial runs."""

from __future__ import annotations

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


def model(tf):
    """Placeholders and the loss of a linear model with a hidden layer."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    w, v = tf.get_variable("w", [4, 3]), tf.get_variable("v", [3, 1])
    return x, y, tf.reduce_mean(tf.square(tf.matmul(tf.nn.tanh(tf.matmul(x, w)), v) - y))


@case()
def ops_added_late(tf, record, workdir):
    """An InteractiveSession whose graph grows between runs: a metric, a variable, a larger model."""
    features, targets = plane(rows=20, width=4)
    x, y, loss = model(tf)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    sess = tf.InteractiveSession()
    tf.global_variables_initializer().run()
    for a, b in batches(7, features, targets):
        record("loss", sess.run([loss, train], {x: a, y: b})[0])
    worst = tf.reduce_max(tf.abs(y - tf.reduce_mean(y)))
    record("worst", worst.eval({y: targets}))
    scale = tf.Variable(2.0, name="scale")
    scaled = scale * loss
    sess.run(scale.initializer)
    with tf.control_dependencies([scaled]):
        late = tf.train.MomentumOptimizer(0.05, 0.5).minimize(scaled, var_list=[scale])
    sess.run(tf.variables_initializer([v for v in tf.global_variables() if "Momentum" in v.name]))
    for a, b in batches(7, features, targets):
        record("loss", sess.run([scaled, train], {x: a, y: b})[0])
        record("loss", sess.run([scaled, late], {x: a, y: b})[0])
    record_variables(tf, sess, record)
    sess.close()


@case()
def second_optimizer_late(tf, record, workdir):
    """After some steps of SGD the script adds Adam, initialises what is new only, and goes on."""
    features, targets = plane(rows=20, width=4)
    x, y, loss = model(tf)
    first = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for a, b in batches(7, features, targets):
            record("loss", sess.run([loss, first], {x: a, y: b})[0])
        second = tf.train.AdamOptimizer(0.02).minimize(loss)
        missing = sess.run(tf.report_uninitialized_variables())
        record("missing", sorted(missing.tolist()))
        fresh = [v for v in tf.global_variables() if not sess.run(tf.is_variable_initialized(v))]
        sess.run(tf.variables_initializer(fresh))
        for a, b in batches(7, features, targets):
            record("loss", sess.run([loss, second], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case()
def late_ops_named_as_scopes(tf, record, workdir):
    """Ops, a variable and a training step that are made after a run and named as scopes that have ops."""
    features, targets = plane(rows=20, width=4)
    with tf.name_scope("model"):
        x, y, loss = model(tf)
        squares = tf.square(x, name="inner/squares")
    with tf.name_scope("bias"):
        moved = tf.reduce_sum(squares, axis=1)
    first = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for a, b in batches(7, features, targets):
            record("loss", sess.run([loss, first], {x: a, y: b})[0])
        bias = tf.Variable(0.5, name="bias/")
        sess.run(bias.initializer)
        inner = tf.multiply(squares, 2.0, name="model/inner/")
        late = tf.add(loss, tf.reduce_mean(tf.square(bias * moved - tf.reduce_sum(inner, axis=1))), name="model/")
        record("names", [inner.op.name, late.op.name])
        second = tf.train.GradientDescentOptimizer(0.01).minimize(late)
        for a, b in batches(7, features, targets):
            record("late", sess.run([late, second, inner], {x: a, y: b})[::2])
        record_variables(tf, sess, record)


@case()
def evaluated_by_methods(tf, record, workdir):
    """Tensor.eval, Operation.run and Variable.eval/load with the default session."""
    features, targets = plane(rows=20, width=4)
    x, y, loss = model(tf)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    w = tf.trainable_variables()[0]
    with tf.Session().as_default() as sess:
        tf.global_variables_initializer().run()
        for a, b in batches(7, features, targets):
            train.run({x: a, y: b})
            record("loss", loss.eval({x: a, y: b}))
            record("w", w.eval())
        w.load(0.5 * w.eval(), sess)
        train.run({x: features, y: targets})
        record_variables(tf, sess, record)
        sess.close()


@case(fixed="what a callable is given is not seen: it is no run of the session")
def callables(tf, record, workdir):
    """Session.make_callable, with and without feeds, called many times."""
    features, targets = plane(rows=26, width=4)
    x, y, loss = model(tf)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        step = sess.make_callable([loss, train], feed_list=[x, y])
        weights = sess.make_callable(tf.trainable_variables()[0])
        for _ in range(3):
            for a, b in batches(7, features, targets):
                record("loss", step(a, b)[0])
                record("weights", weights())
        record_variables(tf, sess, record)


@case(
    cut=False,
    reason="a partial run fixes its signature before any shape is known",
    fixed="a partial run is no run, and its feeds are not seen",
)
def partial_run(tf, record, workdir):
    """A run in two parts: fetch the output first, decide the target, then train."""
    features, targets = plane(rows=20, width=4)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    output = tf.matmul(x, tf.get_variable("w", [4, 1]))
    loss = tf.reduce_mean(tf.square(output - y))
    with tf.control_dependencies([tf.train.GradientDescentOptimizer(0.1).minimize(loss)]):
        trained = tf.identity(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                handle = sess.partial_run_setup([output, trained], [x, y])
                guess = sess.partial_run(handle, output, {x: a})
                record("guess", guess)
                record("loss", sess.partial_run(handle, trained, {y: 0.5 * guess + 0.5 * b}))
        record_variables(tf, sess, record)


@case()
def default_graph_reset(tf, record, workdir):
    """Two experiments in turn, each with a graph, a session and a batch size of its own."""
    features, targets = plane(rows=30, width=4)
    for size in (7, 10):
        with tf.Graph().as_default():
            tf.set_random_seed(size)
            x, y, loss = model(tf)
            train = tf.train.AdamOptimizer(0.02).minimize(loss)
            sess = tf.Session()
            sess.run(tf.global_variables_initializer())
            for a, b in batches(size, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
            record_variables(tf, sess, record)
            sess.close()


@case()
def named_as_a_scope(tf, record, workdir):
    """An op made after a run under the name of a scope that has ops, as summaries of some libraries are."""
    features, targets = plane(rows=14, width=4)
    with tf.name_scope("losses"):
        x, y, loss = model(tf)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for a, b in batches(7, features, targets):
            record("loss", sess.run([loss, train], {x: a, y: b})[0])
        late = tf.identity(loss, name="losses/")
        twice = tf.multiply(late, 2.0, name="losses/twice")
        for a, b in batches(7, features, targets):
            record("late", sess.run([late, twice, train], {x: a, y: b})[:2])
        record_variables(tf, sess, record)
