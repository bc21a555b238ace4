"""Scripts with control flow, run by the cases once with control flow v1 and once with v2."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import record_variables
from tests.numerics.data import batches, plane


def fit(tf, record, x, y, output, rows=20, extra=None):
    """Train on the squared error of ``output`` over batches of 7 with a short last one; record all."""
    features, targets = plane(rows=rows, width=3)
    loss = tf.reduce_mean(tf.square(output - y))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(4):
            for a, b in batches(7, features, targets):
                feeds = {x: a, y: b}
                if extra is not None:
                    feeds[extra[0]] = extra[1](step)
                record("loss", sess.run([loss, train], feeds)[0])
        record_variables(tf, sess, record)


def inputs(tf):
    """Placeholders of features [batch, 3] and targets [batch, 1]."""
    return tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])


def while_loop(tf, record, workdir):
    """A fixed number of steps over the batch's hidden state, with gradients through the loop."""
    x, y = inputs(tf)
    w = tf.get_variable("w", [3, 3])
    _, state = tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, tf.tanh(tf.matmul(s, w)) + 0.1 * x), [0, x])
    fit(tf, record, x, y, tf.layers.dense(state, 1))


def while_until_the_batch_is_small(tf, record, workdir):
    """The loop's bound is read from the whole batch: its largest norm, halved until below one."""
    x, y = inputs(tf)
    w = tf.get_variable("w", [3, 3])

    def largest(state):
        return tf.reduce_max(tf.reduce_sum(tf.square(state), axis=1))

    count, state = tf.while_loop(lambda i, s: largest(s) > 1.0, lambda i, s: (i + 1, 0.6 * s), [0, tf.matmul(x, w)])
    fit(tf, record, x, y, tf.layers.dense(state, 1) * tf.cast(count, tf.float32))


def nested_while(tf, record, workdir):
    """A loop inside a loop, with a loop-invariant batch tensor and a gradient through both."""
    x, y = inputs(tf)
    w = tf.get_variable("w", [3, 3])

    def outer(i, state):
        _, inner = tf.while_loop(lambda j, s: j < i, lambda j, s: (j + 1, tf.tanh(tf.matmul(s, w))), [0, state])
        return i + 1, inner + x

    _, state = tf.while_loop(lambda i, s: i < 3, outer, [0, x])
    fit(tf, record, x, y, tf.layers.dense(state, 1))


def cond(tf, record, workdir):
    """tf.cond on a fed flag, with variables read in only one of the branches."""
    x, y = inputs(tf)
    wide = tf.placeholder(tf.bool, [])
    a, b = tf.get_variable("a", [3, 1]), tf.get_variable("b", [3, 1])
    output = tf.cond(wide, lambda: tf.matmul(x, a + b), lambda: tf.matmul(tf.nn.relu(x), a))
    fit(tf, record, x, y, output, extra=(wide, lambda step: step % 2 == 0))


def cond_on_a_batch_statistic(tf, record, workdir):
    """The predicate compares the mean over the whole batch: one value for all devices."""
    x, y = inputs(tf)
    w = tf.get_variable("w", [3, 1])
    positive = tf.reduce_mean(y) > 0.0
    output = tf.cond(positive, lambda: tf.matmul(x, w), lambda: tf.matmul(tf.abs(x), w) - 1.0)
    fit(tf, record, x, y, output)


def case_of_three(tf, record, workdir):
    """tf.case over a fed integer, with a default."""
    x, y = inputs(tf)
    choice = tf.placeholder(tf.int32, [])
    w = tf.get_variable("w", [3, 1])
    product = tf.matmul(x, w)
    branches = [(tf.equal(choice, 0), lambda: product), (tf.equal(choice, 1), lambda: tf.square(product))]
    output = tf.case(branches, default=lambda: tf.sin(product), exclusive=True)
    fit(tf, record, x, y, output, extra=(choice, lambda step: step % 3))


def switch_of_three(tf, record, workdir):
    """tf.switch_case over a fed integer: a Merge of three inputs closes two conditionals at once."""
    x, y = inputs(tf)
    choice = tf.placeholder(tf.int32, [])
    w = tf.get_variable("w", [3, 1])
    branches = [lambda: tf.matmul(x, w), lambda: tf.matmul(x * 2.0, w) * tf.matmul(x, w), lambda: tf.matmul(x, w) * 3.0]
    fit(tf, record, x, y, tf.switch_case(choice, branches), extra=(choice, lambda step: step % 3))


