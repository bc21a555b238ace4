"""Each example, made small, runs under plain TensorFlow and reaches what it promises."""

from __future__ import annotations

import ast
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
ANNOTATED = {"annotated_mlp.py"}


def run(script: str, *arguments: str) -> str:
    """What ``script`` prints on standard output."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"}
    if importlib.util.find_spec("tf_keras") is not None:
        # On TensorFlow 2.16 and later the rnn cells are those of tf-keras.
        environment["TF_USE_LEGACY_KERAS"] = "1"
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def figures(name: str, output: str) -> list[float]:
    """The numbers that follow ``name`` in ``output``."""
    return [float(value) for value in re.findall(rf"{name}:? +(-?[0-9.]+)", output)]


def test_digits_cnn_learns_the_digits() -> None:
    output = run("digits_cnn.py", "--epochs", "8")
    losses = figures("loss", output)
    assert len(losses) == 8
    assert losses[-1] < 0.2 * losses[0]
    assert figures("test accuracy", output)[0] > 0.93


def test_char_lstm_learns_some_python() -> None:
    output = run("char_lstm.py", "--steps=60", "--print-every=20", "--hidden=32", "--unroll=20", "--characters=20000")
    losses = figures("loss", output)
    assert len(losses) == 3
    assert losses[0] > losses[1] > losses[2]


@pytest.mark.parametrize("optimizer", ["adam", "lamb"])
def test_bert_pretrain_learns_word_frequencies(optimizer: str, tmp_path: pathlib.Path) -> None:
    small = ["--characters=20000", "--vocab-size=500", "--batch-size=8", "--sequence-length=32", "--learning-rate=0.02"]
    arguments = [*small, f"--optimizer={optimizer}", f"--checkpoint-dir={tmp_path}", "--steps=40", "--print-every=10"]
    losses = figures("masked words", run("bert_pretrain.py", *arguments))
    assert len(losses) == 4
    assert losses[-1] < losses[0] - 0.2
    assert (tmp_path / "model.ckpt-40.index").exists()


@pytest.mark.skipif(
    importlib.util.find_spec("tensorflow_estimator") is None, reason="TensorFlow 2.16 and later have no Estimator"
)
def test_estimator_mlp_learns_the_digits() -> None:
    output = run("estimator_mlp.py", "--steps", "200")
    assert figures("test accuracy", output)[0] > 0.9
    predicted, true = (re.findall(rf"{name}  *([0-9 ]+)", output)[0].split() for name in ("predicted", "true"))
    assert sum(p == t for p, t in zip(predicted, true)) >= 8


def test_dcgan_digits_comes_nearer_to_the_data() -> None:
    output = run("dcgan_digits.py", "--steps", "100", "--print-every", "50")
    assert len(figures("generator", output)) == 2
    before, after = map(float, re.findall(r"distance to data: ([0-9.]+) before, ([0-9.]+) after", output)[0])
    assert after < 0.8 * before


def test_plain_examples_do_not_import_whale() -> None:
    for path in EXAMPLES.glob("*.py"):
        imported = {
            alias.name.split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        assert ("whale" in imported) == (path.name in ANNOTATED), path.name


def test_readme_lists_every_example() -> None:
    listed = set(re.findall(r"`(\w+\.py)`", (EXAMPLES / "README.md").read_text(encoding="utf-8")))
    assert listed == {path.name for path in EXAMPLES.glob("*.py")}
