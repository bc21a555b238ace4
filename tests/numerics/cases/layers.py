"""tf.layers, most of all batch normalisation and its moving averages."""

from __future__ import annotations

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, blobs, images


@case()
def batch_norm_update_ops(tf, record, workdir):
    """Batch norm with UPDATE_OPS: moving averages are those of the whole batch; evaluation uses them."""
    features, labels = blobs(rows=46, width=5, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.int32, [None])
    training = tf.placeholder(tf.bool, [])
    hidden = tf.layers.dense(x, 6, use_bias=False)
    hidden = tf.nn.relu(tf.layers.batch_normalization(hidden, training=training, momentum=0.7))
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(hidden, 3))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for batch_x, batch_y in batches(13, features, labels):
                record("loss", sess.run([loss, train], {x: batch_x, y: batch_y, training: True})[0])
        record("evaluation", sess.run(loss, {x: features, y: labels, training: False}))
        record_variables(tf, sess, record)


@case()
def fused_batch_norm(tf, record, workdir):
    """A convolution with fused batch norm, training flag known when the graph is built."""
    pixels, labels = images(rows=30, side=6, channels=2, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 6, 6, 2]), tf.placeholder(tf.int32, [None])
    net = tf.layers.conv2d(x, 4, 3, padding="same", use_bias=False)
    net = tf.nn.relu(tf.layers.batch_normalization(net, training=True, momentum=0.5, fused=True))
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(tf.layers.flatten(net), 3))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.MomentumOptimizer(0.02, 0.9).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(2):
            for batch_x, batch_y in batches(7, pixels, labels):
                record("loss", sess.run([loss, train], {x: batch_x, y: batch_y})[0])
        record_variables(tf, sess, record)


@case()
def fused_batch_norm_under_a_fed_flag(tf, record, workdir):
    """Fused batch norm inside tf.cond on the fed training flag: train, then infer with moving averages."""
    pixels, labels = images(rows=20, side=5, channels=1, classes=2)
    x, y = tf.placeholder(tf.float32, [None, 5, 5, 1]), tf.placeholder(tf.int32, [None])
    training = tf.placeholder_with_default(False, [], name="training")
    net = tf.layers.conv2d(x, 3, 3, use_bias=False)
    net = tf.nn.relu(tf.layers.batch_normalization(net, training=training, momentum=0.6))
    logits = tf.layers.dense(tf.reduce_mean(net, [1, 2]), 2)
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for batch_x, batch_y in batches(7, pixels, labels):
                record("loss", sess.run([loss, train], {x: batch_x, y: batch_y, training: True})[0])
        record("logits", sess.run(logits, {x: pixels}))
        record_variables(tf, sess, record)


@case()
def batch_norm_by_moments(tf, record, workdir):
    """Batch norm written out: tf.nn.moments, tf.nn.batch_normalization and an ExponentialMovingAverage."""
    features, labels = blobs(rows=39, width=4, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [None])
    training = tf.placeholder(tf.bool)
    hidden = tf.layers.dense(x, 6, use_bias=False)
    beta = tf.Variable(tf.zeros([6]), name="beta")
    gamma = tf.Variable(tf.ones([6]), name="gamma")
    mean, variance = tf.nn.moments(hidden, [0], name="moments")
    average = tf.train.ExponentialMovingAverage(decay=0.5)

    def with_update():
        with tf.control_dependencies([average.apply([mean, variance])]):
            return tf.identity(mean), tf.identity(variance)

    used = tf.cond(training, with_update, lambda: (average.average(mean), average.average(variance)))
    normed = tf.nn.batch_normalization(hidden, used[0], used[1], beta, gamma, 1e-3)
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(tf.nn.relu(normed), 3))
    train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(2):
            for batch_x, batch_y in batches(10, features, labels):
                record("loss", sess.run([loss, train], {x: batch_x, y: batch_y, training: True})[0])
        record("evaluation", sess.run(loss, {x: features, y: labels, training: False}))
        record_variables(tf, sess, record)


