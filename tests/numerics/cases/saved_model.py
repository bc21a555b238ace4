"""SavedModels written after training and loaded again, by plain TensorFlow or under Whale."""

from __future__ import annotations

from tests.numerics.case import case
from tests.numerics.data import batches, blobs


def model(tf):
    """A classifier with dropout and a default for its training flag."""
    x, y = tf.placeholder(tf.float32, [None, 4], name="x"), tf.placeholder(tf.int32, [None], name="y")
    training = tf.placeholder_with_default(False, [], name="training")
    hidden = tf.layers.dropout(tf.layers.dense(x, 6, tf.nn.relu), 0.3, training=training)
    logits = tf.layers.dense(hidden, 3)
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    return x, y, training, logits, loss, tf.train.GradientDescentOptimizer(0.2).minimize(loss)


def train_on(sess, record, x, y, training, loss, train):
    """Two rounds of uneven batches."""
    features, labels = blobs(rows=23, width=4, classes=3)
    for _ in range(2):
        for a, b in batches(7, features, labels):
            record("loss", sess.run([loss, train], {x: a, y: b, training: True})[0])


def predict(tf, record, workdir):
    """Load the SavedModel and predict through its signature, whole and row by row."""
    features, _ = blobs(rows=11, width=4, classes=3, seed=2)
    with tf.Session() as sess:
        loaded = tf.saved_model.loader.load(sess, [tf.saved_model.tag_constants.SERVING], str(workdir / "export"))
        signature = loaded.signature_def["serving_default"]
        name = signature.inputs["x"].name
        for key in sorted(signature.outputs):
            record(key, sess.run(signature.outputs[key].name, {name: features}))
            record(key, [sess.run(signature.outputs[key].name, {name: features[i : i + 1]}) for i in range(3)])


@case(reader=predict)
def simple_save(tf, record, workdir):
    """tf.saved_model.simple_save after training."""
    x, y, training, logits, loss, train = model(tf)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        train_on(sess, record, x, y, training, loss, train)
        outputs = {"classes": tf.argmax(logits, 1), "probabilities": tf.nn.softmax(logits)}
        tf.saved_model.simple_save(sess, str(workdir / "export"), {"x": x}, outputs)


@case(reader=predict)
def builder_with_assets(tf, record, workdir):
    """SavedModelBuilder with a signature, a vocabulary as an asset and a table initialiser."""
    words = workdir / "names.txt"
    words.write_text("a\nb\nc\n")
    x, y, training, logits, loss, train = model(tf)
    table = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(
            str(words), tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE
        ),
        default_value="?",
    )
    name = table.lookup(tf.argmax(logits, 1))
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        train_on(sess, record, x, y, training, loss, train)
        builder = tf.saved_model.builder.SavedModelBuilder(str(workdir / "export"))
        signature = tf.saved_model.signature_def_utils.predict_signature_def({"x": x}, {"logits": logits, "name": name})
        builder.add_meta_graph_and_variables(
            sess,
            [tf.saved_model.tag_constants.SERVING],
            signature_def_map={"serving_default": signature},
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.tables_initializer(),
        )
        builder.save()


def train_the_loaded(tf, record, workdir):
    """Load a SavedModel and train it on by the names of its ops."""
    features, labels = blobs(rows=23, width=4, classes=3)
    with tf.Session() as sess:
        tf.saved_model.loader.load(sess, ["train"], str(workdir / "export"))
        for _ in range(2):
            for a, b in batches(7, features, labels):
                feeds = {"x:0": a, "y:0": b, "training:0": False}
                record("loss", sess.run(["sparse_softmax_cross_entropy_loss/value:0", "GradientDescent"], feeds)[0])
        record("kernel", sess.run("dense/kernel:0"))


@case(reader=train_the_loaded)
def trained_after_loading(tf, record, workdir):
    """A SavedModel with its training ops, trained further by the script that loads it."""
    x, y, training, _, loss, train = model(tf)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        train_on(sess, record, x, y, training, loss, train)
        builder = tf.saved_model.builder.SavedModelBuilder(str(workdir / "export"))
        builder.add_meta_graph_and_variables(sess, ["train"])
        builder.save()


@case()
def frozen_graph(tf, record, workdir):
    """Variables turned into constants, written as a GraphDef, imported and run."""
    x, y, training, logits, loss, train = model(tf)
    probabilities = tf.nn.softmax(logits, name="probabilities")
    features, _ = blobs(rows=11, width=4, classes=3, seed=2)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        train_on(sess, record, x, y, training, loss, train)
        frozen = tf.graph_util.convert_variables_to_constants(sess, sess.graph_def, ["probabilities"])
        tf.train.write_graph(frozen, str(workdir), "frozen.pb", as_text=False)
        record("before", sess.run(probabilities, {x: features}))
    definition = tf.GraphDef.FromString((workdir / "frozen.pb").read_bytes())
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as sess:
        tf.import_graph_def(definition, name="loaded")
        record("after", sess.run("loaded/probabilities:0", {"loaded/x:0": features}))
