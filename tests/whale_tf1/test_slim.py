"""tf-slim and the areas that resolve to it, on a TensorFlow that it was not written for."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale.installed import has_module

pytestmark = [
    pytest.mark.skipif(not has_module("tf_slim"), reason="tf-slim is not installed"),
    pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning"),
]


def images(count: int = 8) -> np.ndarray:
    return np.random.RandomState(0).rand(count, 16, 16, 3).astype(np.float32)


def test_a_resnet_v1_with_batch_norm_trains() -> None:
    import tensorflow.contrib.slim as slim
    from tensorflow.contrib.slim.nets import resnet_utils, resnet_v1

    labels = np.arange(8) % 2
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        with slim.arg_scope(resnet_utils.resnet_arg_scope(batch_norm_decay=0.9)):
            blocks = [resnet_v1.resnet_v1_block("block1", base_depth=4, num_units=1, stride=1)]
            logits, ends = resnet_v1.resnet_v1(
                tf.constant(images()), blocks, num_classes=2, is_training=True, global_pool=True
            )
        logits = tf.squeeze(logits, [1, 2])
        assert "resnet_v1/block1" in ends
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        total = tf.losses.get_total_loss()
        train = slim.learning.create_train_op(total, tf.train.AdamOptimizer(0.01))
        assert tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        moving = [v for v in tf.global_variables() if "moving_mean" in v.op.name]
        session.run(tf.global_variables_initializer())
        before = session.run(loss)
        for _ in range(15):
            session.run(train)
        after, means = session.run([loss, moving])
    assert after < before / 2
    assert all(np.abs(mean).sum() > 0 for mean in means)


@pytest.mark.parametrize("fused", [True, False, None])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_equals_its_definition(fused: bool | None, training: bool) -> None:
    import tensorflow as tf1

    with tf.Graph().as_default(), tf.Session() as session:
        output = tf1.contrib.layers.batch_norm(
            tf.constant(images()), decay=0.5, is_training=training, fused=fused, scale=True, epsilon=1e-3
        )
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        session.run(tf.global_variables_initializer())
        found = session.run([output, *updates])[0]
        moving = session.run([v for v in tf.global_variables() if "moving_mean" in v.op.name])[0]
    mean, variance = images().mean((0, 1, 2)), images().var((0, 1, 2))
    expected = (images() - mean) / np.sqrt(variance + 1e-3) if training else images() / np.sqrt(1 + 1e-3)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(moving, mean * 0.5 if training else np.zeros(3), rtol=1e-4)


def test_batch_norm_with_a_fed_mode_and_after_a_dense_layer() -> None:
    import tensorflow.contrib.slim as slim

    with tf.Graph().as_default(), tf.Session() as session:
        training = tf.placeholder(tf.bool, [])
        flat = tf.placeholder(tf.float32, [None, 6])
        output = slim.fully_connected(
            flat, 4, normalizer_fn=slim.batch_norm, normalizer_params={"is_training": training}, activation_fn=None
        )
        session.run(tf.global_variables_initializer())
        rows = np.random.RandomState(1).randn(32, 6)
        whole = session.run(output, {flat: rows, training: True})
        apart = session.run(output, {flat: rows, training: False})
    np.testing.assert_allclose(whole.mean(0), 0, atol=1e-5)
    assert np.abs(apart - whole).max() > 1e-3


def test_layers_of_contrib() -> None:
    import tensorflow as tf1

    layers = tf1.contrib.layers
    with tf.Graph().as_default(), tf.Session() as session:
        net = layers.conv2d(tf.constant(images()), 4, 3, normalizer_fn=layers.layer_norm)
        net = layers.max_pool2d(layers.instance_norm(net), 2)
        net = layers.group_norm(net, groups=2)
        net = layers.fully_connected(
            layers.flatten(net),
            5,
            weights_initializer=layers.xavier_initializer(),
            weights_regularizer=layers.l2_regularizer(0.1),
        )
        ids = tf.constant([[1, 2], [3, 3]])
        embedded = layers.embed_sequence(ids, vocab_size=4, embed_dim=3)
        unique = layers.embed_sequence(ids, vocab_size=4, embed_dim=3, unique=True, reuse=True, scope="EmbedSequence")
        bag = layers.bow_encoder(ids, 4, 3, scope="EmbedSequence", reuse=True)
        dense_bag = layers.bow_encoder(ids, 4, 3, sparse_lookup=False, scope="EmbedSequence", reuse=True)
        loss = tf.reduce_mean(net) + tf.add_n(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
        step = layers.optimize_loss(loss, tf.train.get_or_create_global_step(), 0.1, "Adam", clip_gradients=1.0)
        session.run(tf.global_variables_initializer())
        assert np.isfinite(session.run(step))
        one, two, mean, plain = session.run([embedded, unique, bag, dense_bag])
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(mean, one.mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(plain, one.mean(axis=1), rtol=1e-5)


def test_framework_variables_and_checkpoints(tmp_path: object) -> None:
    import tensorflow as tf1

    framework = tf1.contrib.framework
    path = f"{tmp_path}/model"
    with tf.Graph().as_default(), tf.Session() as session:
        with framework.arg_scope([tf1.contrib.layers.fully_connected], activation_fn=None):
            tf1.contrib.layers.fully_connected(tf.ones([1, 2]), 2, scope="kept")
        tf.get_variable("other", [2])
        chosen = framework.get_variables_to_restore(include=["kept"])
        assert [v.op.name for v in chosen] == ["kept/weights", "kept/biases"]
        session.run(tf.global_variables_initializer())
        expected = session.run(chosen[0])
        tf.train.Saver(chosen).save(session, path, write_meta_graph=False)
        restore = framework.assign_from_checkpoint_fn(path, chosen)
        session.run(tf.assign(chosen[0], tf.zeros([2, 2])))
        restore(session)
        np.testing.assert_array_equal(session.run(chosen[0]), expected)
        assert dict(framework.list_variables(path))["kept/weights"] == [2, 2]
        assert session.run(framework.with_shape([2], tf.constant([1, 2]))).tolist() == [1, 2]


def test_streaming_metrics() -> None:
    from tensorflow.contrib.metrics import f1_score, set_difference, streaming_accuracy

    with tf.Graph().as_default(), tf.Session() as session:
        accuracy, update = streaming_accuracy(tf.constant([1, 0, 1]), tf.constant([1, 1, 1]))
        score, score_update = f1_score(tf.constant([1, 1, 0]), tf.constant([1.0, 0.0, 0.0]))
        gap = set_difference(tf.constant([[1, 2]]), tf.constant([[2, 3]])).values
        session.run(tf.local_variables_initializer())
        session.run([update, score_update])
        assert session.run(accuracy) == pytest.approx(2 / 3)
        # The best over all thresholds: below zero every row counts as positive.
        assert session.run(score) == pytest.approx(0.8, abs=1e-4)
        assert session.run(gap).tolist() == [1]
