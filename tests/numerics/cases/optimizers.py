"""Optimizers of TensorFlow and of scripts' own, clipping, loss scaling, averages of variables."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


def model(tf):
    """Placeholders, and the mean squared error of a two-layer network."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [4, 5])
    b = tf.get_variable("b", [5], initializer=tf.zeros_initializer())
    v = tf.get_variable("v", [5, 1])
    return x, y, tf.reduce_mean(tf.square(tf.matmul(tf.nn.tanh(tf.matmul(x, w) + b), v) - y))


def loop(tf, record, x, y, loss, train, extra=(), each=None, rounds=3):
    """Three rounds of batches of 7, 7 and 6; ``each`` is run after every step."""
    features, targets = plane(rows=20, width=4)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(rounds):
            for a, b in batches(7, features, targets):
                value, _, others = sess.run([loss, train, list(extra)], {x: a, y: b})
                record("loss", value)
                record("extra", others)
                if each is not None:
                    sess.run(each)
        record_variables(tf, sess, record)


@case()
def momentum_and_nesterov(tf, record, workdir):
    """Momentum with Nesterov's correction."""
    x, y, loss = model(tf)
    loop(tf, record, x, y, loss, tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True).minimize(loss))


@case()
def adaptive_family(tf, record, workdir):
    """Adagrad, centred RMSProp and Ftrl, one a variable, then Adadelta on a term of its own."""
    x, y, loss = model(tf)
    variables = tf.trainable_variables()
    optimizers = [
        tf.train.AdagradOptimizer(0.1),
        tf.train.RMSPropOptimizer(0.01, momentum=0.5, centered=True),
        tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    ]
    gradients = tf.tuple(tf.gradients(loss, variables))
    trains = [one.apply_gradients([pair]) for one, pair in zip(optimizers, zip(gradients, variables))]
    with tf.control_dependencies(trains):
        again = tf.train.AdadeltaOptimizer(1.0).minimize(tf.nn.l2_loss(variables[1].read_value()))
    loop(tf, record, x, y, loss, again)


def applied_twice(tf):
    """Placeholders, a loss, and two apply_gradients of one Adam: both multiply the powers of its decay rates."""
    x, y, loss = model(tf)
    optimizer = tf.train.AdamOptimizer(0.01)
    w, b, v = tf.trainable_variables()
    first = optimizer.compute_gradients(loss, [w, b])
    second = [(gradient / 2, variable) for gradient, variable in optimizer.compute_gradients(loss, [v])]
    update = optimizer.apply_gradients(first)
    with tf.control_dependencies([update]):  # else TensorFlow itself loses one of the two products now and then
        return x, y, loss, tf.group(update, optimizer.apply_gradients(second))


def record_powers(tf, record):
    """Record how often the powers were multiplied."""
    x, y, _, train = applied_twice(tf)
    features, targets = plane(rows=20, width=4)
    powers = [variable for variable in tf.global_variables() if "_power" in variable.name]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for a, b in batches(7, features, targets):
            sess.run(train, {x: a, y: b})
            record("powers", sess.run(powers))


@case()
def one_adam_applied_twice_to_resources(tf, record, workdir):
    """Two apply_gradients of one Adam in one run, over variables whose values are read by ops of their own."""
    tf.get_variable_scope().set_use_resource(True)
    record_powers(tf, record)


@case()
def adam_with_decayed_rate(tf, record, workdir):
    """Adam, a global step and an exponentially decayed learning rate, which is fetched."""
    x, y, loss = model(tf)
    step = tf.Variable(0, trainable=False, name="step")
    rate = tf.train.exponential_decay(0.05, step, 2, 0.8, staircase=True)
    train = tf.train.AdamOptimizer(rate).minimize(loss, global_step=step)
    loop(tf, record, x, y, loss, train)


@case()
def piecewise_and_warmup_rate(tf, record, workdir):
    """Linear warm-up into polynomial decay by tf.where on the step, as BERT does it."""
    x, y, loss = model(tf)
    step = tf.train.get_or_create_global_step()
    decayed = tf.train.polynomial_decay(0.1, step, 12, end_learning_rate=0.0)
    done = tf.cast(step, tf.float32)
    rate = tf.where(done < 4.0, 0.1 * done / 4.0, decayed)
    train = tf.train.GradientDescentOptimizer(rate).minimize(loss, global_step=step)
    loop(tf, record, x, y, loss, train)