def penalty_through_a_branch(tf, record, workdir):
    """A gradient penalty, so a second derivative, through a branch with two operands from inside of it."""
    x, y = inputs(tf)
    training = tf.placeholder(tf.bool, [])
    w = tf.get_variable("w", [3, 3])
    hidden = tf.tanh(tf.matmul(x, w))
    hidden = tf.cond(training, lambda: hidden * tf.ones_like(hidden) * 0.5, lambda: tf.identity(hidden))
    output = tf.reduce_sum(tf.square(hidden), 1, keepdims=True)
    penalty = tf.square(tf.gradients(tf.reduce_sum(output), x)[0])
    output += tf.reduce_mean(penalty, 1, keepdims=True)
    fit(tf, record, x, y, output, extra=(training, lambda step: step % 2 == 0))


def map_fn(tf, record, workdir):
    """tf.map_fn over the rows of the batch."""
    x, y = inputs(tf)
    w = tf.get_variable("w", [3, 3])

    def one(row):
        return tf.reduce_sum(tf.tanh(tf.linalg.matvec(w, row)), keepdims=True)

    fit(tf, record, x, y, tf.map_fn(one, x) * tf.get_variable("scale", [], initializer=tf.ones_initializer()))


def map_fn_of_a_pair(tf, record, workdir):
    """tf.map_fn over two batch tensors at once, returning another type."""
    x, y = inputs(tf)
    w = tf.get_variable("w", [3, 1])
    sign = tf.map_fn(lambda pair: tf.reduce_sum(pair[0]) * pair[1][0] > 0.0, (x, y), dtype=tf.bool)
    fit(tf, record, x, y, tf.matmul(x, w) * tf.where(sign, tf.ones_like(y[:, 0]), 0.5 * tf.ones_like(y[:, 0]))[:, None])


def scan(tf, record, workdir):
    """tf.scan over time, the batch being dim 1 of its elements."""
    x, y = inputs(tf)
    w = tf.get_variable("w", [1, 1])
    steps = tf.transpose(x)[:, :, None]
    states = tf.scan(lambda state, now: tf.tanh(tf.matmul(state, w) + now), steps, initializer=tf.zeros_like(y))
    fit(tf, record, x, y, tf.layers.dense(tf.transpose(states[:, :, 0]), 1))


def foldl(tf, record, workdir):
    """tf.foldl accumulates the columns of the batch."""
    x, y = inputs(tf)
    w = tf.get_variable("w", [], initializer=tf.constant_initializer(0.3))
    total = tf.foldl(lambda state, column: tf.nn.elu(w * state + column), tf.transpose(x), tf.zeros_like(y[:, 0]))
    fit(tf, record, x, y, total[:, None])


def loop_in_cond(tf, record, workdir):
    """A while_loop in one branch of a cond, gradients through both."""
    x, y = inputs(tf)
    deep = tf.placeholder(tf.bool, [])
    w = tf.get_variable("w", [3, 3])

    def loop():
        return tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.tanh(tf.matmul(s, w))), [0, x])[1]

    state = tf.cond(deep, loop, lambda: tf.matmul(x, w))
    fit(tf, record, x, y, tf.layers.dense(state, 1), extra=(deep, lambda step: step != 1))


def assign_in_a_branch(tf, record, workdir):
    """A branch counts its uses in a variable: the side effect happens once a step."""
    x, y = inputs(tf)
    count = tf.get_variable("count", [], tf.int32, tf.zeros_initializer(), trainable=False, use_resource=True)
    w = tf.get_variable("w", [3, 1])
    positive = tf.reduce_sum(y) > 0.0

    def counted():
        with tf.control_dependencies([tf.assign_add(count, 1)]):
            return tf.identity(tf.matmul(x, w))

    fit(tf, record, x, y, tf.cond(positive, counted, lambda: -tf.matmul(x, w)))


def growing_state(tf, record, workdir):
    """A loop variable whose shape changes: tokens are appended one column at a time, greedily."""
    x, y = inputs(tf)
    w = tf.get_variable("w", [3, 3])
    tokens = tf.cast(tf.zeros_like(y), tf.int64)

    def body(i, tokens):
        last = tf.one_hot(tokens[:, -1], 3) + x
        best = tf.argmax(tf.matmul(last, w), axis=1)
        return i + 1, tf.concat([tokens, best[:, None]], axis=1)

    shapes = [tf.TensorShape([]), tf.TensorShape([None, None])]
    _, tokens = tf.while_loop(lambda i, t: i < 3, body, [0, tokens], shape_invariants=shapes)
    chosen = tf.reduce_sum(tf.one_hot(tokens, 3), axis=1)
    values = 0.3 * np.random.RandomState(2).randn(3, 3).astype(np.float32)
    fit(tf, record, x, y, tf.layers.dense(tf.matmul(chosen, tf.constant(values)), 1))


