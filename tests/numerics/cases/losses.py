"""Losses that are not a plain mean over rows: weighted, masked, ratios, roots, pairs, sampled, mixed."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, blobs, plane, sentences


def fit(tf, record, loss, feeds, size=7, optimizer=None, fetches=()):
    """Train on ``feeds`` (placeholder to array) in uneven batches; record the loss and other fetches."""
    optimizer = optimizer or tf.train.GradientDescentOptimizer(0.1)
    train = optimizer.minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for arrays in batches(size, *feeds.values()):
                value, _, others = sess.run([loss, train, list(fetches)], dict(zip(feeds, arrays)))
                record("loss", value)
                record("fetched", others)
        record_variables(tf, sess, record)


def regression(tf, rows=23):
    """Placeholders x [batch, 4], y and weight [batch, 1], an output, and their feeds."""
    features, targets = plane(rows=rows, width=4)
    weights = np.random.RandomState(3).uniform(0, 2, (rows, 1)).astype(np.float32)
    weights[::3] = 0.0
    x, y, weight = (tf.placeholder(tf.float32, [None, n]) for n in (4, 1, 1))
    hidden = tf.layers.dense(x, 5, tf.nn.tanh)
    return x, y, weight, tf.layers.dense(hidden, 1), {x: features, y: targets, weight: weights}


@case()
def weighted_by_row(tf, record, workdir):
    """tf.losses with weights: a sum divided by the number of non-zero weights in the whole batch."""
    _, y, weight, output, feeds = regression(tf)
    fit(tf, record, tf.losses.mean_squared_error(y, output, weights=weight), feeds)


@case()
def every_reduction(tf, record, workdir):
    """All reductions of tf.losses, added to one loss."""
    _, y, weight, output, feeds = regression(tf)
    kinds = [
        tf.losses.Reduction.SUM,
        tf.losses.Reduction.MEAN,
        tf.losses.Reduction.SUM_OVER_BATCH_SIZE,
        tf.losses.Reduction.SUM_OVER_NONZERO_WEIGHTS,
    ]
    parts = [tf.losses.absolute_difference(y, output, weights=weight, reduction=kind) for kind in kinds]
    parts.append(tf.reduce_mean(tf.losses.huber_loss(y, output, reduction=tf.losses.Reduction.NONE)))
    fit(tf, record, tf.add_n([0.2 * part for part in parts]), feeds, fetches=parts)


@case()
def family_of_tf_losses(tf, record, workdir):
    """Hinge, log, cosine, sigmoid with smoothing and mean pairwise squared error, from the LOSSES collection."""
    features, labels = blobs(rows=23, width=4, classes=2)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [None])
    output = tf.layers.dense(x, 2)
    one_hot = tf.one_hot(y, 2)
    tf.losses.hinge_loss(one_hot, output)
    tf.losses.log_loss(one_hot, tf.nn.sigmoid(output), weights=0.5)
    tf.losses.sigmoid_cross_entropy(one_hot, output, label_smoothing=0.1)
    tf.losses.softmax_cross_entropy(one_hot, output, weights=tf.cast(y + 1, tf.float32))
    tf.losses.cosine_distance(tf.nn.l2_normalize(one_hot, 1), tf.nn.l2_normalize(output, 1), axis=1)
    tf.losses.mean_pairwise_squared_error(one_hot, output, weights=0.01)
    parts = tf.losses.get_losses()
    optimizer = tf.train.GradientDescentOptimizer(0.02)
    fit(tf, record, tf.losses.get_total_loss(), {x: features, y: labels}, optimizer=optimizer, fetches=parts)


@case()
def averaged_over_tokens(tf, record, workdir):
    """The loss of a language model divided by the number of tokens in the whole batch."""
    tokens, lengths = sentences(rows=23, steps=6, vocabulary=9)
    x, length = tf.placeholder(tf.int32, [None, 6]), tf.placeholder(tf.int32, [None])
    embedded = tf.nn.embedding_lookup(tf.get_variable("table", [9, 4]), x[:, :-1])
    logits = tf.layers.dense(embedded, 9)
    mask = tf.sequence_mask(length - 1, 5, dtype=tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=x[:, 1:], logits=logits)
    loss = tf.reduce_sum(losses * mask) / (tf.reduce_sum(mask) + 1e-5)
    fit(tf, record, loss, {x: tokens, length: lengths}, fetches=[tf.exp(loss), tf.reduce_sum(mask)])


@case()
def boolean_mask_of_rows(tf, record, workdir):
    """Rows are dropped by boolean_mask before the mean: devices keep different numbers of rows."""
    _, y, weight, output, feeds = regression(tf)
    kept = tf.boolean_mask(tf.square(output - y)[:, 0], weight[:, 0] > 0.5)
    fit(tf, record, tf.reduce_mean(kept), feeds, fetches=[tf.size(kept), kept])


@case()
def root_of_the_mean(tf, record, workdir):
    """RMSE: a square root of a mean over the batch."""
    _, y, _, output, feeds = regression(tf)
    fit(tf, record, tf.sqrt(tf.reduce_mean(tf.square(output - y))), feeds)


@case(
    tolerance=2e-3, reason="a last bit of the inputs moves plain TensorFlow's result by up to 3.6e-3: nearly equal sums"
)
def correlation(tf, record, workdir):
    """Negative Pearson correlation and explained variance: ratios of moments of the batch."""
    _, y, _, output, feeds = regression(tf)
    centred, target = output - tf.reduce_mean(output), y - tf.reduce_mean(y)
    covariance = tf.reduce_mean(centred * target)
    scale = tf.sqrt(tf.reduce_mean(tf.square(centred)) * tf.reduce_mean(tf.square(target)) + 1e-6)
    fit(tf, record, 1.0 - covariance / scale, feeds, fetches=[covariance])


@case()
def dice(tf, record, workdir):
    """Dice and focal losses over the pixels of a batch of masks."""
    random = np.random.RandomState(0)
    pixels = random.randn(20, 4, 4, 2).astype(np.float32)
    masks = (pixels[..., :1] > 0).astype(np.float32)
    x, y = tf.placeholder(tf.float32, [None, 4, 4, 2]), tf.placeholder(tf.float32, [None, 4, 4, 1])
    p = tf.nn.sigmoid(tf.layers.conv2d(x, 1, 3, padding="same"))
    overlap = (2 * tf.reduce_sum(p * y) + 1.0) / (tf.reduce_sum(p) + tf.reduce_sum(y) + 1.0)
    focal = -tf.reduce_mean(y * tf.square(1 - p) * tf.log(p) + (1 - y) * tf.square(p) * tf.log(1 - p))
    fit(tf, record, 1.0 - overlap + focal, {x: pixels, y: masks})


@case()
def contrastive_over_the_batch(tf, record, workdir):
    """In-batch negatives: every row is compared with every other row of the whole batch."""
    features, _ = plane(rows=23, width=4)
    x = tf.placeholder(tf.float32, [None, 4])
    left = tf.nn.l2_normalize(tf.layers.dense(x, 3), 1)
    right = tf.nn.l2_normalize(tf.layers.dense(x * 0.9 + 0.1, 3), 1)
    logits = tf.matmul(left, right, transpose_b=True) / 0.5
    labels = tf.range(tf.shape(x)[0])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    fit(tf, record, loss, {x: features}, fetches=[logits])


@case()
def triplets_in_the_batch(tf, record, workdir):
    """Batch-hard triplets: the farthest row of the same class and the nearest of another."""
    features, labels = blobs(rows=26, width=4, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [None])
    code = tf.layers.dense(x, 3)
    squares = tf.reduce_sum(tf.square(code), 1)
    distances = squares[:, None] + squares[None, :] - 2 * tf.matmul(code, code, transpose_b=True)
    same = tf.equal(y[:, None], y[None, :])
    far = tf.reduce_max(tf.where(same, distances, tf.zeros_like(distances)), 1)
    near = tf.reduce_min(tf.where(same, 1e3 * tf.ones_like(distances), distances), 1)
    loss = tf.reduce_mean(tf.nn.softplus(far - near))
    fit(tf, record, loss, {x: features, y: labels}, size=10, optimizer=tf.train.GradientDescentOptimizer(0.02))


@case()
def penalties_beside_a_sum(tf, record, workdir):
    """L2 terms of the weights beside a loss that is a sum over rows: the terms are counted once."""
    tf.get_variable_scope().set_use_resource(True)
    _, y, _, output, feeds = regression(tf)
    penalty = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if "kernel" in v.name])
    loss = tf.reduce_sum(tf.square(output - y)) + 0.3 * penalty
    fit(tf, record, loss, feeds, optimizer=tf.train.GradientDescentOptimizer(0.01), fetches=[penalty])


@case()
def penalty_on_activations(tf, record, workdir):
    """KL sparsity on the mean activation of each hidden unit, and a batch variance term."""
    features, _ = plane(rows=23, width=4)
    x = tf.placeholder(tf.float32, [None, 4])
    hidden = tf.layers.dense(x, 6, tf.nn.sigmoid)
    rho = tf.reduce_mean(hidden, axis=0)
    sparsity = tf.reduce_sum(0.2 * tf.log(0.2 / rho) + 0.8 * tf.log(0.8 / (1 - rho)))
    error = tf.reduce_mean(tf.reduce_sum(tf.square(tf.layers.dense(hidden, 4) - x), 1))
    _, variance = tf.nn.moments(hidden, [0])
    loss = error + 0.1 * sparsity - 0.1 * tf.reduce_sum(tf.sqrt(variance + 1e-4))
    fit(tf, record, loss, {x: features}, fetches=[rho])


@case()
def masked_words_and_next_sentence(tf, record, workdir):
    """BERT's pretraining loss: a masked mean over gathered positions plus a mean over rows."""
    random = np.random.RandomState(0)
    tokens = random.randint(0, 11, (20, 6)).astype(np.int32)
    positions = np.sort(random.randint(0, 6, (20, 2)), axis=1).astype(np.int32)
    weights = (random.uniform(size=(20, 2)) > 0.3).astype(np.float32)
    following = random.randint(0, 2, 20).astype(np.int32)
    x, at = tf.placeholder(tf.int32, [None, 6]), tf.placeholder(tf.int32, [None, 2])
    weight, y = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.int32, [None])
    table = tf.get_variable("table", [11, 4])
    hidden = tf.layers.dense(tf.nn.embedding_lookup(table, x), 4, tf.nn.tanh)
    flat = tf.reshape(hidden, [-1, 4])
    offsets = tf.reshape(tf.range(0, tf.shape(x)[0], dtype=tf.int32) * 6, [-1, 1])
    picked = tf.gather(flat, tf.reshape(at + offsets, [-1]))
    bias = tf.get_variable("bias", [11], initializer=tf.zeros_initializer())
    logs = tf.nn.log_softmax(tf.matmul(picked, table, transpose_b=True) + bias)
    labels = tf.reshape(tf.batch_gather(x, at), [-1])
    each = -tf.reduce_sum(logs * tf.one_hot(labels, 11), axis=-1)
    flat_weight = tf.reshape(weight, [-1])
    masked = tf.reduce_sum(flat_weight * each) / (tf.reduce_sum(flat_weight) + 1e-5)
    next_logs = tf.nn.log_softmax(tf.layers.dense(hidden[:, 0], 2))
    following_loss = tf.reduce_mean(-tf.reduce_sum(tf.one_hot(y, 2) * next_logs, axis=-1))
    feeds = {x: tokens, at: positions, weight: weights, y: following}
    fit(tf, record, masked + following_loss, feeds, optimizer=tf.train.AdamOptimizer(0.02), fetches=[masked, each])


