"""What a user does wrong under ``whale run``: the message names the place and the way out, and the status tells."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

from tests.command import Ended, Whale

RUN = "run --devices 2 script.py"

TRAINING = """
    import numpy as np
    import tensorflow as tf

    rows = tf.placeholder(tf.float32, [None, 3])
    weights = tf.get_variable("weights", [3, 1], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights)))
    step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        print("loss", session.run([loss, step], {rows: np.ones([8, 3])})[0])
"""


def assert_told(ended: Ended, text: str, folder: pathlib.Path | None = None) -> None:
    """Checks that standard error has these words in this order, on one line or several.

    ``...`` stands for anything; SCRIPT and FILE are the script and another file of the folder.
    """
    for part in text.split(" ... "):
        pattern = r"\s+".join(re.escape(word) for word in part.split())
        pattern = pattern.replace("SCRIPT", f"{folder}/script\\.py").replace("FILE", f"{folder}/plan\\.json")
        assert re.search(pattern, ended.err), ended.err


# -- annotations, devices, configuration -----------------------------------------------------------------------

WHALE = "import tensorflow as tf\nimport whale as wh\n"
"""Two lines before each of the scripts below."""

SCRIPTS = {
    "nested": (
        "with wh.replica():\n    with wh.replica(name='inner'):\n        tf.constant(1.0)",
        "replica 'inner' is nested in a scope of the same strategy: replica, opened at SCRIPT:3 at SCRIPT:4 fix: close",
    ),
    "open": (
        "wh.replica().__enter__()\ntotal = tf.constant(1.0) + 1.0\ntf.Session().run(total)",
        "a session runs while the scope replica is open at SCRIPT:3 fix: end the `with` block",
    ),
    "left out of order": (
        "scope = wh.replica()\nscope.__exit__(None)",
        "replica is left, but it is not the innermost open scope at SCRIPT:4 fix: enter and leave scopes with `with`",
    ),
    "no op": (
        "with wh.replica():\n    pass\ntf.Session().run(tf.constant(1.0))",
        "no op was made inside the scope replica at SCRIPT:3 fix: build the model inside",
    ),
    "no such device": (
        "with wh.replica(devices=['/gpu:7']):\n    tf.constant(1.0)",
        "replica: no device '/gpu:7' in a cluster of 2 devices at SCRIPT:3 fix: its devices run from '/device:CPU:0'",
    ),
    "a layout too large": (
        "wh.cluster(layout={'average': 8})",
        "layout 'average' asks for 8 devices per slice, and the cluster has 2 at SCRIPT:3 fix: use a smaller number",
    ),
    "a count too large": (
        "with wh.replica(device_count=4):\n    tf.constant(1.0)",
        "device_count asks for 4 devices, and there are 2 at SCRIPT:3 fix: use at most 2, or run on more devices "
        "(whale run --devices 4)",
    ),
    "unknown key": (
        "wh.init(wh.Config({'batch.mdoe': 'local'}))",
        "'batch.mdoe' is not a configuration key at SCRIPT:3 fix: did you mean 'batch.mode'",
    ),
    "unknown value": (
        "config = wh.Config()\nconfig.batch.mode = 'globl'",
        "batch.mode cannot be 'globl' at SCRIPT:4 fix: did you mean 'global'",
    ),
    "a key without its feature": (
        "wh.init(wh.Config({'zero.level': 'v1'}))",
        "zero.level = 'v1': this feature is not available in this version of Whale at SCRIPT:3 fix: leave it at ''",
    ),
    "no such device by configuration": (
        "wh.init(wh.Config({'cluster.run_visible_devices': '0,5'}))",
        "run_visible_devices '0,5': no device 5 among 2 at SCRIPT:3 fix: count from 0",
    ),
    "split": (
        "with wh.split():\n    tf.constant(1.0)",
        "wh.split is not available in this version of Whale at SCRIPT:3 fix: put these ops under wh.replica()",
    ),
    "pipeline": (
        "with wh.pipeline(num_micro_batch=4, strategy='PreferBackwrd'):\n    tf.constant(1.0)",
        "unknown pipeline strategy 'PreferBackwrd' at SCRIPT:3 fix: did you mean 'PreferBackward'",
    ),
    "stage": (
        "with wh.stage():\n    tf.constant(1.0)",
        "stage is not inside a pipeline at SCRIPT:3 fix: put the stage scopes of a model inside one",
    ),
    "contrib": (
        "gan = tf.contrib.gan.GANModel",
        "tf.contrib.gan does not exist in TensorFlow 2 at SCRIPT:3 fix: TF-GAN is its successor",
    ),
    "import of contrib": (
        "from tensorflow.contrib import resampler",
        "module tensorflow.contrib.resampler does not exist in TensorFlow 2 at SCRIPT:3 fix:",
    ),
    "eager mode": (
        "tf.enable_eager_execution()",
        "tf.enable_eager_execution() turns eager mode on, and Whale works on static graphs at SCRIPT:3 fix: build a "
        "static graph",
    ),
    "TensorFlow 2 behaviour": (
        "tf.compat.v1.enable_v2_behavior()",
        "tf.enable_v2_behavior() turns eager mode on, and Whale works on static graphs at SCRIPT:3 fix:",
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_mistake_in_a_script_is_one_message_with_its_line(name: str, whale: Whale, tmp_path: pathlib.Path) -> None:
    script, expected = SCRIPTS[name]
    ended = whale(RUN, WHALE + script)
    assert ended.status == 2, ended
    assert ended.err.startswith("whale: ")
    assert_told(ended, expected, tmp_path)
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("name", ["nested", "open", "no op", "split", "contrib", "eager mode"])
def test_one_device_tells_the_same(name: str, whale: Whale, tmp_path: pathlib.Path) -> None:
    script, expected = SCRIPTS[name]
    ended = whale("run --devices 1 script.py", WHALE + script)
    assert ended.status == 2, ended
    assert_told(ended, expected, tmp_path)


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        (
            "WHALE_BATCH_MOD",
            "local",
            "environment variable WHALE_BATCH_MOD is not ... fix: did you mean 'WHALE_BATCH_MODE'",
        ),
        ("EPL_BATCH_MODE", "locale", "EPL_BATCH_MODE (batch.mode) cannot be 'locale' fix: did you mean 'local'"),
        ("WHALE_AMP_LEVEL", "O1", "amp.level ... fix: leave it at ''"),
        (
            "WHALE_CLUSTER_RUN_VISIBLE_DEVICES",
            "0,2",
            "run_visible_devices '0,2': no device 2 among 2 fix: count from 0",
        ),
    ],
)
def test_a_wrong_environment_variable_is_told_before_the_script_starts(
    variable: str, text: str, expected: str, whale: Whale
) -> None:
    ended = whale(RUN, "print('started')", **{variable: text})
    assert (ended.status, ended.out) == (2, "")
    assert_told(ended, expected)


# -- files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"version": 1, "shares": [3, 1, 1]}', "FILE: the plan is for 3 devices; the cluster has /device:CPU:0"),
        (
            '{"version": 1, "shares": [3, 1, 1], "devices": ["/device:CPU:0", "/device:CPU:1"]}',
            "FILE: the plan names 2 devices and 3 shares fix: give one share for each device",
        ),
        (
            '{"version": 1, "shares": [1, 1], "devices": ["/device:GPU:0", "/device:GPU:1"]}',
            "FILE: the plan is for /device:GPU:0, /device:GPU:1; the cluster has /device:CPU:0, /device:CPU:1 fix:",
        ),
        (
            '{"version": 1, "shares": [1, 1], "devices": ["/device:CPU:0", "/device:CPU:0"]}',
            "FILE: the plan names device '/device:CPU:0' twice fix: name each device once",
        ),
        (
            '{"version": 1, "shares": [2, -1]}',
            "FILE: the shares [2, -1] must be integers >= 0 ... fix: give each device",
        ),
        ('{"version": 1, "share": [1, 1]}', "FILE: unknown field 'share' fix: did you mean 'shares'"),
        ('{"version": 1}', "FILE: field 'shares' must be a list of integers: it is missing fix: write it like"),
        ('{"version": 1, "shares": [1, 1], "batch": 3}', "FILE: field 'batch' must be text, got 3 fix: write"),
        ('{"version": 9, "shares": [1, 1]}', "FILE: field 'version' is 9, this Whale reads 1 fix: set it to 1"),
        ('{"version": 1,\n "shares": [1, 1\n', "not JSON: ... at FILE:3 fix: write it like"),
        ("version: 1\nshares: [1, 1]\n", "not JSON: ... at FILE:1 fix: write it like"),
        ("[1, 1]", "FILE: a plan is a JSON object, got list fix: write it like"),
        (None, "cannot read the plan file FILE: No such file or directory fix: correct the path"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_before_the_script_starts(
    text: str | None, expected: str, whale: Whale, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_text(text)
    ended = whale(f"run --devices 2 --plan {path} script.py", "print('started')")
    assert (ended.status, ended.out) == (2, "")
    assert_told(ended, expected, tmp_path)


def test_a_broken_cluster_file_names_line_and_field(whale: Whale, tmp_path: pathlib.Path) -> None:
    (tmp_path / "cluster.yaml").write_text("hosts:\n  - name: a\n    devices:\n      - model: CPU\n        cuont: 2\n")
    ended = whale("run --cluster cluster.yaml script.py", "print('started')")
    assert (ended.status, ended.out) == (2, "")
    place = "whale: hosts[0].devices[0].cuont: unknown field at cluster.yaml:5 fix: did you mean 'count'"
    assert_told(ended, place)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "hosts: [{name: a, devices: [{model: V100, count: 8}]}]",
            "the cluster file asks for 8 GPU(s) (a: 8 x V100 (16 GiB)), and this machine has 0 GPU(s) that TensorFlow "
            "sees ... fix: correct the file, or use the devices of this machine: whale run --devices 2 for CPU devices",
        ),
        (
            "hosts: [{name: a, devices: [{model: CPU}]}, {name: b, devices: [{model: CPU}]}]",
            "the cluster file has 2 hosts (a: 1 x CPU; b: 1 x CPU), and this version trains on one; ... fix: "
            "leave one host in the file, or use the devices of this machine: whale run --devices 2",
        ),
        (
            "{job: worker, hosts: [{name: a, devices: [{model: CPU, count: 2}]}]}",
            "the cluster file has the job 'worker' (a: 2 x CPU), and this version serves no jobs; ... fix: "
            "remove 'job' from the file",
        ),
    ],
)
def test_a_cluster_that_is_not_here_is_told_before_the_script_starts(
    text: str, expected: str, whale: Whale, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "cluster.yaml").write_text(text)
    ended = whale("run --cluster cluster.yaml script.py", "print('started')", CUDA_VISIBLE_DEVICES="-1")
    assert (ended.status, ended.out) == (2, "")
    assert_told(ended, expected)


def test_a_cluster_file_of_cpu_devices_is_followed(whale: Whale, tmp_path: pathlib.Path) -> None:
    (tmp_path / "cluster.yaml").write_text("hosts: [{name: a, devices: [{model: CPU, count: 3}]}]")
    ended = whale("run --cluster cluster.yaml script.py", TRAINING)
    assert ended.status == 0, ended.err
    assert "3 replicas on /device:CPU:0, /device:CPU:1, /device:CPU:2" in ended.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("no_such.py", "whale: cannot read the script 'no_such.py': No such file or directory fix: give the path"),
        (".", "whale: cannot read the script '.': Is a directory fix: give the path"),
    ],
)
def test_what_is_no_script_is_told(words: str, expected: str, whale: Whale) -> None:
    ended = whale(f"run --devices 2 {words}")
    assert ended.status == 2
    assert_told(ended, expected)


# -- the script's own end --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nsys.exit(7)",
        "import sys\nsys.exit('the reason')",
        "import os\nos._exit(4)",
        "raise SystemExit",
        "raise ValueError('of the script')",
        "def outer():\n    inner()\n\ndef inner():\n    {}['x']\n\nouter()",
        "x = (1,\n",
        "import atexit\natexit.register(print, 'bye')\n1 / 0",
    ],
)
def test_a_script_ends_as_under_python(text: str, whale: Whale, tmp_path: pathlib.Path) -> None:
    ended = whale(RUN, text)
    plain = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (ended.status, ended.out, ended.err) == (plain.returncode, plain.stdout, plain.stderr)


SIGNALLED = """
import os, signal, time; signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
os.kill(os.getpid(), signal.SIGINT); time.sleep(60)
"""


def test_a_signal_ends_a_script_with_its_own_traceback(whale: Whale, tmp_path: pathlib.Path) -> None:
    ended = whale(RUN, SIGNALLED)
    assert ended.status == 130
    first, place, *_ = ended.err.splitlines()
    assert first == "Traceback (most recent call last):"
    assert place == f'  File "{tmp_path}/script.py", line 2, in <module>' and "KeyboardInterrupt" in ended.err


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("session.run(loss.numpy())", "AttributeError: .* has no attribute 'numpy'"),
        ("for row in tf.data.Dataset.range(3): pass", "RuntimeError: .* in eager mode"),
        ("if loss > 0: pass", "Using a symbolic `tf.Tensor` as a Python `bool`"),
        ("float(loss)", "TypeError: float"),
        ("np.array(loss)", "NotImplementedError: Cannot convert a symbolic"),
    ],
)
def test_code_for_eager_mode_is_explained_below_its_own_traceback(
    line: str, what: str, whale: Whale, tmp_path: pathlib.Path
) -> None:
    ended = whale(RUN, textwrap.dedent(TRAINING) + line)
    count = len(textwrap.dedent(TRAINING).strip().splitlines()) + 1
    assert ended.status == 1 and ended.out == "loss 9.0\n"
    traceback, explanation = ended.err.split("Traceback (most recent call last):\n", 1)[1].split("whale: ")
    assert traceback.startswith(f'  File "{tmp_path}/script.py", line {count}, in <module>')
    assert re.search(what, traceback)
    assert explanation.startswith("the script does what only the eager mode of TensorFlow 2 allows")
    assert f"at {tmp_path}/script.py:{count}" in explanation and "fix: build a static graph" in explanation


def test_a_graph_that_no_session_runs_is_told(whale: Whale) -> None:
    script = "import tensorflow as tf\n\n@tf.function\ndef f(x):\n    return x + 1\n\nf(tf.constant(1.0))"
    ended = whale(RUN, script)
    assert ended.status == 0
    told = "whale: the script built a graph and made no session, so nothing ran on the 2 devices fix: run the graph"
    assert_told(ended, told)
    assert whale("run --devices 1 script.py", script).err == ""
    assert whale(RUN, "print('no TensorFlow')").err == ""


def test_the_limit_on_the_size_of_a_constant_is_explained(whale: Whale, tmp_path: pathlib.Path) -> None:
    # The array is never touched, so it takes no memory.
    ended = whale(RUN, "import numpy as np\nimport tensorflow as tf\ntf.constant(np.empty([2**31 + 1], np.int8))")
    assert ended.status == 1
    assert "ValueError: Cannot create a tensor proto whose content is larger than 2GB." in ended.err
    assert_told(ended, "whale: a graph and each constant in it hold at most 2 GB, ... at SCRIPT:3 fix: feed", tmp_path)


# -- batches and strategies ------------------------------------------------------------------------------------


WHOLE = "tf.linalg.svd(rows, compute_uv=False) * tf.reduce_sum(weights)"
"""An op on the whole batch, which no rule cuts."""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("[8, 3]", "[1, 3]"), "one replica: the batch has fewer samples than there are devices"),
        (("{rows: np.ones([8, 3])}", "{}"), "one replica: nothing is fed or drawn that can be cut"),
        (("tf.matmul(rows, weights)", WHOLE), "one replica: Svd 'Svd' at FILE:6: "),
    ],
)
def test_a_batch_that_cannot_be_cut_trains_on_one_replica_and_says_why(
    change: tuple[str, str], reason: str, whale: Whale, tmp_path: pathlib.Path
) -> None:
    script = TRAINING.replace(
        "tf.placeholder(tf.float32, [None, 3])", "tf.placeholder_with_default(tf.ones([8, 3]), [None, 3])"
    )
    ended = whale(RUN, script.replace(*change))
    assert ended.status == 0, ended.err
    assert re.search(r"loss [0-9.]+\n", ended.out)
    assert f"whale: {reason}".replace("FILE", f"{tmp_path}/script.py") in ended.err and "cut signature" not in ended.err


@pytest.mark.parametrize(
    ("words", "scope", "replicas"),
    [
        ("", "wh.replica(devices=['gpu:1', 'gpu:3'])", "2 replicas on /device:CPU:1, /device:CPU:3"),
        ("", "wh.replica(devices='gpu:2')", "one replica: the script's scopes name the one device /device:CPU:2"),
        ("--strategy replica", "wh.replica(devices='gpu:2')", "4 replicas on "),
        ("--strategy annotated", "wh.replica()", "4 replicas on "),
        ("--strategy annotated", "tf.name_scope('plain')", "one replica: no scope of the script asks for copies"),
    ],
)
def test_scopes_and_strategy_decide_which_devices_are_used(words: str, scope: str, replicas: str, whale: Whale) -> None:
    script = TRAINING.replace("import numpy as np", "import numpy as np\n    import whale as wh").replace(
        "loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights)))",
        f"with {scope}:\n        loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights)))",
    )
    ended = whale(f"run --devices 4 {words} script.py", script)
    assert ended.status == 0, ended.err
    assert ended.out == "loss 9.0\n"
    assert replicas in ended.err


def test_visible_devices_of_the_environment_hold_for_a_script_that_initialises_too(whale: Whale) -> None:
    for first_line in ("", "import whale; whale.init()"):
        script = f"{first_line}\n{textwrap.dedent(TRAINING)}"
        ended = whale("run --devices 4 script.py", script, WHALE_CLUSTER_RUN_VISIBLE_DEVICES="1,3,0")
        assert ended.status == 0, ended.err
        assert "3 replicas on /device:CPU:0, /device:CPU:1, /device:CPU:2" in ended.err


def test_shares_of_a_plan_file_are_followed(whale: Whale, tmp_path: pathlib.Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "shares": [3, 1]}))
    ended = whale("run --devices 2 --plan plan.json script.py", TRAINING)
    assert ended.status == 0 and "shares 3:1" in ended.err and ended.out == "loss 9.0\n"


def test_a_plan_file_that_is_deleted_after_the_start_is_followed(whale: Whale, tmp_path: pathlib.Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "shares": [3, 1]}))
    script = f"import os; os.remove('plan.json')\n{textwrap.dedent(TRAINING)}"
    ended = whale("run --devices 2 --plan plan.json script.py", script)
    assert ended.status == 0 and "shares 3:1" in ended.err and ended.out == "loss 9.0\n"