@case(tolerance=3e-5, reason="a last bit of the inputs moves plain TensorFlow's result by up to 9e-6: sums near zero")
def moving_averages_without_training(tf, record, workdir):
    """The update ops are run alone, without an optimizer: state written from the batch is exact too."""
    features, _ = blobs(rows=30, width=4, classes=2)
    x = tf.placeholder(tf.float32, [None, 4])
    out = tf.layers.batch_normalization(x, training=True, momentum=0.5)
    loss = tf.reduce_sum(tf.square(tf.layers.dense(out, 1)))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for batch in batches(7, features):
            sess.run(updates, {x: batch[0]})
            record("loss", sess.run([loss, train], {x: batch[0]})[0])
        record_variables(tf, sess, record)


@case()
def convolutional_network(tf, record, workdir):
    """conv2d, pooling, dropout, flatten and dense, with a regulariser from the collection."""
    tf.get_variable_scope().set_use_resource(True)
    pixels, labels = images(rows=26, side=8, channels=1, classes=4)
    x, y = tf.placeholder(tf.float32, [None, 8, 8, 1]), tf.placeholder(tf.int32, [None])
    training = tf.placeholder(tf.bool, [])
    l2 = tf.keras.regularizers.l2(1e-3)
    net = tf.layers.conv2d(x, 4, 3, activation=tf.nn.relu, kernel_regularizer=l2)
    net = tf.layers.max_pooling2d(net, 2, 2)
    net = tf.layers.conv2d(net, 5, 2, activation=tf.nn.relu, kernel_regularizer=l2)
    net = tf.layers.dropout(tf.layers.flatten(net), 0.25, training=training)
    logits = tf.layers.dense(net, 4)
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits) + tf.losses.get_regularization_loss()
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for batch_x, batch_y in batches(10, pixels, labels):
                record("loss", sess.run([loss, train], {x: batch_x, y: batch_y, training: True})[0])
        record("logits", sess.run(logits, {x: pixels, training: False}))
        record_variables(tf, sess, record)


@case()
def normalisation_of_each_row(tf, record, workdir):
    """Layer norm and group norm by moments over a sample's own dims."""
    pixels, labels = images(rows=20, side=4, channels=4, classes=2)
    x, y = tf.placeholder(tf.float32, [None, 4, 4, 4]), tf.placeholder(tf.int32, [None])
    grouped = tf.reshape(x, [-1, 4, 4, 2, 2])
    mean, variance = tf.nn.moments(grouped, [1, 2, 4], keep_dims=True)
    net = tf.reshape((grouped - mean) / tf.sqrt(variance + 1e-5), tf.shape(x))
    net = tf.layers.dense(tf.layers.flatten(net), 6)
    mean, variance = tf.nn.moments(net, [-1], keep_dims=True)
    gain = tf.get_variable("gain", [6], initializer=tf.ones_initializer())
    net = gain * (net - mean) * tf.rsqrt(variance + 1e-5)
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(net, 2))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for batch_x, batch_y in batches(7, pixels, labels):
                record("loss", sess.run([loss, train], {x: batch_x, y: batch_y})[0])
        record_variables(tf, sess, record)


@case()
def autoencoder_with_transposed_convolution(tf, record, workdir):
    """conv2d_transpose takes its output shape from tf.shape of the batch."""
    pixels, _ = images(rows=20, side=8, channels=1, classes=2)
    x = tf.placeholder(tf.float32, [None, 8, 8, 1])
    code = tf.layers.conv2d(x, 3, 3, strides=2, padding="same", activation=tf.nn.elu)
    first = tf.layers.conv2d_transpose(code, 2, 3, strides=2, padding="same", activation=tf.nn.elu)
    kernel = tf.get_variable("kernel", [3, 3, 1, 2])
    shape = tf.stack([tf.shape(x)[0], 8, 8, 1])
    out = tf.nn.conv2d_transpose(first, kernel, shape, strides=[1, 1, 1, 1])
    loss = tf.reduce_mean(tf.reduce_sum(tf.square(out - x), axis=[1, 2, 3]))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for (batch,) in batches(7, pixels):
                record("loss", sess.run([loss, train], {x: batch})[0])
        record_variables(tf, sess, record)
