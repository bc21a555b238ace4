"""The command line of ``whale run``, and whole runs in processes of their own."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from click.testing import CliRunner

from whale.cli import run as run_command
from whale.cli.main import main
from whale.runtime.launch import Command


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What ``whale run`` would start and run, instead of doing it."""
    seen: list[Any] = []

    class Closed:
        def close(self) -> None:
            """Nothing was opened."""

    class Session:
        @staticmethod
        def start(*options: Any) -> Closed:
            seen.append(options)
            return Closed()

        @staticmethod
        def hidden_launcher() -> contextlib.AbstractContextManager[None]:
            return contextlib.nullcontext()

        @staticmethod
        def tell_if_unused(activation: Any) -> None:
            """Nothing was run."""

    monkeypatch.setattr(run_command, "tf1_environment", Closed)
    monkeypatch.setattr(run_command.importlib, "import_module", lambda name: Session)
    monkeypatch.setattr(run_command.launch, "run", seen.append)
    monkeypatch.setattr(run_command.atexit, "register", lambda function: None)
    return seen


@pytest.mark.parametrize(
    ("line", "options", "command"),
    [
        ("SCRIPT", (None, None, None, None, None, None), Command("SCRIPT")),
        (
            "--devices 2 SCRIPT --devices 3 -m x --help",
            (None, 2, None, None, None, None),
            Command("SCRIPT", ("--devices", "3", "-m", "x", "--help")),
        ),
        (
            "--batch local --strategy=annotated --plan p.json SCRIPT -- -v",
            (None, None, "annotated", "local", "p.json", None),
            Command("SCRIPT", ("--", "-v")),
        ),
        ("-m pkg.mod --devices 3", (None, None, None, None, None, None), Command("pkg.mod", ("--devices", "3"), True)),
        ("--devices 2 -m mod -m", (None, 2, None, None, None, None), Command("mod", ("-m",), True)),
    ],
)
def test_what_follows_the_script_is_the_scripts(
    tmp_path: pathlib.Path, calls: list[Any], line: str, options: tuple[Any, ...], command: Command
) -> None:
    script = tmp_path / "script.py"
    script.write_text("")
    words = [str(script) if word == "SCRIPT" else word for word in line.split()]
    result = CliRunner().invoke(main, ["run", *words])
    assert result.exit_code == 0, result.output
    target = str(script) if command.target == "SCRIPT" else command.target
    assert calls == [options, Command(target, command.arguments, command.is_module)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing the script"),
        (["-m"], "requires an argument"),
        (["--devcies", "2", "x.py"], "--devices"),
        (["--devices", "0", "x.py"], "0 is not in the range"),
        (["--batch", "half", "x.py"], "half"),
        (["--devices", "2", "--cluster", "c.yaml", "x.py"], "exclude each other"),
    ],
)
def test_a_wrong_line_is_explained(calls: list[Any], words: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["run", *words])
    assert result.exit_code == 2
    assert message in result.output
    assert not calls


def test_a_missing_script_or_cluster_file_is_told_before_tensorflow_starts(
    tmp_path: pathlib.Path, calls: list[Any]
) -> None:
    script = tmp_path / "script.py"
    script.write_text("")
    for words in (["no_such.py"], ["--cluster", str(tmp_path / "none.yaml"), str(script)]):
        result = CliRunner().invoke(main, ["run", *words])
        assert result.exit_code == 2 and "whale: " in result.output
    assert not calls


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0 and result.output.startswith("whale, version ")


def whale_run(folder: pathlib.Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(textwrap.dedent(text))
    root = str(pathlib.Path(__file__).resolve().parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"}
    return subprocess.run(
        [sys.executable, "-m", "whale.cli.main", "run", "--devices", "2", "script.py", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


TRAINING = """
    import atexit
    import os
    import numpy as np
    import tensorflow as tf
    from tensorflow.contrib import rnn
    import epl
    import whale

    assert epl.replica is whale.replica and epl.Env is whale.Env
    tf.flags.DEFINE_integer("steps", 1, "number of steps")
    FLAGS = tf.flags.FLAGS

    def main(rest):
        x = tf.placeholder(tf.float32, [None, 3, 2])
        outputs, _ = rnn.static_rnn(rnn.BasicLSTMCell(4), tf.unstack(x, axis=1), dtype=tf.float32)
        loss = tf.reduce_mean(tf.square(outputs[-1]))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        session = tf.Session()
        session.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            session.run(step, {x: np.ones([4, 3, 2])})
        atexit.register(lambda: print("bye", session.run(loss, {x: np.ones([4, 3, 2])}) >= 0))
        print("rest", rest[1:], os.environ["TF_ENABLE_ONEDNN_OPTS"])
        raise LookupError("the script's own")

    if __name__ == "__main__":
        tf.app.run()
"""


def test_a_tf1_script_runs_unedited_and_shows_its_own_traceback(tmp_path: pathlib.Path) -> None:
    done = whale_run(tmp_path, TRAINING, "--steps=2", "word")
    assert (done.returncode, done.stdout) == (1, "rest ['word'] 0\nbye True\n"), done.stderr
    lines = done.stderr.split("Traceback (most recent call last):\n")[1].splitlines()
    assert lines[0].startswith(f'  File "{tmp_path}/script.py", line ')
    # What comes after it is the exit handler of the script.
    own = lines[: lines.index("LookupError: the script's own")]
    assert not [line for line in own if "whale" in line.replace(str(tmp_path), "")]


FAILING = """
import numpy as np
import tensorflow as tf

def model():
    x = tf.placeholder(tf.float32, [None, None], name="x")
    return x, tf.reshape(x, [7, -1], name="bad")

x, bad = model()
with tf.Session() as session:
    try:
        session.run(bad, {x: np.ones([4, 5])})
    except tf.errors.InvalidArgumentError as error:
        print(error)
"""


def test_an_op_is_shown_where_the_script_made_it_without_frames_of_the_launcher(tmp_path: pathlib.Path) -> None:
    done = whale_run(tmp_path, FAILING)
    assert done.returncode == 0, done.stderr
    for heading in ("defined at (most recent call last):\n", "Original stack trace for 'bad':\n"):
        frames = done.stdout.split(heading)[1].splitlines()
        assert frames[0].strip() == f'File "{tmp_path}/script.py", line 9, in <module>'
        assert frames[1].strip() == f'File "{tmp_path}/script.py", line 7, in model'
