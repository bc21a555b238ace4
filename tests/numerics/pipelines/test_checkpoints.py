"""Checkpoints move between pipelines, data parallelism, one device and plain TensorFlow; monitored training."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.numerics.case import Record, record_variables
from tests.numerics.pipelines import scripts
from tests.numerics.pipelines.compare import Script, compare, pipelined, same, script_case
from tests.numerics.pipelines.scopes import Cut, NoScopes
from tests.numerics.process import start_tensorflow
from tests.numerics.recording import Recording
from tests.numerics.runner import SEED, Setting, plain, whale

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

WAYS: dict[str, tuple[Cut | None, Setting]] = {
    "plain": (None, plain),
    "two replicas": (None, whale(2)),
    "1F1B": (Cut(2, 4), pipelined(Cut(2, 4), "global")),
    "GPipe, two replicas": (Cut(3, 2, 2, "PreferForward"), pipelined(Cut(3, 2, 2, "PreferForward"), "global")),
    "interleaved": (Cut(4, 2, 1, "Interleaved"), pipelined(Cut(4, 2, 1, "Interleaved"), "global")),
}
"""Names of the surroundings that write and read checkpoints."""


def build(tf: Any, scopes: NoScopes) -> tuple[scripts.Net, Any]:
    """A network and its training op."""
    net = scripts.network(tf, scopes)
    step = tf.train.get_or_create_global_step()
    return net, tf.train.AdamOptimizer(0.02, epsilon=1e-3).minimize(net.loss, step)


def first_half(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """Two steps, then a checkpoint."""
    net, train = build(tf, scopes)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(2):
            record("loss", sess.run([net.loss, train], net.feeds(step))[0])
        tf.train.Saver().save(sess, str(workdir / "model"))


def second_half(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """Two more steps from the checkpoint."""
    net, train = build(tf, scopes)
    with tf.Session() as sess:
        tf.train.Saver().restore(sess, tf.train.latest_checkpoint(str(workdir)))
        for step in range(2, 4):
            record("loss", sess.run([net.loss, train], net.feeds(step))[0])
        record_variables(tf, sess, record)


def over_files(writer: str, reader: str) -> Recording:
    """What both halves record, each in surroundings of its own."""
    tf, recording = start_tensorflow(), Recording()
    with tempfile.TemporaryDirectory() as folder:
        for name, half in ((writer, first_half), (reader, second_half)):
            cut, setting = WAYS[name]
            with setting(), tf.Graph().as_default():
                tf.set_random_seed(SEED)
                script_case(half, cut).body(tf, recording, Path(folder))
    return recording


@pytest.fixture(scope="module")
def reference() -> Recording:
    """Plain TensorFlow in both halves."""
    return over_files("plain", "plain")


PIPELINES = list(WAYS)[2:]

PAIRS = [
    *(("plain", name) for name in PIPELINES),
    *((name, "plain") for name in PIPELINES),
    ("1F1B", "two replicas"),
    ("two replicas", "GPipe, two replicas"),
    ("GPipe, two replicas", "interleaved"),
    ("interleaved", "1F1B"),
]


@pytest.mark.parametrize(("writer", "reader"), PAIRS, ids=[" to ".join(pair) for pair in PAIRS])
def test_training_goes_on_elsewhere(writer: str, reader: str, reference: Recording) -> None:
    same(reference, over_files(writer, reader))


def monitored() -> Script:
    """A script of two monitored sessions over one directory."""

    def script(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
        net, train = build(tf, scopes)
        step = tf.train.get_or_create_global_step()
        tf.summary.scalar("loss", net.loss)
        for stop in (3, 5):
            session = tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(workdir / "run"),
                hooks=[tf.train.StopAtStepHook(last_step=stop)],
                save_checkpoint_steps=2,
                save_summaries_steps=2,
                log_step_count_steps=None,
            )
            with contextlib.closing(session):
                while not session.should_stop():
                    at = session.run(step, net.feeds(0))
                    record("step", session.run([net.loss, train], net.feeds(at))[0])
                    record("at", at)
        reader = tf.train.load_checkpoint(str(workdir / "run"))
        for name in sorted(reader.get_variable_to_shape_map()):
            record(name, reader.get_tensor(name))

    return script


@pytest.mark.parametrize("cut", [Cut(2, 4), Cut(4, 2, 1, "Interleaved")], ids=str)
def test_monitored_training_goes_on_from_its_checkpoint(cut: Cut) -> None:
    compare(monitored(), cut)
