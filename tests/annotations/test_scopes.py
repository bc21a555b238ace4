"""Scopes: what is stamped, what may be nested, which devices are meant."""

from __future__ import annotations

import gc
import inspect
import weakref
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

import whale as wh
from whale.annotations.capture import SCOPE_ATTRIBUTE, capture
from whale.annotations.state import Annotations, annotations_of
from whale.annotations.strategies import Kind

pytestmark = pytest.mark.usefixtures("graph")

FOUR = tuple(f"/device:CPU:{index}" for index in range(4))


def said() -> Annotations:
    found = annotations_of(tf.get_default_graph())
    assert found is not None
    return found


def stamp(tensor: tf.Tensor) -> int | None:
    return tensor.op.get_attr(SCOPE_ATTRIBUTE) if SCOPE_ATTRIBUTE in tensor.op.node_def.attr else None


def line() -> int:
    """The caller's line."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_ops_made_inside_are_stamped_and_others_are_not() -> None:
    before = tf.constant(1.0)
    with wh.replica(name="model"):
        weight = tf.get_variable("w", [2])
        inside = weight * 2
    after = tf.constant(1.0)
    (scope,) = said().scopes
    assert (scope.kind, scope.name, scope.devices, scope.parent) == (Kind.REPLICA, "model", FOUR, None)
    assert stamp(inside) == stamp(weight.op.outputs[0]) == stamp(weight.initializer.inputs[1]) == scope.index
    assert stamp(before) is stamp(after) is None
    assert said().scope_of(scope.index) is scope
    assert said().scope_of(None) is None


def test_a_scope_adds_no_op(graph: tf.Graph) -> None:
    with wh.cluster(), wh.replica():
        assert not graph.get_operations()


def test_capture_reads_the_stamp(graph: tf.Graph) -> None:
    with wh.replica():
        tf.constant(1.0, name="inside")
    assert capture(graph).ops["inside"].scope == said().scopes[0].index


def test_the_site_is_the_line_that_enters() -> None:
    scope = wh.replica()
    with scope:
        at = line() - 1
        tf.constant(1.0)
    site = said().scopes[0].site
    assert site is not None and (site.path, site.line) == (__file__, at)


def test_a_scope_can_be_entered_again() -> None:
    scope = wh.replica(name="tower")
    stamps = set()
    for _ in range(2):
        with scope as entered:
            assert entered is scope
            stamps.add(stamp(tf.constant(1.0)))
    assert stamps == {made.index for made in said().scopes} and len(stamps) == 2


def test_a_scope_left_by_an_exception_is_closed() -> None:
    with pytest.raises(LookupError), wh.replica():
        raise LookupError
    assert stamp(tf.constant(1.0)) is None
    with wh.replica():
        tf.constant(1.0)


def test_each_graph_has_its_own_scopes() -> None:
    with wh.replica(), tf.Graph().as_default():
        with wh.replica(name="inner"):
            tf.constant(1.0)
        assert [scope.name for scope in said().scopes] == ["inner"]
    assert [scope.name for scope in said().scopes] == [""]


# -- nesting ---------------------------------------------------------------------------------------------------


def test_a_strategy_inside_itself_names_both_lines() -> None:
    with wh.replica(name="outer"):
        outer = line() - 1
        with pytest.raises(wh.ScopeError, match="replica is nested in a scope of the same strategy") as caught:
            inner = line() + 1
            with wh.replica():
                pass
    assert f"opened at {__file__}:{outer}" in caught.value.what
    assert caught.value.site is not None and caught.value.site.line == inner
    assert len(said().scopes) == 1


@pytest.mark.parametrize("name", ["split"])
def test_a_strategy_that_is_not_available_says_what_works(name: str) -> None:
    scope = getattr(wh, name)()
    with pytest.raises(wh.ScopeError, match=rf"wh\.{name} is not available in this version") as caught:
        at = line() + 1
        with scope:
            pass
    assert "wh.replica()" in caught.value.fix
    assert caught.value.site is not None and (caught.value.site.path, caught.value.site.line) == (__file__, at)
    assert said().scopes == ()


def test_scopes_left_out_of_order() -> None:
    scope = wh.replica()
    scope.__enter__()
    scope.__exit__(None)
    with pytest.raises(wh.ScopeError, match="not the innermost open scope"):
        scope.__exit__(None)


def test_a_scope_in_a_function_body() -> None:
    def body(value: tf.Tensor) -> tf.Tensor:
        with pytest.raises(wh.ScopeError, match="inside a function body"), wh.replica():
            pass
        return value

    tf.data.Dataset.range(3).map(body)


# -- devices ---------------------------------------------------------------------------------------------------


def test_devices_by_slice_string_and_count() -> None:
    layout = wh.cluster(layout={"average": 2})
    assert layout.slices == [[["/device:CPU:0"], ["/device:CPU:1"]], [["/device:CPU:2"], ["/device:CPU:3"]]]
    with wh.replica(devices=layout.slices[1]):
        tf.constant(1.0)
    assert said().devices == FOUR[2:]


@pytest.mark.parametrize(
    ("arguments", "devices"),
    [
        ({"devices": ["gpu:1", "/cpu:0"]}, ("/device:CPU:1", "/device:CPU:0")),
        ({"devices": [["gpu:0", "gpu:1"], ["gpu:2", "gpu:3"]]}, FOUR),
        ({"devices": "/device:CPU:2"}, ("/device:CPU:2",)),
        ({"device_count": 1}, FOUR),
        ({"device_count": 4}, FOUR),
        ({"devices": 2}, FOUR),
    ],
)
def test_devices_a_scope_gets(arguments: dict[str, Any], devices: tuple[str, ...]) -> None:
    with wh.replica(**arguments):
        tf.constant(1.0)
    assert said().devices == devices


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"devices": ["gpu:7"]}, r"replica: no device 'gpu:7' in a cluster of 4 devices"),
        ({"devices": ["gpu:0", "cpu:0"]}, r"replica: device '/device:CPU:0' is used twice"),
        ({"devices": [["gpu:0"], ["gpu:1", "gpu:2"]]}, r"replica 1 has 2 devices and replica 0 has 1"),
        ({"devices": ["first"]}, r"'first' is not a device string"),
        ({"device_count": 8, "name": "big"}, r"replica 'big': device_count asks for 8 devices, and there are 4"),
        ({"device_count": 3}, r"models of 3 devices each cannot use up 4 devices"),
    ],
)
def test_devices_that_do_not_exist_are_told_at_the_call(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(wh.ClusterError, match=message) as caught:
        wh.replica(**arguments)
    assert caught.value.site is not None and caught.value.site.path == __file__


def test_replicas_on_different_devices_are_not_available() -> None:
    with wh.replica(devices=["gpu:0", "gpu:1"]):
        tf.constant(1.0)
    with pytest.raises(wh.ScopeError, match="on other devices than replica"), wh.replica(devices=["gpu:2"]):
        pass
    with wh.replica(devices=["gpu:1", "gpu:0"], name="the same"):
        tf.constant(1.0)


# -- defaults --------------------------------------------------------------------------------------------------


def test_the_current_scope_goes_on_after_it_is_left() -> None:
    with wh.replica(name="a"):
        wh.current_scope_as_default()
        first = tf.constant(1.0)
    second = tf.constant(1.0)
    with wh.replica(name="b"):
        third = tf.constant(1.0)
    fourth = tf.constant(1.0)
    a, b = (scope.index for scope in said().scopes)
    assert [stamp(tensor) for tensor in (first, second, third, fourth)] == [a, a, b, a]
    assert said().default is said().scopes[0] and said().rest is None


def test_a_later_default_takes_over() -> None:
    for name in ("a", "b"):
        with wh.replica(name=name):
            wh.current_scope_as_default()
            tf.constant(1.0)
    assert stamp(tf.constant(1.0)) == said().scopes[1].index


def test_current_scope_as_default_outside_of_a_scope() -> None:
    with pytest.raises(wh.ScopeError, match="called outside of every scope") as caught:
        wh.current_scope_as_default()
    assert caught.value.site is not None and caught.value.site.path == __file__


def test_a_default_strategy_set_before_the_first_op_needs_no_stamp() -> None:
    wh.set_default_strategy(wh.replicate(1))
    made = tf.constant(1.0)
    assert stamp(made) is None
    scope = said().scope_of(stamp(made))
    assert scope is said().default is said().rest
    assert scope is not None and scope.is_default and scope.devices == FOUR


def test_a_default_strategy_set_between_ops_takes_the_later_ones() -> None:
    before = tf.constant(1.0)
    wh.set_default_strategy(wh.replicate(device_count=4, name="main"))
    after = tf.constant(1.0)
    with wh.replica(name="inner"):
        inside = tf.constant(1.0)
    scopes = [said().scope_of(stamp(tensor)) for tensor in (before, after, inside)]
    assert [scope and scope.name for scope in scopes] == [None, "main", "inner"]


def test_a_default_strategy_holds_in_graphs_made_later() -> None:
    wh.set_default_strategy(wh.replicate(1, name="main"))
    with tf.Graph().as_default():
        made = tf.constant(1.0)
        scope = said().scope_of(stamp(made))
        assert scope is not None and scope.name == "main" and said().asks_for_replicas


@pytest.mark.parametrize("strategy", [None, wh.replica, "replica"])
def test_what_is_no_strategy_cannot_be_the_default(strategy: Any) -> None:
    with pytest.raises(wh.ScopeError, match="the default strategy cannot be"):
        wh.set_default_strategy(strategy)


def test_a_default_that_is_not_available() -> None:
    with pytest.raises(wh.ScopeError, match=r"wh\.split is not available"):
        wh.set_default_strategy(wh.split(4))


# -- auto ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategies", [(), (wh.replica,), (wh.replicate,)])
def test_auto_parallel_needs_no_other_call(strategies: tuple[Any, ...]) -> None:
    wh.auto_parallel(*strategies)
    with tf.Graph().as_default():
        assert said().auto == tuple(Kind.REPLICA for _ in strategies)
        assert said().asks_for_replicas and not said().devices


@pytest.mark.parametrize("strategies", [("replica",), (wh.replica, wh.init)])
def test_auto_parallel_of_what_is_no_strategy(strategies: tuple[Any, ...]) -> None:
    with pytest.raises(wh.ScopeError, match="is not a strategy"):
        wh.auto_parallel(*strategies)


def test_auto_parallel_takes_scopes_and_refuses_what_is_not_available() -> None:
    wh.auto_parallel(wh.replica())
    assert said().auto == (Kind.REPLICA,)
    wh.auto_parallel(wh.replica, wh.stage)
    assert said().auto == (Kind.REPLICA, Kind.STAGE)


# -- memory ----------------------------------------------------------------------------------------------------


def test_annotations_do_not_keep_a_graph_alive() -> None:
    made = tf.Graph()
    with made.as_default():
        with wh.replica():
            wh.current_scope_as_default()
            wh.add_to_collection(tf.constant(1.0), wh.GraphKeys.GLOBAL_MEAN_OBJECTS)
        wh.set_default_strategy(wh.replica())
    kept = weakref.ref(made)
    del made
    gc.collect()
    assert kept() is None
