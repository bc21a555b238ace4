"""Graphs that come from files: import_meta_graph, then training."""

from __future__ import annotations

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


def build(tf):
    """A model whose tensors are found by name and collection later."""
    x, y = tf.placeholder(tf.float32, [None, 4], name="x"), tf.placeholder(tf.float32, [None, 1], name="y")
    hidden = tf.layers.dense(x, 5, tf.nn.tanh)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y), name="loss")
    train = tf.train.AdamOptimizer(0.03).minimize(loss, name="train")
    tf.add_to_collection("step", train)
    return x, y, loss, train


def step_through(sess, record, loss, train):
    """One round of uneven batches, fed by name."""
    features, targets = plane(rows=26, width=4)
    for a, b in batches(7, features, targets):
        record("loss", sess.run([loss, train], {"x:0": a, "y:0": b})[0])


def import_and_train(tf, record, workdir):
    """Import the saved graph, restore, and train on by names and collections."""
    with tf.Session() as sess:
        saver = tf.train.import_meta_graph(str(workdir / "model.meta"))
        saver.restore(sess, str(workdir / "model"))
        (train,) = tf.get_collection("step")
        step_through(sess, record, "loss:0", train)
        record_variables(tf, sess, record)


@case(reader=import_and_train)
def imported_and_trained(tf, record, workdir):
    """A script saves its graph; another imports it and goes on training."""
    _, _, loss, train = build(tf)
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        step_through(sess, record, loss, train)
        saver.save(sess, str(workdir / "model"))


@case()
def new_head_on_an_imported_graph(tf, record, workdir):
    """Transfer learning: an imported body, a new layer, and gradients through the imported ops."""
    features, targets = plane(rows=26, width=4)
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.set_random_seed(1)
        build(tf)
        saver = tf.train.Saver()
        sess.run(tf.global_variables_initializer())
        saver.save(sess, str(workdir / "model"))
    saver = tf.train.import_meta_graph(str(workdir / "model.meta"))
    graph = tf.get_default_graph()
    body = graph.get_tensor_by_name("dense/Tanh:0")
    head = tf.get_variable("head", [5, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(body, head) - graph.get_tensor_by_name("y:0")))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    only_head = optimizer.minimize(loss, var_list=[head])
    everything = optimizer.minimize(loss, var_list=[head, *tf.trainable_variables("dense/")])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        saver.restore(sess, str(workdir / "model"))
        for train in (only_head, everything):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {"x:0": a, "y:0": b})[0])
        record_variables(tf, sess, record)


@case()
def graph_def_with_mapped_input(tf, record, workdir):
    """import_graph_def with an input map: the imported model reads the script's own iterator."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        tf.nn.l2_normalize(tf.sin(x) * 2.0, axis=1, name="features")
    data = tf.data.Dataset.from_tensor_slices(plane(rows=23, width=4)).repeat().batch(7)
    x, y = tf.data.make_one_shot_iterator(data).get_next()
    (features,) = tf.import_graph_def(graph.as_graph_def(), {"x:0": x}, ["features:0"], name="fixed")
    loss = tf.reduce_mean(tf.square(tf.layers.dense(features, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)