@case()
def adam_with_weight_decay(tf, record, workdir):
    """AdamW written with tf.assign over m and v variables (BERT's optimizer), under a clipped global norm."""
    x, y, loss = model(tf)
    variables = tf.trainable_variables()
    gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    updates = []
    for gradient, variable in zip(gradients, variables):
        name = variable.op.name
        zeros = {"initializer": tf.zeros_initializer(), "trainable": False}
        m = tf.get_variable(f"{name}/adam_m", variable.shape, **zeros)
        v = tf.get_variable(f"{name}/adam_v", variable.shape, **zeros)
        next_m = 0.9 * m + 0.1 * gradient
        next_v = 0.99 * v + 0.01 * tf.square(gradient)
        update = next_m / (tf.sqrt(next_v) + 1e-6)
        if "b" not in name:
            update += 0.01 * variable
        updates += [variable.assign(variable - 0.02 * update), m.assign(next_m), v.assign(next_v)]
    loop(tf, record, x, y, loss, tf.group(*updates), extra=[norm])


@case()
def lamb(tf, record, workdir):
    """LAMB from tf.assign: the update of each variable is scaled by a ratio of norms."""
    x, y, loss = model(tf)
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    updates = []
    for gradient, variable in zip(gradients, variables):
        m = tf.Variable(tf.zeros(variable.shape), trainable=False)
        v = tf.Variable(tf.zeros(variable.shape), trainable=False)
        next_m = 0.9 * m + 0.1 * gradient
        next_v = 0.99 * v + 0.01 * tf.square(gradient)
        update = next_m / (tf.sqrt(next_v) + 1e-6) + 0.01 * variable
        size, length = tf.norm(variable), tf.norm(update)
        ratio = tf.where(size > 0.0, tf.where(length > 0.0, size / length, 1.0), 1.0)
        updates += [variable.assign_sub(0.02 * ratio * update), m.assign(next_m), v.assign(next_v)]
    loop(tf, record, x, y, loss, tf.group(*updates))


@case()
def clipping_three_ways(tf, record, workdir):
    """One variable's gradient clipped by value, one by norm, one by average norm."""
    x, y, loss = model(tf)
    optimizer = tf.train.GradientDescentOptimizer(0.2)
    pairs = optimizer.compute_gradients(loss)
    clips = [
        lambda g: tf.clip_by_value(g, -0.1, 0.1),
        lambda g: tf.clip_by_norm(g, 0.2),
        lambda g: g / tf.maximum(1.0, tf.norm(g) / 0.3),
    ]
    clipped = [(clip(g), v) for clip, (g, v) in zip(clips, pairs)]
    loop(tf, record, x, y, loss, optimizer.apply_gradients(clipped), extra=[g for g, _ in pairs])


@case()
def clipping_by_global_norm(tf, record, workdir):
    """tf.gradients, clip_by_global_norm, apply_gradients; gradients and their norm are fetched."""
    x, y, loss = model(tf)
    variables = tf.trainable_variables()
    gradients = tf.gradients(loss, variables)
    clipped, norm = tf.clip_by_global_norm(gradients, 0.3)
    train = tf.train.AdamOptimizer(0.02).apply_gradients(zip(clipped, variables))
    loop(tf, record, x, y, loss, train, extra=[norm, *gradients])


@case()
def static_loss_scale(tf, record, workdir):
    """The loss is scaled up, gradients scaled down, and non-finite steps skipped by tf.cond."""
    x, y, loss = model(tf)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    pairs = [(g / 128.0, v) for g, v in optimizer.compute_gradients(loss * 128.0)]
    finite = tf.reduce_all([tf.reduce_all(tf.is_finite(g)) for g, _ in pairs])
    train = tf.cond(finite, lambda: optimizer.apply_gradients(pairs), tf.no_op)
    loop(tf, record, x, y, loss, train, extra=[finite])


@case()
def dynamic_loss_scale(tf, record, workdir):
    """A scale variable that doubles after good steps and halves after overflow, with the step masked out."""
    x, y, loss = model(tf)
    zero = tf.zeros_initializer()
    scale = tf.get_variable("scale", [], initializer=tf.constant_initializer(2.0**126), trainable=False)
    good = tf.get_variable("good", [], tf.int32, zero, trainable=False)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    pairs = optimizer.compute_gradients(loss * scale.read_value())
    with tf.control_dependencies([g for g, _ in pairs]):
        used = scale.read_value()
    finite = tf.reduce_all([tf.reduce_all(tf.is_finite(g)) for g, _ in pairs])
    safe = [(tf.where(finite, g / used, tf.zeros_like(g)), v) for g, v in pairs]
    with tf.control_dependencies([optimizer.apply_gradients(safe)]):
        count = tf.assign(good, tf.where(finite, good + 1, 0))
        grow = tf.where(tf.equal(count % 3, 0), 2.0, 1.0)
        train = tf.assign(scale, used * tf.where(finite, grow, 0.25))
    loop(tf, record, x, y, loss, train.op, extra=[finite])


