"""Pipelines: how near a step comes to its schedule, and what binding BERT-Large costs.

Run it as ``python benchmarks/pipeline.py``.

Speed: a transformer of four stages, each bound by a Python function that sleeps for a known time in the forward pass
and twice as long in the backward pass. Sleeping takes no processor, so a machine with two cores shows the schedule of
four devices. The ideal step is that of the schedule with these times and nothing else.

Binding: BERT-Large in four stages with 1 and with 8 micro-batches, each in a fresh process: seconds that the script's
own code takes to build the graph, seconds that the session's first runs take beyond a later step (Whale's work and
TensorFlow's for the larger graph), nodes, peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

STAGES = 4
MICRO_BATCHES = 8
SCHEDULES = ("PreferForward", "PreferBackward", "PreferBackwardOptimizer", "Interleaved")
WITHIN = 1.10
"""Goal: the measured step over the ideal one."""


def main() -> None:
    """Measures what the command line asks for and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("speed", "bind"), help="default: both")
    parser.add_argument("--seconds", type=float, default=0.03, help="a forward pass of one stage and micro-batch")
    parser.add_argument("--steps", type=int, default=7, help="measured steps; their median counts")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # one measurement, in a process of its own
    args = parser.parse_args()
    if args.one:
        kind, _, rest = args.one.partition(":")
        print("RESULT", json.dumps(_speed(rest, args.seconds, args.steps) if kind == "speed" else _bind(int(rest))))
        return
    if args.only != "bind":
        _print_speed(args)
    if args.only != "speed":
        _print_bind()


def _fresh(one: str, args: argparse.Namespace | None = None) -> dict:
    """A measurement in a fresh process."""
    command = [sys.executable, __file__, "--one", one]
    if args is not None:
        command += ["--seconds", str(args.seconds), "--steps", str(args.steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[len("RESULT ") :])
    raise SystemExit(f"{one} failed:\n{done.stdout}\n{done.stderr[-3000:]}")


# -- speed -----------------------------------------------------------------------------------------------------


def _print_speed(args: argparse.Namespace) -> None:
    print(
        f"{STAGES} stages of a transformer, {MICRO_BATCHES} micro-batches, forward {args.seconds * 1e3:.0f} ms a stage"
    )
    print(f"{'schedule':26}{'devices':>8}{'step s':>9}{'ideal s':>9}{'ratio':>7}{'bubble':>8}  live per stage   goal")
    for schedule in SCHEDULES:
        found = _fresh(f"speed:{schedule}", args)
        ratio = found["step"] / found["ideal"]
        live = " ".join(str(n) for n in found["live"])
        goal = "met" if ratio <= WITHIN else "MISSED"
        print(
            f"{schedule:26}{found['devices']:>8}{found['step']:>9.3f}{found['ideal']:>9.3f}{ratio:>7.2f}"
            f"{found['bubble']:>8.1%}  {live:16} <= {WITHIN:.2f} {goal}"
        )


def _speed(strategy: str, forward: float, steps: int) -> dict:
    """One schedule: the median step, the ideal one, and the live micro-batches that were seen."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    from benchmarks import pipeline_model
    from whale.cluster import Cluster
    from whale.ir.schedule_timing import timing
    from whale.ir.schedules import make
    from whale.runtime import activation, options

    devices = STAGES // 2 if strategy == "Interleaved" else STAGES
    watch = pipeline_model.Watch(STAGES)
    with activation.activate(options.Options(cluster=Cluster.local(devices), batch="local", quiet=True)):
        train, loss = pipeline_model.build(STAGES, MICRO_BATCHES, strategy, forward, watch)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run([train, loss])
            watch.reset()
            times = []
            for _ in range(steps):
                begin = time.perf_counter()
                session.run([train, loss])
                times.append(time.perf_counter() - begin)
    schedule = make(strategy, STAGES, devices, MICRO_BATCHES)
    ideal = timing(schedule, forward, 2 * forward)
    return {
        "devices": devices,
        "step": sorted(times)[len(times) // 2],
        "ideal": ideal.makespan,
        "bubble": ideal.bubble,
        "live": watch.peaks,
    }


# -- binding ---------------------------------------------------------------------------------------------------


def _print_bind() -> None:
    print("\nBinding BERT-Large (hidden 64, 24 layers, 24k ops), 4 stages")
    print(f"{'micro-batches':>14}{'build s':>9}{'bind s':>8}{'ratio':>11}{'nodes':>9}{'peak MB':>9}   goal <= 3 builds")
    rows = {m: _fresh(f"bind:{m}") for m in (1, MICRO_BATCHES)}
    for micro_batches, row in rows.items():
        ratio = row["bind"] / row["build"]
        goal = "met" if ratio <= 3 else "MISSED"
        print(
            f"{micro_batches:>14}{row['build']:>9.1f}{row['bind']:>8.1f}{ratio:>11.2f}{row['nodes']:>9}"
            f"{row['peak_mb']:>9.0f}   {goal}"
        )
    more = (rows[MICRO_BATCHES]["nodes"] - rows[1]["nodes"]) / (MICRO_BATCHES - 1)
    part = more / rows[1]["ops"]
    print(
        f"each micro-batch after the first adds {more:,.0f} nodes, {part:.0%} of the graph's {rows[1]['ops']:,} ops ",
        end="",
    )
    print(f"(goal <= 50 %: {'met' if part <= 0.5 else 'MISSED'})")


def _bind(micro_batches: int) -> dict:
    """Builds BERT-Large in four stages and binds its training step."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    from benchmarks import pipeline_model
    from whale.cluster import Cluster
    from whale.runtime import activation, options

    with activation.activate(options.Options(cluster=Cluster.local(STAGES), batch="local", quiet=True)) as active:
        begin = time.perf_counter()
        train, loss = pipeline_model.bert_large(STAGES, micro_batches)
        initializer = tf.global_variables_initializer()
        built = time.perf_counter()
        ops = len(tf.get_default_graph().get_operations())
        with tf.Session() as session:
            session.run(initializer)
            session.run([train, loss])
            first = time.perf_counter()
            session.run([train, loss])
            again = time.perf_counter()
    report = next(report for report in active.reports if report.cut)
    return {
        "build": built - begin,
        "bind": (first - built) - (again - first),
        "nodes": report.ops,
        "ops": ops,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "seconds": dict(report.seconds),
    }


if __name__ == "__main__":
    main()