@case()
def noise_contrastive(tf, record, workdir):
    """tf.nn.nce_loss: negative samples are drawn once for the whole batch."""
    random = np.random.RandomState(0)
    words, context = random.randint(0, 20, 26).astype(np.int32), random.randint(0, 20, (26, 1)).astype(np.int64)
    x, y = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int64, [None, 1])
    embedded = tf.nn.embedding_lookup(tf.get_variable("table", [20, 4]), x)
    weights = tf.get_variable("weights", [20, 4])
    biases = tf.get_variable("biases", [20], initializer=tf.zeros_initializer())
    losses = tf.nn.nce_loss(weights, biases, y, embedded, num_sampled=5, num_classes=20)
    fit(tf, record, tf.reduce_mean(losses), {x: words, y: context}, fetches=[losses])


@case()
def sampled_softmax(tf, record, workdir):
    """tf.nn.sampled_softmax_loss with a sampler made by the script."""
    random = np.random.RandomState(0)
    words, context = random.randint(0, 20, 26).astype(np.int32), random.randint(0, 20, (26, 1)).astype(np.int64)
    x, y = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int64, [None, 1])
    embedded = tf.nn.embedding_lookup(tf.get_variable("table", [20, 4]), x)
    weights = tf.get_variable("weights", [20, 4])
    biases = tf.get_variable("biases", [20], initializer=tf.zeros_initializer())
    sampler = tf.nn.log_uniform_candidate_sampler(y, 1, 6, True, 20, seed=4)
    losses = tf.nn.sampled_softmax_loss(
        weights, biases, y, embedded, num_sampled=6, num_classes=20, sampled_values=sampler
    )
    fit(tf, record, tf.reduce_sum(losses), {x: words, y: context}, fetches=[losses])


