"""Savers: names, subsets, several checkpoints, and files that cross between plain TensorFlow and Whale."""

from __future__ import annotations

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


def model(tf):
    """Placeholders, loss and an Adam training op with its slots."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    hidden = tf.layers.dense(x, 5, tf.nn.tanh, name="hidden")
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1, name="output") - y))
    step = tf.train.get_or_create_global_step()
    return x, y, loss, tf.train.AdamOptimizer(0.03).minimize(loss, global_step=step)


def train_on(tf, sess, record, x, y, loss, train):
    """One round of uneven batches."""
    features, targets = plane(rows=26, width=4)
    for a, b in batches(7, features, targets):
        record("loss", sess.run([loss, train], {x: a, y: b})[0])


def go_on(tf, record, workdir):
    """Restore the latest checkpoint and train on."""
    x, y, loss, train = model(tf)
    with tf.Session() as sess:
        tf.train.Saver().restore(sess, tf.train.latest_checkpoint(str(workdir)))
        train_on(tf, sess, record, x, y, loss, train)
        record_variables(tf, sess, record)


@case(reader=go_on)
def written_and_resumed(tf, record, workdir):
    """Train, save, and let another script resume, optimizer slots and global step included."""
    x, y, loss, train = model(tf)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        train_on(tf, sess, record, x, y, loss, train)
        tf.train.Saver().save(sess, str(workdir / "model"), global_step=4)


def read_names(tf, record, workdir):
    """List and read the tensors of the newest checkpoint file without a session."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(workdir)))
    for name in sorted(reader.get_variable_to_shape_map()):
        record(name, reader.get_tensor(name))


@case(reader=read_names)
def kept_and_named(tf, record, workdir):
    """max_to_keep, a global step in the name, and a Saver over a dict of new names."""
    x, y, loss, train = model(tf)
    names = {f"renamed/{v.op.name}": v for v in tf.trainable_variables()}
    saver, renamed = tf.train.Saver(max_to_keep=2), tf.train.Saver(names)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            train_on(tf, sess, record, x, y, loss, train)
            saver.save(sess, str(workdir / "model"), tf.train.get_global_step())
        record("kept", sorted(path.name for path in workdir.glob("model-*.index")))
        renamed.save(sess, str(workdir / "renamed"))


@case()
def restored_in_part(tf, record, workdir):
    """Fine-tuning: some weights come from a checkpoint by init_from_checkpoint, the rest start anew."""
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.set_random_seed(1)
        x, y, loss, train = model(tf)
        sess.run(tf.global_variables_initializer())
        train_on(tf, sess, record, x, y, loss, train)
        path = tf.train.Saver().save(sess, str(workdir / "model"))
    x, y, loss, train = model(tf)
    tf.train.init_from_checkpoint(path, {"hidden/": "hidden/"})
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        train_on(tf, sess, record, x, y, loss, train)
        record_variables(tf, sess, record)


@case()
def restored_in_the_midst(tf, record, workdir):
    """Save, go on, restore the best and go on again within one session; exact return to the saved values."""
    x, y, loss, train = model(tf)
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        train_on(tf, sess, record, x, y, loss, train)
        before = sess.run(tf.trainable_variables())
        path = saver.save(sess, str(workdir / "best"))
        train_on(tf, sess, record, x, y, loss, train)
        saver.restore(sess, path)
        after = sess.run(tf.trainable_variables())
        record("same", [bool((a == b).all()) for a, b in zip(before, after)])
        train_on(tf, sess, record, x, y, loss, train)
        record_variables(tf, sess, record)


def resume_objects(tf, record, workdir):
    """Restore an object-based checkpoint."""
    x, y, loss, train = model(tf)
    hidden, output = tf.trainable_variables("hidden"), tf.trainable_variables("output")
    checkpoint = tf.train.Checkpoint(a=hidden[0], b=hidden[1], c=output[0], d=output[1])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        checkpoint.restore(tf.train.latest_checkpoint(str(workdir))).assert_consumed().run_restore_ops(sess)
        train_on(tf, sess, record, x, y, loss, train)
        record_variables(tf, sess, record)


@case(reader=resume_objects)
def object_based(tf, record, workdir):
    """tf.train.Checkpoint in graph mode, over resource variables."""
    tf.get_variable_scope().set_use_resource(True)
    x, y, loss, train = model(tf)
    hidden, output = tf.trainable_variables("hidden"), tf.trainable_variables("output")
    checkpoint = tf.train.Checkpoint(a=hidden[0], b=hidden[1], c=output[0], d=output[1])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        train_on(tf, sess, record, x, y, loss, train)
        checkpoint.save(str(workdir / "objects"), session=sess)