@case()
def moving_average_and_its_saver(tf, record, workdir):
    """ExponentialMovingAverage of the weights; its Saver restores the shadows in place of the weights."""
    features, targets = plane(rows=20, width=4)
    x, y, loss = model(tf)
    average = tf.train.ExponentialMovingAverage(0.7)
    with tf.control_dependencies([tf.train.GradientDescentOptimizer(0.2).minimize(loss)]):
        train = average.apply(tf.trainable_variables())
    saver = tf.train.Saver()
    averaged = tf.train.Saver(average.variables_to_restore())
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record("last", sess.run(loss, {x: features, y: targets}))
        path = saver.save(sess, str(workdir / "model"))
        averaged.restore(sess, path)
        record("averaged", sess.run(loss, {x: features, y: targets}))
        record_variables(tf, sess, record)


@case()
def accumulated_gradients(tf, record, workdir):
    """Gradients are summed in variables over three runs and applied in a fourth without data."""
    features, targets = plane(rows=40, width=4)
    x, y, loss = model(tf)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    pairs = optimizer.compute_gradients(loss)
    sums = [tf.Variable(tf.zeros(v.shape), trainable=False) for _, v in pairs]
    add = [s.assign_add(g) for s, (g, _) in zip(sums, pairs)]
    clear = [s.assign(tf.zeros_like(s)) for s in sums]
    apply = optimizer.apply_gradients([(s / 3.0, v) for s, (_, v) in zip(sums, pairs)])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(4):
            sess.run(clear)
            for part in range(3):
                rows = slice(7 * step + part, 7 * step + part + 7)
                record("loss", sess.run([loss, add], {x: features[rows], y: targets[rows]})[0])
            sess.run(apply)
        record_variables(tf, sess, record)


@case()
def noise_in_the_update(tf, record, workdir):
    """Stochastic gradient Langevin dynamics: noise of a variable's shape, one draw for all devices."""
    x, y, loss = model(tf)
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
    train = [
        v.assign_sub(0.05 * g + 0.02 * tf.random_normal(v.shape, seed=i))
        for i, (g, v) in enumerate(zip(gradients, variables))
    ]
    loop(tf, record, x, y, loss, train)


@case()
def user_subclass(tf, record, workdir):
    """A subclass of tf.train.Optimizer with slots, dense and resource updates."""

    class SignMomentum(tf.train.Optimizer):
        def __init__(self, rate):
            super().__init__(use_locking=False, name="SignMomentum")
            self._rate = rate

        def _create_slots(self, var_list):
            for variable in var_list:
                self._zeros_slot(variable, "m", self._name)

        def _apply_dense(self, grad, var):
            m = self.get_slot(var, "m")
            with tf.control_dependencies([tf.assign(m, 0.8 * m + 0.2 * grad)]):
                return tf.assign_sub(var, self._rate * tf.tanh(10.0 * m.read_value())).op

        _resource_apply_dense = _apply_dense

    x, y, loss = model(tf)
    loop(tf, record, x, y, loss, SignMomentum(0.02).minimize(loss))


@case()
def ratio_of_variables(tf, record, workdir):
    """A trust-region step: the rate is a function of the loss and of the gradient's norm (Polyak's step)."""
    x, y, loss = model(tf)
    variables = tf.trainable_variables()
    gradients = tf.gradients(loss, variables)
    rate = tf.minimum(0.5 * loss / (tf.square(tf.global_norm(gradients)) + 1e-8), 0.3)
    train = tf.train.GradientDescentOptimizer(rate).apply_gradients(zip(gradients, variables))
    loop(tf, record, x, y, loss, train, extra=[rate])


@case()
def frozen_and_twice_trained(tf, record, workdir):
    """Two learning rates over two var_lists in one train op, a third variable frozen."""
    x, y, loss = model(tf)
    w, _, v = tf.trainable_variables()
    gradients = tf.gradients(loss, [w, v], gate_gradients=True)
    with tf.control_dependencies(gradients):
        first = tf.train.GradientDescentOptimizer(0.05).apply_gradients([(tf.identity(gradients[0]), w)])
        second = tf.train.AdamOptimizer(0.01).apply_gradients([(tf.identity(gradients[1]), v)])
    loop(tf, record, x, y, loss, tf.group(first, second))


@case()
def colocated_and_aggregated(tf, record, workdir):
    """Gradients with colocation, gate_gradients and another aggregation method."""
    x, y, loss = model(tf)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    train = optimizer.minimize(
        loss + tf.square(loss),
        gate_gradients=tf.train.Optimizer.GATE_GRAPH,
        aggregation_method=tf.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N,
        colocate_gradients_with_ops=True,
        grad_loss=tf.constant(0.5),
    )
    loop(tf, record, x, y, loss, train)


@case()
def averaged_by_the_script(tf, record, workdir):
    """A target network is moved towards the trained one by assign ops in a run of its own."""
    x, y, loss = model(tf)
    variables = tf.trainable_variables()
    targets = [tf.Variable(v.initialized_value(), trainable=False) for v in variables]
    follow = [t.assign(0.9 * t + 0.1 * v) for t, v in zip(targets, variables)]
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    loop(tf, record, x, y, loss, train, each=follow)
    record("variables", np.array(len(targets)))
