"""Small training graphs of many kinds, each built in a graph of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import tensorflow as tf2
import tensorflow.compat.v1 as tf


@contextlib.contextmanager
def new_graph(*, control_flow_v2: bool = False, resource: bool = False) -> Iterator[tf.Graph]:
    """A default graph, with TensorFlow's switches put back afterwards."""
    flow_before, resource_before = tf.control_flow_v2_enabled(), tf.resource_variables_enabled()
    (tf.enable_control_flow_v2 if control_flow_v2 else tf.disable_control_flow_v2)()
    (tf.enable_resource_variables if resource else tf.disable_resource_variables)()
    try:
        with tf.Graph().as_default() as graph:
            yield graph
    finally:
        (tf.enable_control_flow_v2 if flow_before else tf.disable_control_flow_v2)()
        (tf.enable_resource_variables if resource_before else tf.disable_resource_variables)()


def dense(x: tf.Tensor, width: int, name: str) -> tf.Tensor:
    """A dense layer out of plain ops."""
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        kernel = tf.get_variable("kernel", [int(x.shape[-1]), width])
        bias = tf.get_variable("bias", [width], initializer=tf.zeros_initializer())
    return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def mlp_loss(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The loss of a network with one hidden layer."""
    logits = dense(tf.nn.relu(dense(x, 8, "hidden")), 3, "out")
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def batch() -> tuple[tf.Tensor, tf.Tensor]:
    """A fed batch of four features and a class."""
    return tf.placeholder(tf.float32, [None, 4], "x"), tf.placeholder(tf.int32, [None], "labels")


def mlp_adam() -> None:
    """Adam with a decayed learning rate, a saver, an initialiser and a summary."""
    x, labels = batch()
    loss = mlp_loss(x / 255.0, labels)
    tf.summary.scalar("loss", loss)
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.1, step, 10, 0.9)
    tf.train.AdamOptimizer(rate).minimize(loss, global_step=step, name="train")
    tf.train.Saver()
    tf.global_variables_initializer()


def mlp_clipped() -> None:
    """Clipping by global norm between gradients and momentum."""
    x, labels = batch()
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    gradients, variables = zip(*optimizer.compute_gradients(mlp_loss(x, labels)))
    clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
    optimizer.apply_gradients(zip(clipped, variables), name="train")


def mlp_root() -> None:
    """A root as loss: its gradient reads the loss."""
    x, labels = batch()
    out = dense(tf.nn.relu(dense(x, 8, "hidden")), 1, "out")
    loss = tf.sqrt(tf.reduce_mean(tf.square(out[:, 0] - tf.cast(labels, tf.float32))))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")


def mlp_tape() -> None:
    """A gradient tape in graph mode, with weight decay and momentum written out in small ops."""
    x, labels = batch()
    with tf2.GradientTape() as tape:
        loss = mlp_loss(x, labels)
    variables = tf.trainable_variables()
    rate, updates = tf.constant(0.1), []
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
        moment = tf.get_variable(
            variable.op.name.replace("/", "_") + "_moment",
            variable.shape,
            initializer=tf.zeros_initializer(),
            trainable=False,
        )
        moved = tf.assign(moment, 0.9 * moment + 0.1 * gradient)
        updates.append(tf.assign_sub(variable, rate * (moved + 0.01 * variable)))
    tf.group(*updates, name="train")


def gan() -> None:
    """Two losses, two optimizers, two lists of variables; the generator starts from noise."""
    real = tf.placeholder(tf.float32, [None, 4], "real")
    noise = tf.random_normal([6, 2], seed=1)
    fake = dense(tf.nn.tanh(dense(noise, 5, "g/a")), 4, "g/b")
    d_real, d_fake = dense(real, 1, "d/a"), dense(fake, 1, "d/a")
    cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits
    d_loss = tf.reduce_mean(cross_entropy(labels=tf.ones_like(d_real), logits=d_real)) + tf.reduce_mean(
        cross_entropy(labels=tf.zeros_like(d_fake), logits=d_fake)
    )
    g_loss = tf.reduce_mean(cross_entropy(labels=tf.ones_like(d_fake), logits=d_fake))
    for name, loss in (("d", d_loss), ("g", g_loss)):
        optimizer = tf.train.RMSPropOptimizer(0.01, name=f"{name}_rms")
        optimizer.minimize(loss, var_list=tf.trainable_variables(name + "/"), name=f"{name}_train")


def gradient_penalty() -> None:
    """A loss that reads a gradient."""
    x, _ = batch()
    out = dense(tf.nn.tanh(dense(x, 8, "hidden")), 1, "out")
    (slope,) = tf.gradients(out, x)
    loss = tf.reduce_mean(out) + tf.reduce_mean(tf.square(tf.sqrt(tf.reduce_sum(tf.square(slope), 1)) - 1.0))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")


def embedding() -> None:
    """A sparse gradient through two lookups, with Adam."""
    ids = tf.placeholder(tf.int32, [None, 2], "ids")
    table = tf.get_variable("table", [10, 4])
    rows = tf.nn.embedding_lookup(table, ids[:, 0]) * tf.nn.embedding_lookup(table, ids[:, 1])
    tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows)), name="train")


def lstm() -> None:
    """A recurrent network in a v1 loop."""
    x = tf.placeholder(tf.float32, [None, 5, 3], "x")
    lengths = tf.placeholder(tf.int32, [None], "lengths")
    kernel = tf.get_variable("kernel", [3 + 4, 16])
    initial = tf.zeros([tf.shape(x)[0], 4])
    rows = tf.TensorArray(tf.float32, 5).unstack(tf.transpose(x, [1, 0, 2]))

    def body(time: tf.Tensor, cell: tf.Tensor, hidden: tf.Tensor) -> tuple[tf.Tensor, ...]:
        gates = tf.matmul(tf.concat([rows.read(time), hidden], 1), kernel)
        i, j, f, o = tf.split(gates, 4, 1)
        cell_next = cell * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        alive = tf.cast(tf.expand_dims(time < lengths, 1), tf.float32)
        hidden_next = tf.tanh(cell_next) * tf.sigmoid(o)
        return time + 1, cell_next * alive + cell * (1 - alive), hidden_next * alive + hidden * (1 - alive)

    _, _, last = tf.while_loop(lambda time, *_: time < tf.reduce_max(lengths), body, [0, initial, initial])
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(last)), name="train")


def conditional() -> None:
    """A branch in the model."""
    x, labels = batch()
    training = tf.placeholder_with_default(True, [], "training")
    hidden = tf.nn.relu(dense(x, 8, "hidden"))
    hidden = tf.cond(training, lambda: tf.nn.dropout(hidden, rate=0.5, seed=3), lambda: hidden)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, dense(hidden, 3, "out"))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")


def loop_v2() -> None:
    """A loop over the model; in control flow v2 its body is a function of the library."""
    x, _ = batch()
    kernel = tf.get_variable("kernel", [4, 4])
    _, out = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, kernel))), [0, x])
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(out), name="train")


def convolution() -> None:
    """A convolution with batch norm, whose moving averages are updated, fed from a dataset."""
    images = tf.random_uniform([8, 6, 6, 1], seed=1)
    dataset = tf.data.Dataset.from_tensor_slices(images).repeat().batch(4)
    iterator = tf.data.make_initializable_iterator(dataset)
    x = iterator.get_next() * 2.0 - 1.0
    kernel = tf.get_variable("kernel", [3, 3, 1, 2])
    scale, offset = tf.get_variable("scale", [2]), tf.get_variable("offset", [2])
    moving = tf.get_variable("moving_mean", [2], trainable=False)
    y, mean, _ = tf.nn.fused_batch_norm(tf.nn.conv2d(x, kernel, padding="SAME"), scale, offset)
    update = tf.assign_sub(moving, (moving - mean) * 0.1)
    loss = tf.reduce_mean(tf.square(tf.nn.max_pool(y, 2, 2, "VALID")))
    with tf.control_dependencies([update]):
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")


BUILDERS: dict[str, Callable[[], None]] = {
    builder.__name__: builder
    for builder in (
        mlp_adam,
        mlp_clipped,
        mlp_root,
        mlp_tape,
        gan,
        gradient_penalty,
        embedding,
        lstm,
        conditional,
        loop_v2,
        convolution,
    )
}
"""By name."""
