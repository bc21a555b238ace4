"""Batches that are odd, short, of one row, or end."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


def model(tf):
    """Placeholders, output, loss and training op, with batch norm so that every row matters to every other."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    hidden = tf.layers.dense(x, 5, tf.nn.tanh)
    mean, variance = tf.nn.moments(hidden, [0])
    hidden = (hidden - mean) / tf.sqrt(variance + 0.1)
    output = tf.layers.dense(hidden, 1)
    loss = tf.reduce_mean(tf.square(output - y))
    return x, y, output, loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


@case()
def every_size_down_to_one(tf, record, workdir):
    """Training steps on 13, 7, 5, 3, 2 and 1 rows: some devices get nothing."""
    features, targets = plane(rows=13, width=4)
    x, y, output, loss, train = model(tf)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in (13, 7, 5, 3, 2, 1, 4):
            value, _, rows = sess.run([loss, train, output], {x: features[:size], y: targets[:size]})
            record("loss", value)
            record("output", rows)
        record_variables(tf, sess, record)


@case()
def last_batch_of_one_row(tf, record, workdir):
    """An iterator whose last batch holds a single row, run through twice."""
    data = tf.data.Dataset.from_tensor_slices(plane(rows=15, width=4)).batch(7)
    iterator = tf.data.make_initializable_iterator(data)
    x, y = iterator.get_next()
    hidden = tf.layers.dense(x, 5, tf.nn.relu)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
    train = tf.train.AdamOptimizer(0.03).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            sess.run(iterator.initializer)
            for _ in range(3):
                record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)


@case()
def initialised_again_after_the_end(tf, record, workdir):
    """The epoch loop: run until OutOfRange, initialise the iterator again, and run on."""
    data = tf.data.Dataset.from_tensor_slices(plane(rows=17, width=4)).shuffle(17, seed=2).batch(5)
    iterator = tf.data.make_initializable_iterator(data)
    x, y = iterator.get_next()
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 1) - y))
    train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            sess.run(iterator.initializer)
            steps = 0
            try:
                while True:
                    value, _, rows = sess.run([loss, train, x])
                    record("loss", value)
                    record("rows", rows)
                    steps += 1
            except tf.errors.OutOfRangeError:
                record("steps", steps)
        record_variables(tf, sess, record)


@case()
def acting_with_one_row(tf, record, workdir):
    """A Q-network acts on one observation at a time and trains on replayed batches; a target network follows."""
    random = np.random.RandomState(0)
    observation, action = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.int32, [None])
    reward, following = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None, 3])

    def network(inputs, scope):
        with tf.variable_scope(scope):
            return tf.layers.dense(tf.layers.dense(inputs, 6, tf.nn.relu), 2)

    q, target = network(observation, "online"), network(following, "target")
    online, fixed = tf.global_variables("online"), tf.global_variables("target")
    sync = [a.assign(b) for a, b in zip(fixed, online)]
    chosen = tf.reduce_sum(q * tf.one_hot(action, 2), axis=1)
    goal = tf.stop_gradient(reward + 0.9 * tf.reduce_max(target, axis=1))
    loss = tf.losses.huber_loss(goal, chosen)
    train = tf.train.RMSPropOptimizer(0.01).minimize(loss, var_list=online)
    best = tf.argmax(q, axis=1)
    memory, state = [], random.randn(3)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(sync)
        for step in range(20):
            act = sess.run(best, {observation: state[None]})[0]
            record("act", act)
            fresh = 0.5 * state + 0.5 * random.randn(3) + 0.1 * act
            memory.append((state, act, fresh[0] - 0.1, fresh))
            state = fresh
            if step >= 10:
                picked = [memory[i] for i in random.randint(0, len(memory), 7)]
                s, a, r, f = (np.array(part) for part in zip(*picked))
                feeds = {observation: s, action: a, reward: r, following: f}
                record("loss", sess.run([loss, train], feeds)[0])
            if step % 5 == 4:
                sess.run(sync)
        record_variables(tf, sess, record)


@case()
def actor_and_critic(tf, record, workdir):
    """Policy gradient with a baseline on episodes of different lengths, acting row by row."""
    random = np.random.RandomState(0)
    state = tf.placeholder(tf.float32, [None, 3])
    action, returns = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])
    hidden = tf.layers.dense(state, 6, tf.nn.tanh)
    logits, value = tf.layers.dense(hidden, 2), tf.layers.dense(hidden, 1)[:, 0]
    advantage = returns - value
    mean, variance = tf.nn.moments(advantage, [0])
    scaled = tf.stop_gradient((advantage - mean) / tf.sqrt(variance + 1e-2))
    surprise = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=logits)
    p = tf.nn.softmax(logits)
    entropy = -tf.reduce_mean(tf.reduce_sum(p * tf.log(p), axis=1))
    loss = tf.reduce_mean(surprise * scaled) + 0.5 * tf.reduce_mean(tf.square(advantage)) - 0.01 * entropy
    optimizer = tf.train.AdamOptimizer(0.02)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    clipped, _ = tf.clip_by_global_norm(gradients, 0.5)
    train = optimizer.apply_gradients(zip(clipped, variables))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for length in (9, 4, 11, 1, 6, 7, 13, 2):
            states = random.randn(length, 3)
            actions = [int(sess.run(p, {state: row[None]})[0, 0] < 0.5) for row in states]
            feeds = {state: states, action: actions, returns: np.cumsum(states[::-1, 0])[::-1]}
            record("loss", sess.run([loss, train], feeds)[0])
            record("actions", actions)
        record_variables(tf, sess, record)


@case()
def batches_that_grow(tf, record, workdir):
    """The batch size changes at every step, up and down, within one run signature."""
    features, targets = plane(rows=60, width=4)
    x, y, _, loss, train = model(tf)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        at = 0
        for size in (2, 3, 5, 8, 13, 8, 5, 3, 2, 11):
            feeds = {x: features[at : at + size], y: targets[at : at + size]}
            record("loss", sess.run([loss, train], feeds)[0])
            at += size
        for a, b in batches(17, features, targets):
            record("evaluation", sess.run(loss, {x: a, y: b}))
        record_variables(tf, sess, record)
