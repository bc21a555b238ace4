"""``whale profile``, and what ``whale plan`` makes of its file."""

from __future__ import annotations

import pathlib
import re
import textwrap

import pytest

from tests.command import Ended, Whale
from whale.cost_model import read_coefficients

SCRIPT = """
    import sys
    import numpy as np
    import tensorflow as tf

    rows = tf.placeholder(tf.float32, [None, 16], name="rows")
    hidden = tf.nn.relu(tf.matmul(rows, tf.get_variable("first", [16, 256])))
    loss = tf.reduce_mean(tf.square(tf.matmul(hidden, tf.get_variable("second", [256, 1]))))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(int(sys.argv[1])):
            session.run(train, {rows: np.ones([32, 16], np.float32)})
            print("step", step)
"""


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def assert_told(ended: Ended, text: str) -> None:
    assert text in squeezed(ended.err), ended.err


def test_a_profile_is_what_a_plan_then_predicts(whale: Whale, tmp_path: pathlib.Path) -> None:
    ended = whale("profile --steps 3 --output here.csv script.py 100", SCRIPT)
    assert ended.status == 0, ended.err
    out = squeezed(ended.out)
    assert ended.out.count("step ") >= 7 and "step 7\n" not in ended.out  # 2 to warm up, 3 timed, 3 traced
    assert "Profile of script.py 3 steps of 32 samples timed, as many traced, on CPU." in out
    for heading in ("One step", "Ops of a step by class", "Slowest ops", "Calibration"):
        assert heading in ended.out
    assert re.search(r"MatMul .* script\.py:6", ended.out), ended.out
    (calibrated,) = re.findall(r"calibrated ([\d.,]+ \w+), ", out)
    found = read_coefficients(tmp_path / "here.csv")
    assert found.known("fill_seconds") and found.known("runtime/tensorflow/step")
    assert {c.fitted_to for c in found.values.values()} == {"whale profile script.py"}
    plan = whale("plan --devices 1 --calibration here.csv script.py 100")
    assert plan.status == 0, plan.err
    assert f"step {calibrated}" in squeezed(plan.out)


def test_a_script_may_end_before_all_steps(whale: Whale, tmp_path: pathlib.Path) -> None:
    ended = whale("profile --steps 50 script.py 8", SCRIPT)
    assert ended.status == 0, ended.err
    assert "the script ended after 3 of 50 steps" in squeezed(ended.out)
    assert (tmp_path / "calibration.csv").exists()


STUBBORN = """
    import numpy as np
    import tensorflow as tf

    weights = tf.get_variable("weights", [4, 4])
    rows = tf.placeholder(tf.float32, [None, 4])
    train = tf.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(tf.matmul(rows, weights)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        while True:
            try:
                session.run(train, {rows: np.ones([8, 4], np.float32)})
            except BaseException as error:
                print("caught", type(error).__name__)
"""


def test_a_script_that_catches_its_end_is_ended(whale: Whale, tmp_path: pathlib.Path) -> None:
    ended = whale("profile --steps 1 script.py", STUBBORN)
    assert ended.status == 0, ended.err
    assert ended.out.count("caught StepsMeasured") == 2
    assert (tmp_path / "calibration.csv").exists()


THREAD = """
    import threading
    import numpy as np
    import tensorflow as tf

    weights = tf.get_variable("weights", [4, 4])
    rows = tf.placeholder(tf.float32, [None, 4])
    train = tf.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(tf.matmul(rows, weights)))
    session = tf.Session()
    session.run(tf.global_variables_initializer())

    def work():
        while True:
            session.run(train, {rows: np.ones([8, 4], np.float32)})

    threading.Thread(target=work).start()
"""


def test_a_script_may_train_in_a_thread(whale: Whale, tmp_path: pathlib.Path) -> None:
    ended = whale("profile --steps 1 script.py", THREAD)
    assert ended.status == 0, ended.err
    assert "Profile of script.py" in ended.out
    assert (tmp_path / "calibration.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("0", "the script ended without a training step fix: a profile is of a run that computes gradients"),
        ("2", "the script ended after 2 training step(s), and the first 2 are not measured fix: let it train for 22"),
    ],
)
def test_a_script_that_trains_too_little_is_told(
    whale: Whale, tmp_path: pathlib.Path, arguments: str, told: str
) -> None:
    ended = whale(f"profile script.py {arguments}", SCRIPT)
    assert ended.status == 2
    assert_told(ended, told)
    assert not (tmp_path / "calibration.csv").exists()


def test_a_script_that_fails_fails(whale: Whale, tmp_path: pathlib.Path) -> None:
    ended = whale("profile script.py 100", textwrap.dedent(SCRIPT).replace('print("step", step)', "assert step < 5"))
    assert ended.status == 1
    assert "AssertionError" in ended.err
    assert not (tmp_path / "calibration.csv").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("profile --output no/such/c.csv script.py 9", "there is no folder 'no/such' to write 'c.csv' to"),
        ("profile --output . script.py 9", "'.' is a folder: --output names a file"),
        ("profile --steps 0 script.py 9", "Invalid value for '--steps'"),
        ("profile --precision tf32 script.py 9", "the catalogue has no rate of CPU in tf32"),
        ("profile", "Missing the script to run"),
        ("profile missing.py", "cannot read the script 'missing.py'"),
    ],
)
def test_a_wrong_command_is_told_before_the_script_runs(whale: Whale, words: str, told: str) -> None:
    ended = whale(words, SCRIPT)
    assert ended.status == 2
    assert_told(ended, told)
    assert "step" not in ended.out


def test_a_file_that_cannot_be_written_is_told(whale: Whale) -> None:
    ended = whale("profile --steps 1 --output /dev/full script.py 9", SCRIPT)
    assert ended.status == 2
    assert_told(ended, "cannot write /dev/full: No space left on device fix: give another --output")


HEADER = "name,value,rows,fitted_to\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            HEADER + "memory/V100,0.6,1,t\nfill_seconds,1e-6,1,t\n",
            "c.csv: the calibration is of V100, and the cluster has CPU fix: run `whale profile` on a machine",
        ),
        (
            "name,seconds,rows,fitted_to\nmemory/CPU,1,1,t\n",
            "not a file of coefficients at c.csv:1 fix: its first line",
        ),
        (HEADER + "memory/CPU,fast,1,t\n", "cannot read 'memory/CPU,fast,1,t' at c.csv:2"),
        (HEADER + "speed/CPU,1,1,t\n", "c.csv: 'speed/CPU' is no coefficient of the cost model"),
    ],
)
def test_a_calibration_that_cannot_be_used_is_told(whale: Whale, tmp_path: pathlib.Path, text: str, told: str) -> None:
    (tmp_path / "c.csv").write_text(text, encoding="utf-8")
    ended = whale("plan --devices 1 --calibration c.csv script.py 9", SCRIPT)
    assert ended.status == 2
    assert_told(ended, told)
    assert ended.out == ""
