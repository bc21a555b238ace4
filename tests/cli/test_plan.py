"""``whale plan`` from the command line, and runs that follow what it wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Whale

SCRIPT = """
    import sys
    import numpy as np
    import tensorflow as tf
    tf.set_random_seed(1)
    width = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    rows = tf.placeholder(tf.float32, [None, 8])
    hidden = rows
    for layer in range(4):
        with tf.variable_scope("layer_%d" % layer):
            hidden = tf.layers.dense(hidden, width, tf.nn.tanh)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1)))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    random = np.random.RandomState(0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(6):
            print("loss %.5f" % sess.run([loss, train], {rows: random.randn(24, 8)})[0])
"""

CLUSTER = """
    hosts:
      - name: host0
        devices:
          - {model: V100, count: 2}
          - {model: P100-PCIe, count: 2}
"""


def losses(output: str) -> list[str]:
    return re.findall(r"loss (\S+)", output)


def write(path: Path, text: str) -> str:
    path.write_text("\n".join(line[4:] for line in text.strip("\n").splitlines()), encoding="utf-8")
    return path.name


def test_a_plan_is_shown_and_written(whale: Whale, tmp_path: Path) -> None:
    name = write(tmp_path / "c.yaml", CLUSTER)
    done = whale(f"plan --cluster {name} --json p.json --html p.html --trace t.json script.py", SCRIPT)
    assert done.status == 0, done.err
    assert not losses(done.out), "it trained"
    assert "Plan of script.py" in done.out and "24 samples" in done.out
    plan = json.loads((tmp_path / "p.json").read_text())
    assert plan["report"]["graph"]["batch_mode"] == "global"
    assert plan["models"] == ["V100", "V100", "P100-PCIe", "P100-PCIe"]
    assert (tmp_path / "p.html").read_text().startswith("<!DOCTYPE html>")
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_a_run_follows_a_plan_file(whale: Whale, tmp_path: Path) -> None:
    planned = whale("plan --devices 4 --json p.json script.py", SCRIPT)
    assert planned.status == 0, planned.err
    alone = whale("run script.py")
    followed = whale("run --devices 4 --plan p.json script.py")
    assert followed.status == 0, followed.err
    assert losses(followed.out) == losses(alone.out) != []
    layout = json.loads((tmp_path / "p.json").read_text())
    used = {*layout["devices"], *(device for stage in layout["stages"] for device in stage["devices"])}
    told = followed.err
    assert all(device in told for device in used) or len(used) == 1


def test_what_auto_runs_is_what_one_device_computes(whale: Whale) -> None:
    alone = whale("run script.py", SCRIPT)
    auto = whale("run --devices 4 --strategy auto script.py")
    assert auto.status == 0, auto.err
    assert losses(auto.out) == losses(alone.out)
    assert "planned: " in auto.err or "one replica" in auto.err


def test_stages_of_a_plan_file_run(whale: Whale, tmp_path: Path) -> None:
    stages = [
        {"name": "front", "devices": ["/device:CPU:0", "/device:CPU:1"], "ops": ["layer_0/*", "layer_1/*"]},
        {"name": "back", "devices": ["/device:CPU:2", "/device:CPU:3"], "ops": ["*"]},
    ]
    plan = {"version": 1, "shares": [2, 1], "devices": stages[0]["devices"], "micro_batches": 3, "stages": stages}
    (tmp_path / "p.json").write_text(json.dumps(plan))
    done = whale("run --devices 4 --plan p.json script.py", SCRIPT)
    assert done.status == 0, done.err
    assert "stage 0 'front' on /device:CPU:0, /device:CPU:1" in done.err
    assert "6 pieces (3 micro-batches x 2 replicas)" in done.err
    assert losses(done.out) == losses(whale("run script.py").out)


def test_offers_are_compared(whale: Whale, tmp_path: Path) -> None:
    for name, model in (("fast.yaml", "A100"), ("slow.yaml", "K80")):
        write(tmp_path / name, f"    hosts:\n      - name: h\n        devices:\n          - {{model: {model}}}\n")
    words = "plan --cluster slow.yaml --cluster fast.yaml --price 0.4 --price 30 --samples 1000000 script.py"
    done = whale(words, SCRIPT)
    assert done.status == 0, done.err
    assert "slow.yaml" in done.out and "fast.yaml" in done.out


@pytest.mark.parametrize(
    ("model", "words", "message"),
    [
        ("V99", "", "unknown device model 'V99' .*V100"),
        (
            "K80, memory: 1 MiB",
            "script.py 4096",
            "the model fits on no plan of these devices: the smallest memory found",
        ),
    ],
)
def test_devices_that_will_not_do(model: str, words: str, message: str, whale: Whale, tmp_path: Path) -> None:
    write(tmp_path / "c.yaml", f"    hosts:\n      - name: h\n        devices:\n          - {{model: {model}}}\n")
    done = whale(f"plan --cluster c.yaml {words or 'script.py'}", SCRIPT)
    assert done.status == 2
    assert re.search(message, " ".join(done.err.split())), done.err


def test_a_dead_link_is_told(whale: Whale, tmp_path: Path) -> None:
    cluster = """
    hosts:
      - {name: a, address: "a:1", devices: [{model: V100}]}
      - {name: b, address: "b:1", devices: [{model: V100}]}
    links:
      - {kind: network, hosts: [a, b], speed: 1 GB/s, latency: 10 us, down: true}
    """
    write(tmp_path / "c.yaml", cluster)
    done = whale("plan --cluster c.yaml --strategy replica script.py", SCRIPT)
    assert done.status == 2 and "is down" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run --devices 4 --plan p.json script.py 32", "the plan was made for another graph"),
        ("run --devices 2 --plan p.json script.py", "the plan is for .* the cluster has /device:CPU:0, /device:CPU:1"),
    ],
)
def test_a_plan_for_something_else_is_refused(words: str, message: str, whale: Whale, tmp_path: Path) -> None:
    planned = whale("plan --devices 4 --strategy replica --json p.json script.py", SCRIPT)
    assert planned.status == 0, planned.err
    done = whale(words)
    assert done.status == 2
    assert re.search(message, " ".join(done.err.split())), done.err


NO_SIZE = """
    import tensorflow as tf
    rows = tf.data.make_one_shot_iterator(tf.data.Dataset.from_generator(
        lambda: iter([]), tf.float32, [None, {columns}])).get_next()
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.reduce_sum(rows, {axis}, keepdims=True), 1)))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train)
"""


def test_open_sizes_are_asked_for(whale: Whale) -> None:
    script = NO_SIZE.format(columns=3, axis=1)
    done = whale("plan script.py", script)
    assert done.status == 2 and "--batch-size N" in done.err and "script.py:2" in done.err
    assert whale("plan --batch-size 16 script.py").status == 0
    done = whale("plan --batch-size 16 script.py", NO_SIZE.format(columns="None", axis=1))
    assert done.status == 2 and "--size 'IteratorGetNext:0[1]=N'" in done.err
    assert whale("plan --batch-size 16 --size IteratorGetNext:0[1]=9 script.py").status == 0


@pytest.mark.parametrize(
    ("script", "status", "message"),
    [
        ("print('nothing')", 2, "ended without a training step"),
        ("raise SystemExit(3)", 3, ""),
        ("{}['x']", 1, "KeyError: 'x'"),
    ],
)
def test_a_script_that_does_not_get_there(script: str, status: int, message: str, whale: Whale) -> None:
    done = whale("plan script.py", script)
    assert done.status == status and message in done.err


def test_explain_tells_what_was_measured(whale: Whale) -> None:
    script = (
        SCRIPT
        + "        import whale\n        print(whale.explain(sess))\n        print(len(whale.explain(sess).html()))\n"
    )
    done = whale("run --devices 2 script.py", script)
    assert done.status == 0, done.err
    assert "Plan of script.py" in done.out and "2 copies of the model" in done.out
    assert re.search(r"step .* predicted|step +\S+ \S+", done.out)
    assert "measured" in done.out


def test_explain_of_what_is_not_bound(whale: Whale) -> None:
    script = """
        import tensorflow as tf
        import whale
        with tf.Session() as sess:
            whale.explain(sess)
    """
    assert "has not trained yet" in whale("run --devices 2 script.py", script).err
    assert "is not run by Whale" in whale("run script.py", script).err


CONFIGURED = """
    import numpy as np
    import tensorflow as tf
    import whale as wh
    wh.init(wh.Config({"batch.mode": "MODE"}))
    wh.auto_parallel()
    rows = tf.placeholder(tf.float32, [None, 8])
    loss = tf.reduce_mean(tf.square(tf.layers.dense(rows, 4)))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train, {rows: np.ones((24, 8))})
"""


@pytest.mark.parametrize(("mode", "searched"), [("global", True), ("local", False)])
def test_what_the_script_configures_holds(mode: str, searched: bool, whale: Whale) -> None:
    done = whale("plan --devices 2 script.py", CONFIGURED.replace("MODE", mode))
    assert done.status == 0, done.err
    assert f"24 samples a step, {mode}" in done.out, "a batch that is fed is cut in both modes"
    assert ("Nothing was searched" in done.out) is not searched


def test_a_size_that_is_not_open_is_told(whale: Whale) -> None:
    done = whale("plan --devices 2 --size Placeholder:0[7]=3 script.py", SCRIPT)
    assert done.status == 2 and "no size of the training step is open under the name 'Placeholder:0[7]'" in done.err


def test_a_stack_of_layers_may_be_cut_behind_its_last_variable(whale: Whale, tmp_path: Path) -> None:
    write(tmp_path / "c.yaml", CLUSTER)
    for layers in (2048, 4096):
        done = whale(f"plan --cluster c.yaml script.py {layers}", SCRIPT)
        assert done.status == 0 and "left out" not in done.out, done.out
