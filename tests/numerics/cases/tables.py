"""Strings and lookup tables on the way to the embedding."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches

WORDS = np.array(["ant", "bee", "cat", "dog", "eel", "fox"], dtype=object)


def animals(rows):
    """Words [rows] of which some are unknown, and targets float32 [rows]."""
    random = np.random.RandomState(0)
    chosen = random.randint(0, 8, rows)
    words = np.append(WORDS, ["gnu", "hen"])[chosen]
    return words, (0.3 * chosen).astype(np.float32)


def train_on_ids(tf, ids, target, rows):
    """An embedding, a linear layer and their training op."""
    embedded = tf.nn.embedding_lookup(tf.get_variable("table", [rows, 3]), ids)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(embedded, 1)[:, 0] - target))
    return loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


@case()
def vocabulary_in_the_graph(tf, record, workdir):
    """Fed strings are looked up in a static table with out-of-vocabulary buckets; ids come back as strings."""
    words, values = animals(26)
    word, target = tf.placeholder(tf.string, [None]), tf.placeholder(tf.float32, [None])
    keys = tf.constant(list(WORDS))
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(keys, tf.range(6, dtype=tf.int64)), num_oov_buckets=2
    )
    ids = table.lookup(word)
    names = tf.gather(tf.concat([keys, ["?", "?"]], 0), ids)
    loss, train = train_on_ids(tf, ids, target, 8)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        for _ in range(3):
            for a, b in batches(7, words, values):
                value, found, back, _ = sess.run([loss, ids, names, train], {word: a, target: b})
                record("loss", value)
                record("ids", found)
                record("names", back)
        record_variables(tf, sess, record)


@case()
def vocabulary_file(tf, record, workdir):
    """A vocabulary file as an asset, read by a StaticHashTable in a tf.data pipeline and in the model."""
    words, values = animals(26)
    path = workdir / "vocabulary.txt"
    path.write_text("\n".join(WORDS) + "\n")
    table = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(
            str(path), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        ),
        default_value=6,
    )
    data = tf.data.Dataset.from_tensor_slices((words.astype(str), values)).repeat().batch(7)
    data = data.map(lambda word, value: (table.lookup(word), word, value))
    iterator = tf.data.make_initializable_iterator(data)
    ids, word, target = iterator.get_next()
    same = tf.equal(ids, table.lookup(word))
    loss, train = train_on_ids(tf, ids, target, 7)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        sess.run(iterator.initializer)
        for _ in range(10):
            value, agreed, _ = sess.run([loss, same, train])
            record("loss", value)
            record("agreed", agreed)
        record_variables(tf, sess, record)


@case()
def hashed_strings(tf, record, workdir):
    """String ops of the batch: lower case, join, substring, length, hash buckets."""
    words, values = animals(26)
    word, target = tf.placeholder(tf.string, [None]), tf.placeholder(tf.float32, [None])
    joined = tf.strings.join([tf.strings.lower(word), tf.strings.substr(word, 0, 1)], separator="-")
    ids = tf.strings.to_hash_bucket_fast(joined, 9)
    length = tf.cast(tf.strings.length(joined), tf.float32)
    loss, train = train_on_ids(tf, ids, target + 0.1 * length, 9)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, words, values):
                value, text, _ = sess.run([loss, joined, train], {word: a, target: b})
                record("loss", value)
                record("joined", text)
        record_variables(tf, sess, record)


@case()
def mutable_table(tf, record, workdir):
    """Each step inserts the batch's own keys into a mutable table, once, and looks them up in the next."""
    random = np.random.RandomState(0)
    keys, values = random.permutation(40).astype(np.int64), random.randn(40).astype(np.float32)
    key, value = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None])
    table = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.float32, default_value=0.0, empty_key=-1, deleted_key=-2, name="seen"
    )
    known = table.lookup(key // 2)
    w = tf.get_variable("w", [], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.square(w * (known + value) - 0.5))
    with tf.control_dependencies([known]):
        insert = table.insert(key, value)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    size = table.size()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for a, b in batches(7, keys, values):
            got, found, _, _ = sess.run([loss, known, train, insert], {key: a, value: b})
            record("loss", got)
            record("known", found)
            record("size", sess.run(size))
        record_variables(tf, sess, record)
