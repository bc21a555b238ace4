"""Each example, made small, reaches what it promises under plain TensorFlow, and prints the same on several devices."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.command import Whale

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
ANNOTATED = {"annotated_mlp.py", "bert_pipeline.py"}
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")

needs_estimator = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow_estimator") is None, reason="TensorFlow 2.16 and later have no Estimator"
)


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


@needs_estimator
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


# -- under whale run -------------------------------------------------------------------------------------------

SMALL_BERT = (
    "--characters=20000 --vocab-size=500 --batch-size=8 --sequence-length=32 --learning-rate=0.02 --steps=4 "
    "--print-every=1 --checkpoint-dir=on_N_devices"
)


@pytest.mark.parametrize(
    ("script", "devices", "arguments", "on_one", "lines"),
    [
        ("digits_cnn.py", 2, "--epochs=2", "", 3),
        ("char_lstm.py", 4, "--steps=9 --print-every=3 --hidden=32 --unroll=20 --characters=20000", "", 4),
        ("bert_pretrain.py", 2, SMALL_BERT, "", 5),
        pytest.param("estimator_mlp.py", 2, "--steps=40", "", 4, marks=needs_estimator),
        ("dcgan_digits.py", 2, "--steps=8 --print-every=2", "", 5),
        # Each replica draws a batch of its own: one device that is given both computes the same.
        ("annotated_mlp.py", 2, "--steps=40 --print-every=10", "--batch-size=64", 4),
    ],
)
def test_an_example_prints_on_several_devices_what_it_prints_on_one(
    script: str, devices: int, arguments: str, on_one: str, lines: int, whale: Whale
) -> None:
    several, one = (
        whale(f"run --devices {count} {EXAMPLES / script} {arguments.replace('N', str(count))} {more}")
        for count, more in ((devices, ""), (1, on_one))
    )
    assert (several.status, one.status) == (0, 0), several.err + one.err
    assert f"{devices} replicas on " in several.err and "please report" not in several.err, several.err
    assert len(one.out.splitlines()) == lines
    for ours, theirs in itertools.zip_longest(several.out.splitlines(), one.out.splitlines(), fillvalue=""):
        assert NUMBER.sub("", ours) == NUMBER.sub("", theirs)
        # Four decimals are printed, and the last may be rounded either way.
        assert [float(n) for n in NUMBER.findall(ours)] == pytest.approx(
            [float(n) for n in NUMBER.findall(theirs)], rel=0, abs=1.5e-4
        )