ALL = (
    while_loop,
    while_until_the_batch_is_small,
    nested_while,
    cond,
    cond_on_a_batch_statistic,
    case_of_three,
    map_fn,
    map_fn_of_a_pair,
    scan,
    foldl,
    loop_in_cond,
    assign_in_a_branch,
    growing_state,
)
"""Every script of this module."""


def dropout_that_evaluation_skips(tf, record, workdir):
    """The branch with dropout is not taken by evaluations between steps: they draw nothing."""
    features, targets = plane(rows=20, width=3)
    x, y = inputs(tf)
    training = tf.placeholder(tf.bool, [])
    hidden = tf.layers.dense(x, 6, tf.nn.tanh)
    zeros = tf.cond(training, lambda: tf.zeros([tf.shape(x)[0], 6]), lambda: hidden * 0.5)
    hidden = tf.cond(training, lambda: tf.nn.dropout(hidden, rate=0.5, seed=3), lambda: tf.identity(hidden))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden + zeros, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(2):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b, training: True})[0])
                record("evaluation", sess.run(loss, {x: a, y: b, training: False}))
        record_variables(tf, sess, record)


def batch_chosen_by_a_branch(tf, record, workdir):
    """Training and validation batches come from two iterators, of which a conditional draws one."""

    def draw(first):
        rows = np.arange(first, first + 40, dtype=np.float32)[:, None] / 50.0
        return lambda: (
            tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(rows).batch(6)).get_next() + 0.5
        )

    training = tf.placeholder_with_default(True, [])
    x = tf.cond(training, draw(0), draw(100))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.dense(x, 4, tf.nn.tanh), 1) - x))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(5):
            record("loss", sess.run([loss, x, train])[:2])
            record("validation", sess.run([loss, x], {training: False}))
        record_variables(tf, sess, record)


def draws_of_constant_shape(tf, record, workdir):
    """Random numbers of a constant shape in branches taken by a flag or by a statistic of the batch, over steps,
    evaluations and act calls with one row."""
    features, targets = plane(rows=20, width=3)
    x, y = inputs(tf)
    wide = tf.placeholder(tf.bool, [])
    hidden = tf.layers.dense(x, 4, tf.nn.tanh)
    noisy = tf.cond(
        wide, lambda: hidden * tf.random_uniform([]), lambda: hidden + tf.random_normal([1, 4]) * tf.random_uniform([4])
    )
    positive = tf.reduce_mean(x) > 0.0
    noisy = tf.cond(positive, lambda: noisy * tf.random_uniform([4]), lambda: noisy - tf.random_uniform([]))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(noisy, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(6):
            features = -features
            flag = {wide: step % 3 > 0}
            record("loss", sess.run([loss, train], {x: features[:7], y: targets[:7], **flag})[0])
            record("evaluation", sess.run(loss, {x: features, y: targets, **flag}))
            record("act", sess.run(noisy, {x: features[:1], **flag}))
        record_variables(tf, sess, record)


def conditional_in_a_conditional(tf, record, workdir):
    """The inner predicate is computed outside, and both branches take means over the batch: what ``tf.case`` makes."""
    features, _ = plane(rows=8, width=3)
    x = tf.placeholder(tf.float32, [None, 3])
    step = tf.train.get_or_create_global_step()
    hidden = tf.layers.dense(x, 3)
    first, later = tf.equal(step, 1), step > 2
    squares, sizes = lambda: tf.reduce_mean(tf.square(hidden)), lambda: tf.reduce_mean(tf.abs(hidden))
    nothing = lambda: tf.constant(0.0)  # noqa: E731
    loss = squares() + tf.cond(first, squares, lambda: tf.cond(later, sizes, nothing))
    loss += tf.case([(first, squares), (later, sizes)], default=nothing)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in (8, 7, 8, 6, 5):
            record("loss", sess.run([loss, train], {x: features[:size]})[0])
        record_variables(tf, sess, record)