@case()
def hard_examples(tf, record, workdir):
    """Online hard mining: the mean of the k largest losses of the whole batch."""
    _, y, _, output, feeds = regression(tf)
    losses = tf.reshape(tf.square(output - y), [-1])
    hardest, which = tf.nn.top_k(losses, k=tf.maximum(1, tf.size(losses) // 2))
    fit(tf, record, tf.reduce_mean(hardest), feeds, fetches=[which])


@case()
def static_mean_and_sum_per_row(tf, record, workdir):
    """The mean of sums per row, divided once more by a constant, plus an entropy with the opposite sign."""
    features, labels = blobs(rows=21, width=4, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [None])
    logits = tf.layers.dense(x, 3)
    p = tf.nn.softmax(logits)
    entropy = -tf.reduce_sum(p * tf.log(p + 1e-8), axis=1)
    squared = tf.reduce_sum(tf.square(p - tf.one_hot(y, 3)), axis=1)
    loss = tf.reduce_mean(squared) / 3.0 - 0.01 * tf.reduce_mean(entropy)
    loss += tf.reduce_sum(squared) / tf.cast(tf.shape(x)[0], tf.float32)
    fit(tf, record, loss, {x: features, y: labels})


@case(cut=False, reason="labels are a sparse tensor, whose rows are not a dim of its arrays")
def connectionist(tf, record, workdir):
    """tf.nn.ctc_loss over sparse labels made in the graph."""
    random = np.random.RandomState(0)
    waves = random.randn(14, 8, 3).astype(np.float32)
    text = random.randint(0, 4, (14, 3)).astype(np.int32)
    x, y = tf.placeholder(tf.float32, [None, 8, 3]), tf.placeholder(tf.int32, [None, 3])
    where = tf.where(y > 0)
    labels = tf.SparseTensor(where, tf.gather_nd(y, where) - 1, tf.shape(y, out_type=tf.int64))
    logits = tf.transpose(tf.layers.dense(x, 5), [1, 0, 2])
    lengths = tf.fill([tf.shape(x)[0]], 8)
    losses = tf.nn.ctc_loss(labels, logits, lengths, ignore_longer_outputs_than_inputs=True)
    fit(tf, record, tf.reduce_mean(losses), {x: waves, y: text}, size=5)
