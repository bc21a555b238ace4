"""Traces of TensorFlow as spans of time."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from whale.runtime.profiling.trace import Span, busy_seconds, read_trace, seconds_of_each

HOST = "/job:localhost/replica:0/task:0/device:GPU:0"


def span(node: str, start: float, end: float) -> Span:
    return Span(node, "Op", start, end)


def gpu_stats() -> Any:
    """What TensorFlow writes of one product, one copy and the host's part of both, on a GPU and a CPU."""
    found = tf.RunMetadata().step_stats
    host = found.dev_stats.add(device=HOST)
    label = "[cpu 0.2MB 0.2MB] dense/MatMul = MatMul(x, dense/kernel/read)"
    host.node_stats.add(
        node_name="dense/MatMul",
        timeline_label=label,
        all_start_micros=1000,
        all_start_nanos=1_000_000,
        op_start_rel_nanos=1000,
        op_end_rel_nanos=6000,
        all_end_rel_micros=10,
        all_end_rel_nanos=10_000,
    )
    cpu = found.dev_stats.add(device=HOST.replace("GPU", "CPU"))
    cpu.node_stats.add(node_name="shape", timeline_label="shape = Shape(x)", all_start_nanos=5, all_end_rel_nanos=7)
    for device in ("/device:GPU:0/stream:all", "/device:GPU:0/stream:13", "/device:GPU:1/stream:all"):
        kernels = found.dev_stats.add(device=device)
        kernels.node_stats.add(
            node_name="dense/MatMul:MatMul", timeline_label="sgemm_128", all_start_micros=2000, all_end_rel_micros=40
        )
    copies = found.dev_stats.add(device="/device:GPU:0/memcpy")
    copies.node_stats.add(node_name="concat:ConcatV2#id=3#", all_start_micros=2100, all_end_rel_micros=3)
    return found


def test_a_gpus_kernels_come_from_its_streams_once() -> None:
    trace = read_trace(gpu_stats(), "GPU")
    assert [(kernel.node, kernel.type) for kernel in trace.kernels] == [
        ("dense/MatMul", "MatMul"),
        ("concat", "ConcatV2"),
    ]
    # GPU times are cut to whole microseconds: half of one is lacking on average.
    assert [kernel.end - kernel.start for kernel in trace.kernels] == pytest.approx([40.5e-6, 3.5e-6])


def test_the_hosts_part_is_apart_from_it() -> None:
    (launch,) = read_trace(gpu_stats(), "GPU").host
    assert (launch.node, launch.type) == ("dense/MatMul", "MatMul")
    assert launch.end - launch.start == pytest.approx(10e-6)
    assert launch.handing == pytest.approx(5e-6)


def test_on_a_cpu_the_hosts_part_is_the_work() -> None:
    trace = read_trace(gpu_stats(), "CPU")
    assert trace.kernels == trace.host
    assert [kernel.node for kernel in trace.kernels] == ["shape"]


def test_an_instant_in_which_several_run_is_divided() -> None:
    spans = [span("a", 0.0, 4.0), span("b", 2.0, 6.0), span("c", 10.0, 11.0)]
    assert seconds_of_each(spans) == pytest.approx({"a": 3.0, "b": 3.0, "c": 1.0})
    assert busy_seconds(spans) == pytest.approx(7.0)


def test_several_kernels_of_a_node_add_up() -> None:
    assert seconds_of_each([span("a", 0.0, 1.0), span("a", 2.0, 4.0)]) == pytest.approx({"a": 3.0})
    assert seconds_of_each([span("a", 0.0, 2.0), span("a", 0.0, 2.0)]) == pytest.approx({"a": 2.0})


def test_what_takes_no_time_has_none() -> None:
    assert seconds_of_each([span("a", 1.0, 1.0)]) == {}
    assert busy_seconds([]) == 0
