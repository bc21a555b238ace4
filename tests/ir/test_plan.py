"""Plan files: what is written is read again, and what is wrong is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale.errors import PlanError
from whale.ir.plan import Plan, PlannedStage, dump, graph_print, load
from whale.ir.program import Op, TensorType

NAMES = st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=2, unique=True).map(tuple)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    replicas = draw(st.integers(1, 3))
    count = draw(st.integers(0, 3))
    named = draw(st.booleans())
    stages = tuple(
        PlannedStage(tuple(f"stage{s}:{r}" for r in range(replicas)), draw(NAMES) if named else (), draw(st.text()))
        for s in range(count)
    )
    return Plan(
        shares=tuple(draw(st.lists(st.integers(1, 9), min_size=replicas, max_size=replicas))),
        devices=stages[0].devices if stages else tuple(f"d{r}" for r in range(replicas)),
        batch=draw(st.sampled_from(["", "global", "local"])),
        micro_batches=draw(st.integers(0, 64)),
        schedule=draw(st.sampled_from(["", "gpipe"])),
        stages=stages,
        graph=draw(st.sampled_from(["", "0123"])),
        models=draw(NAMES),
    )


@given(plans())
def test_what_is_written_is_read_again(plan: Plan) -> None:
    assert load(dump(plan)) == plan
    assert load(dump(plan, {"told": ["beside it"]})) == plan


GOOD: dict[str, Any] = {"version": 1, "shares": [1, 1], "stages": [{"devices": ["a", "b"]}, {"devices": ["c", "d"]}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shares": [1]}, "stage 0 has 2 devices, and there are 1 shares"),
        ({"stages": [{"devices": ["a", "b"]}, {"devices": ["b", "c"]}]}, "are on device 'b'"),
        ({"stages": [{"devices": ["a", "b"], "ops": ["x/*"]}, {"devices": ["c", "d"]}]}, "do not both name their ops"),
        ({"stages": [{"device": ["a", "b"]}]}, "unknown field 'device'"),
        ({"stages": ["a"]}, "must be a list of objects"),
        ({"micro_batches": "4"}, "field 'micro_batches' must be an integer"),
        ({"micro_batches": -1}, "-1 micro-batches"),
        ({"schedule": 1}, "field 'schedule' must be text"),
        ({"schedule": "1f2b"}, "field 'schedule': unknown pipeline strategy '1f2b'"),
        ({"models": [1]}, "field 'models' must be a list of strings"),
        ({"version": 9}, "field 'version' is 9"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    load(json.dumps(GOOD))
    with pytest.raises(PlanError) as caught:
        load(json.dumps({**GOOD, **change}), "p.json")
    assert message in caught.value.what and caught.value.what.startswith("p.json: ")


def test_stages_of_an_interleaved_pipeline_share_devices() -> None:
    rows = (("a", "b"), ("c", "d"))
    plan = Plan((1, 1), rows[0], stages=tuple(PlannedStage(row) for row in rows * 2), schedule="interleaved")
    assert load(dump(plan)) == plan


def op(name: str, shape: tuple[int | None, ...], *inputs: str) -> Op:
    return Op(name, "MatMul", inputs, (), (TensorType("float32", shape),), {}, b"")


def test_a_print_tells_ops_inputs_and_shapes_apart() -> None:
    one, two = op("a", (2, 3)), op("b", (3,), "a:0")
    assert graph_print([one, two]) == graph_print([two, one])
    prints = {graph_print(ops) for ops in ([one], [one, two], [one, op("b", (4,), "a:0")], [one, op("b", (3,), "a:1")])}
    assert len(prints) == 4
