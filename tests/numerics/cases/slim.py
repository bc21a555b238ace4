"""Models written with tf_slim (TensorFlow 2.15; there is none for 2.21)."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, blobs, images

ONLY = ("2.15",)


@case(tf_versions=ONLY)
def arg_scope_network(tf, record, workdir):
    """A small convnet under arg_scope with weight decay, batch norm and create_train_op."""
    import tf_slim as slim

    tf.get_variable_scope().set_use_resource(True)
    pixels, labels = images(rows=27, side=8, channels=1, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 8, 8, 1]), tf.placeholder(tf.int64, [None])
    with slim.arg_scope(
        [slim.conv2d, slim.fully_connected],
        weights_regularizer=slim.l2_regularizer(1e-3),
        normalizer_fn=tf.layers.batch_normalization,
        normalizer_params={"training": True, "momentum": 0.7},
    ):
        net = slim.repeat(x, 2, slim.conv2d, 4, [3, 3], scope="conv")
        net = slim.max_pool2d(net, [2, 2], scope="pool")
        net = slim.fully_connected(slim.flatten(net), 6, scope="hidden")
        logits = slim.fully_connected(net, 3, activation_fn=None, normalizer_fn=None, scope="logits")
    tf.losses.sparse_softmax_cross_entropy(y, logits)
    total = tf.losses.get_total_loss()
    train = slim.learning.create_train_op(total, tf.train.GradientDescentOptimizer(0.1))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for batch_x, batch_y in batches(10, pixels, labels):
                record("loss", sess.run(train, {x: batch_x, y: batch_y}))
        record_variables(tf, sess, record)


@case(tf_versions=ONLY)
def residual_network(tf, record, workdir):
    """A bottleneck ResNet of slim.conv2d under nested arg_scopes, trained and then evaluated with shared weights."""
    import tf_slim as slim

    tf.get_variable_scope().set_use_resource(True)
    pixels, labels = images(rows=14, side=8, channels=2, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 8, 8, 2]), tf.placeholder(tf.int64, [None])

    @slim.add_arg_scope
    def bottleneck(net, depth, stride, scope=None):
        with tf.variable_scope(scope, "unit", [net]):
            shortcut = slim.conv2d(net, depth, [1, 1], stride=stride, activation_fn=None, scope="shortcut")
            residual = slim.conv2d(net, depth // 2, [1, 1], scope="conv1")
            residual = slim.conv2d(residual, depth // 2, [3, 3], stride=stride, scope="conv2")
            residual = slim.conv2d(residual, depth, [1, 1], activation_fn=None, scope="conv3")
            return tf.nn.relu(shortcut + residual)

    def network(training, reuse):
        norm = {"training": training, "momentum": 0.8}
        with (
            tf.variable_scope("resnet", reuse=reuse),
            slim.arg_scope(
                [slim.conv2d],
                weights_regularizer=slim.l2_regularizer(1e-4),
                weights_initializer=slim.variance_scaling_initializer(),
                normalizer_fn=tf.layers.batch_normalization,
                normalizer_params=norm,
            ),
        ):
            net = slim.conv2d(x, 4, [3, 3], scope="root")
            with slim.arg_scope([bottleneck], stride=2):
                net = bottleneck(net, 4, scope="unit1")
                net = bottleneck(net, 6, scope="unit2")
            return slim.fully_connected(tf.reduce_mean(net, [1, 2]), 3, activation_fn=None, scope="logits")

    tf.losses.sparse_softmax_cross_entropy(y, network(True, None))
    loss = tf.losses.get_total_loss()
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
    evaluation = network(False, True)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for batch_x, batch_y in batches(5, pixels, labels):
                record("loss", sess.run([loss, train], {x: batch_x, y: batch_y})[0])
        record("logits", sess.run(evaluation, {x: pixels}))
        record_variables(tf, sess, record)


@case(tf_versions=ONLY)
def learning_loop(tf, record, workdir):
    """slim.learning.train runs the whole loop itself, with a Supervisor inside."""
    import tf_slim as slim

    features, labels = blobs(rows=30, width=4, classes=3)
    data = tf.data.Dataset.from_tensor_slices((features, labels)).repeat().batch(7)
    x, y = tf.data.make_one_shot_iterator(data).get_next()
    logits = slim.stack(x, slim.fully_connected, [5, 4], scope="stack")
    logits = slim.fully_connected(logits, 3, activation_fn=None, scope="logits")
    loss = slim.losses.sparse_softmax_cross_entropy(logits, y)
    train = slim.learning.create_train_op(loss, tf.train.AdamOptimizer(0.02))
    final = slim.learning.train(
        train, str(workdir), number_of_steps=10, save_summaries_secs=0, save_interval_secs=0, log_every_n_steps=100
    )
    record("loss", final)
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(workdir)))
    for name in sorted(reader.get_variable_to_shape_map()):
        record(name, reader.get_tensor(name))


@case(tf_versions=ONLY)
def dropout_and_one_hot(tf, record, workdir):
    """slim.dropout, slim.one_hot_encoding and slim.separable_conv2d in one model."""
    import tf_slim as slim

    pixels, labels = images(rows=20, side=6, channels=2, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 6, 6, 2]), tf.placeholder(tf.int64, [None])
    net = slim.separable_conv2d(x, 4, [3, 3], depth_multiplier=1, scope="separable")
    net = slim.dropout(slim.flatten(net), 0.8, is_training=True, scope="dropout")
    logits = slim.fully_connected(net, 3, activation_fn=None, scope="logits")
    loss = tf.losses.softmax_cross_entropy(slim.one_hot_encoding(y, 3), logits)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for batch_x, batch_y in batches(7, pixels, labels.astype(np.int64)):
                record("loss", sess.run([loss, train], {x: batch_x, y: batch_y})[0])
        record_variables(tf, sess, record)
