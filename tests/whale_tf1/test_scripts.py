"""Small TF1 scripts, unedited, one after another in this process."""

from __future__ import annotations

import pathlib
import textwrap

import pytest
import tensorflow.compat.v1 as v1

from whale.installed import has_module, needs_legacy_keras, require_tensorflow
from whale.runtime import launch

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning", "ignore:.*will be removed:UserWarning")


def run(folder: pathlib.Path, text: str, *arguments: str) -> int | str | None:
    """The status a script ends with; None when it just ends."""
    path = folder / "script.py"
    path.write_text(textwrap.dedent(text))
    with launch.preserved_interpreter(), v1.Graph().as_default():
        try:
            launch.run(launch.Command(str(path), arguments))
        except SystemExit as end:
            return end.code
    return None


def test_app_run_parses_the_scripts_own_flags(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = """
        import tensorflow as tf
        tf.app.flags.DEFINE_string("scripts_own_word", "none", "a word")
        def main(rest):
            print(tf.app.flags.FLAGS.scripts_own_word, rest[1:])
        if __name__ == "__main__":
            tf.app.run(main)
    """
    assert run(tmp_path, script, "--scripts_own_word", "hello", "rest") in (0, None)
    assert capsys.readouterr().out == "hello ['rest']\n"


def test_a_feed_dict_loop_with_layers_and_a_saver(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = f"""
        import numpy as np
        import tensorflow as tf
        tf.set_random_seed(1)
        x = tf.placeholder(tf.float32, [None, 4]); y = tf.placeholder(tf.float32, [None, 1])
        hidden = tf.layers.batch_normalization(tf.layers.dense(x, 8, tf.nn.relu), training=True)
        loss = tf.losses.mean_squared_error(y, tf.layers.dense(hidden, 1))
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            step = tf.train.AdamOptimizer(0.05).minimize(loss)
        data = np.random.RandomState(0).randn(32, 4).astype(np.float)
        feed = {{x: data, y: data[:, :1]}}
        saver = tf.train.Saver()
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            first = sess.run(loss, feed)
            for _ in range(50):
                sess.run(step, feed)
            last = sess.run(loss, feed)
            saver.save(sess, {str(tmp_path / "model")!r})
        print(last < first / 5)
    """
    assert run(tmp_path, script) is None
    assert capsys.readouterr().out == "True\n"
    assert v1.train.latest_checkpoint(str(tmp_path))


@pytest.mark.skipif(needs_legacy_keras(require_tensorflow()), reason="tf.estimator ended with TF 2.15")
def test_an_estimator(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = f"""
        import numpy as np
        import tensorflow as tf
        from tensorflow.contrib.learn import ModeKeys
        def model(features, labels, mode):
            w = tf.get_variable("w", initializer=0.0)
            loss = tf.reduce_mean(tf.square(w * features["x"] - labels))
            step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
            assert mode in (ModeKeys.TRAIN, ModeKeys.EVAL)
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)
        x = np.arange(4, dtype=np.float32)
        feed = tf.estimator.inputs.numpy_input_fn({{"x": x}}, 2 * x, shuffle=False, num_epochs=None, batch_size=4)
        estimator = tf.estimator.Estimator(model, {str(tmp_path / "model")!r})
        estimator.train(feed, steps=20)
        print(abs(estimator.get_variable_value("w") - 2) < 1e-3, estimator.evaluate(feed, steps=1)["loss"] < 1e-5)
    """
    assert run(tmp_path, script) is None
    assert capsys.readouterr().out == "True True\n"


def test_tf_estimator_after_2_15_says_what_to_do() -> None:
    if not needs_legacy_keras(require_tensorflow()):
        assert v1.estimator.Estimator
        return
    import tensorflow as tf

    with pytest.raises(AttributeError, match=r"TensorFlow 2\.15"):
        tf.estimator  # noqa: B018


@pytest.mark.skipif(not has_module("tf_slim"), reason="tf-slim is not installed")
def test_slim_training_loop(tmp_path: pathlib.Path) -> None:
    script = f"""
        import numpy as np
        import tensorflow as tf
        import tensorflow.contrib.slim as slim
        images = tf.constant(np.random.RandomState(0).rand(8, 8, 8, 1), tf.float32)
        with slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm, normalizer_params={{"is_training": True}}):
            net = slim.flatten(slim.repeat(images, 2, slim.conv2d, 4, [3, 3], scope="conv"))
        slim.losses.sparse_softmax_cross_entropy(slim.fully_connected(net, 2, activation_fn=None), np.arange(8) % 2)
        train = slim.learning.create_train_op(slim.losses.get_total_loss(), tf.train.AdamOptimizer(0.01))
        last = slim.learning.train(train, {str(tmp_path / "logs")!r}, number_of_steps=30, log_every_n_steps=100)
        assert last < 0.3, last
    """
    assert run(tmp_path, script) is None


def test_a_removed_symbol_is_told_without_a_traceback(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "import tensorflow as tf\nprint('before')\ntf.contrib.gan.GANModel\n") == 2
    shown = capsys.readouterr()
    assert shown.out == "before\n"
    assert "Traceback" not in shown.err and "tf.contrib.gan does not exist" in shown.err
    assert f"at {tmp_path}/script.py:3" in shown.err


def test_a_script_may_catch_the_error(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = """
        import tensorflow as tf
        try:
            from tensorflow.contrib.nccl import all_sum
        except ImportError:
            print("no nccl")
        print(hasattr(tf.contrib, "gan"), hasattr(tf, "contrib"))
    """
    assert run(tmp_path, script) is None
    assert capsys.readouterr().out == "no nccl\nFalse True\n"
