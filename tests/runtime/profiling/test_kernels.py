"""Nodes that ran beside the ops that the cost model counts."""

from __future__ import annotations

import pytest

from whale.cost_model import Curve, Work, WorkClass
from whale.errors import Site
from whale.ir.program import Op, Phase, Program, TensorType
from whale.runtime.profiling.kernels import StepParts, take_apart
from whale.runtime.profiling.trace import Span, Trace


def op(
    name: str, kind: str, *inputs: str, phase: Phase = Phase.FORWARD, line: int = 1, forward: str | None = None
) -> Op:
    tensors = tuple(f"{name}:0" for name in inputs)
    site = Site("s.py", line)
    result = (TensorType("float32", (4,)),)
    return Op(name, kind, tensors, (), result, {}, b"", phase=phase, site=site, forward=forward)


OPS = (
    op("next", "IteratorGetNext", phase=Phase.INPUT),
    op("kernel", "Identity"),
    op("product", "MatMul", "next", "kernel", line=7),
    op("biased", "BiasAdd", "product"),
    op("relu", "Relu", "biased", line=9),
    op("loss", "Mean", "relu"),
    op("product_grad", "MatMul", "loss", "relu", phase=Phase.BACKWARD, line=20, forward="product"),
    op("input_grad", "MatMul", "loss", "kernel", phase=Phase.BACKWARD),
)
PROGRAM = Program({each.name: each for each in OPS})

PRODUCT = Work(WorkClass.MATMUL, Phase.FORWARD, Curve((100.0,)), Curve((1.0,)))
LIGHT = Work(WorkClass.MEMORY, Phase.FORWARD, Curve((1.0,)), Curve((1.0,)))
WORK = {
    "product": PRODUCT,
    "biased": LIGHT,
    "relu": LIGHT,
    "loss": LIGHT,
    "product_grad": PRODUCT,
    "input_grad": PRODUCT,
}


def trace(*spans: tuple[str, str, float, float]) -> Trace:
    found = tuple(Span(*each, handing=0.25) for each in spans)
    return Trace(found, found)


STEP = (
    ("next", "IteratorGetNext", 0.0, 3.0),
    ("kernel", "Identity", 3.0, 3.5),
    ("relu", "_FusedMatMul", 4.0, 6.0),
    ("loss", "Mean", 8.0, 9.0),
    ("made/by_optimizer", "Transpose", 9.0, 9.5),
    ("product_grad", "MatMul", 10.0, 14.0),
)


def parts_of(*steps: tuple[tuple[str, str, float, float], ...]) -> StepParts:
    return take_apart(PROGRAM, WORK, [trace(*step) for step in steps])


def test_a_fused_node_stands_for_what_did_not_run_before_it() -> None:
    found = {kernel.name: kernel for kernel in parts_of(STEP).kernels}
    assert sorted(found) == ["loss", "product_grad", "relu"]
    assert found["relu"].type == "_FusedMatMul"
    assert sorted(w.work_class.value for w in found["relu"].work) == ["matmul", "memory", "memory"]
    assert found["relu"].seconds == pytest.approx(2.0)


def test_the_type_of_a_node_may_change_alone() -> None:
    changed = tuple(("loss", "Snapshot", a, b) if name == "loss" else (name, kind, a, b) for name, kind, a, b in STEP)
    (loss,) = (kernel for kernel in parts_of(changed).kernels if kernel.name == "loss")
    assert (loss.type, loss.work) == ("Snapshot", (LIGHT,))


def test_a_gradient_has_the_line_of_its_layer() -> None:
    lines = {kernel.name: kernel.site for kernel in parts_of(STEP).kernels}
    assert lines["product_grad"] == Site("s.py", 7)
    assert lines["relu"] == Site("s.py", 9)


def test_what_did_not_run_is_told() -> None:
    assert parts_of(STEP).removed == (("input_grad", PRODUCT),)


def test_times_are_medians_over_steps() -> None:
    slow = tuple((name, kind, a, b + 5 if name == "product_grad" else b) for name, kind, a, b in STEP)
    found = {kernel.name: kernel.seconds for kernel in parts_of(STEP, slow, STEP).kernels}
    assert found["product_grad"] == pytest.approx(4.0)


def test_the_time_between_ops_has_no_waiting_for_input() -> None:
    assert parts_of(STEP).between == pytest.approx(3.0)  # 6 to 8 and 9 to 10
    waits = (*STEP, ("next", "IteratorGetNext", 6.5, 8.0))
    assert parts_of(waits).between == pytest.approx(1.5)


def test_a_loop_counts_one_run() -> None:
    twice = (*STEP, ("loss", "Mean", 15.0, 18.0))
    (loss,) = (kernel for kernel in parts_of(twice).kernels if kernel.name == "loss")
    assert (loss.runs, loss.seconds) == (2, pytest.approx(2.0))


def test_on_a_gpu_kernels_take_the_time_and_the_host_hands_them_out() -> None:
    host = (
        Span("product", "MatMul", 0.0, 1.0),
        Span("loss", "Mean", 1.0, 2.0),
        Span("copy", "_Recv", 2.0, 9.0),
    )
    kernels = (
        Span("product", "MatMul", 1.0, 4.0),
        Span("product", "MatMul", 4.0, 5.0),
        Span("loss", "Mean", 5.0, 5.5),
        Span("void gemm", "", 6.0, 7.0),
    )
    found = take_apart(PROGRAM, WORK, [Trace(host, kernels)])
    assert {kernel.name: kernel.seconds for kernel in found.kernels} == pytest.approx({"product": 4.0, "loss": 0.5})
    assert {kernel.name: kernel.runs for kernel in found.kernels} == {"product": 1, "loss": 1}
    assert found.launch == pytest.approx(2.0)
    assert found.other == pytest.approx(1.0)


def test_a_step_that_ran_elsewhere_has_no_kernels() -> None:
    found = parts_of((("next", "IteratorGetNext", 0.0, 3.0),))
    assert found.kernels == ()
    assert len(found.removed) == len(WORK)
