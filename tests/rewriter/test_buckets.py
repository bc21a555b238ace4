"""Buckets of an all-reduce."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whale.rewriter.buckets import Reduced, fuse


@st.composite
def tensors(draw: st.DrawFn) -> list[Reduced]:
    """Tensors with different names, of a few types and of sizes over four orders of magnitude."""
    kinds = draw(
        st.lists(st.tuples(st.sampled_from([1, 10, 300, 5000]), st.sampled_from(["float32", "float16"])), max_size=20)
    )
    return [Reduced(f"t{i}:0", (size, 2), dtype) for i, (size, dtype) in enumerate(kinds)]


splits = st.integers(1, 8)
worths = st.sampled_from([1, 100, 2500, 10**6])


def test_bytes_are_those_of_the_type() -> None:
    assert Reduced("a:0", (3, 5), "float32").bytes == 60
    assert Reduced("a:0", (3, 5), "float16").bytes == 30
    assert Reduced("a:0", (), "float64").bytes == 8


@given(tensors(), splits, worths)
def test_every_tensor_is_in_one_bucket(tensors: list[Reduced], max_splits: int, worth: int) -> None:
    placed = [t for bucket in fuse(tensors, max_splits, worth) for t in bucket]
    assert sorted(placed, key=lambda t: t.tensor) == sorted(tensors, key=lambda t: t.tensor)


@given(tensors(), splits, worths)
def test_a_bucket_holds_one_type_in_the_order_of_readiness(tensors: list[Reduced], max_splits: int, worth: int) -> None:
    position = {t.tensor: i for i, t in enumerate(tensors)}
    for bucket in fuse(tensors, max_splits, worth):
        assert bucket
        assert len({t.dtype for t in bucket}) == 1
        order = [position[t.tensor] for t in bucket]
        assert order == sorted(order)


@given(tensors(), splits, worths)
def test_buckets_are_started_when_their_last_tensor_is_ready(
    tensors: list[Reduced], max_splits: int, worth: int
) -> None:
    """Those that are full follow each other as they fill; what is left over goes last, one bucket a type."""
    position = {t.tensor: i for i, t in enumerate(tensors)}
    limit = max(worth, sum(t.bytes for t in tensors) // max_splits)
    buckets = fuse(tensors, max_splits, worth)
    full = [b for b in buckets if sum(t.bytes for t in b) >= limit or b[0].bytes >= worth]
    assert buckets[: len(full)] == full
    ready = [max(position[t.tensor] for t in bucket) for bucket in full]
    assert ready == sorted(ready)
    assert len(buckets) - len(full) <= len({t.dtype for t in tensors})


@given(tensors(), splits, worths)
def test_the_number_of_buckets_is_bounded(tensors: list[Reduced], max_splits: int, worth: int) -> None:
    packed = [t for t in tensors if t.bytes < worth]
    buckets = [b for b in fuse(tensors, max_splits, worth) if b[0].bytes < worth]
    assert len(buckets) <= max_splits + len({t.dtype for t in packed})


@given(tensors(), splits, worths)
def test_a_tensor_worth_a_message_travels_alone(tensors: list[Reduced], max_splits: int, worth: int) -> None:
    for bucket in fuse(tensors, max_splits, worth):
        assert len(bucket) == 1 or all(t.bytes < worth for t in bucket)


def test_small_gradients_go_in_one_bucket() -> None:
    tensors = [Reduced(f"t{i}:0", (10,), "float32") for i in range(6)]
    assert fuse(tensors, 5) == [tuple(tensors)]


def test_equal_tensors_are_spread_over_the_buckets() -> None:
    tensors = [Reduced(f"t{i}:0", (10,), "float32") for i in range(6)]
    assert [len(b) for b in fuse(tensors, 3, worth=50)] == [2, 2, 2]


def test_nothing_makes_no_bucket() -> None:
    assert fuse([], 5) == []
