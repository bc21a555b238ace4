"""All-reduce of gradients, fused into buckets, in the order in which the backward pass makes them.

Tensors follow each other into a bucket until it holds its part of all bytes, and as much as is worth a message. A
tensor that is worth one by itself travels alone and is not copied; between CPU devices of one process, which share
their memory, it does not travel at all. Buckets of one communicator follow each other by control edges, so that every
device starts them in the same order.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence

import tensorflow.compat.v1 as tf

from whale.rewriter.build import Builder, Place, type_attr
from whale.rewriter.keys import KeyAllocator

WORTH_A_MESSAGE = 4 << 20
"""Bytes that take much longer to send than a message takes to set up, on any of the links in use."""


@dataclasses.dataclass(frozen=True)
class Reduced:
    """A tensor to be summed over the copies."""

    tensor: str
    """Name in the user's graph."""
    shape: tuple[int, ...]
    """Its shape."""
    dtype: str
    """Its type."""

    @functools.cached_property
    def bytes(self) -> int:
        """Size of one copy's value."""
        return math.prod(self.shape) * tf.as_dtype(self.dtype).size


@dataclasses.dataclass(frozen=True)
class Group:
    """The devices of an all-reduce and how they talk."""

    devices: tuple[str, ...]
    """Device strings, one per copy."""
    hint: str
    """``nccl`` or ``ring``."""
    communicators: int
    """Buckets that may be under way at once."""
    binding: object
    """Whose keys these are."""
    final_op: str = "Id"
    """``Id`` for a sum, ``Div`` for an average."""
    worth: int = WORTH_A_MESSAGE
    """Bytes from which a tensor travels alone."""

    @property
    def shares_memory(self) -> bool:
        """Whether all devices are the CPU of one process: what one holds, the others read where it is."""
        hosts = {device.rpartition("/device:")[0] for device in self.devices}
        return len(hosts) == 1 and all("CPU" in device for device in self.devices)


def fuse(tensors: Sequence[Reduced], max_splits: int, worth: int = WORTH_A_MESSAGE) -> list[tuple[Reduced, ...]]:
    """Splits tensors, in order, into buckets of one type and about equal size.

    Args:
        tensors: in the order in which they become ready.
        max_splits: how many buckets to make at most; tensors of other types and large tensors may add to it.
        worth: bytes from which a message is worth its latency: no bucket is closed below it, and a tensor of as
            much is not copied into one.
    """
    limit = max(worth, sum(t.bytes for t in tensors) // max(1, max_splits))
    buckets: list[tuple[Reduced, ...]] = []
    open_by_type: dict[str, list[Reduced]] = {}
    filled: dict[str, int] = {}
    for tensor in tensors:
        if tensor.bytes >= worth:
            buckets.append((tensor,))
            continue
        open_by_type.setdefault(tensor.dtype, []).append(tensor)
        filled[tensor.dtype] = filled.get(tensor.dtype, 0) + tensor.bytes
        if filled[tensor.dtype] >= limit:
            buckets.append(tuple(open_by_type.pop(tensor.dtype)))
            filled[tensor.dtype] = 0
    buckets.extend(tuple(held) for held in open_by_type.values())
    return buckets


class AllReduce:
    """Emits the buckets of one run."""

    def __init__(self, builder: Builder, keys: KeyAllocator, group: Group) -> None:
        self.builder = builder
        self.keys = keys
        self.group = group

    def emit(
        self,
        buckets: Sequence[tuple[Reduced, ...]],
        value: Callable[[str, int], str],
        names: Mapping[tuple[str, int], str],
    ) -> list[str]:
        """Adds the nodes of all buckets.

        Args:
            buckets: what to reduce.
            value: the node output holding a copy's value of a tensor.
            names: for (tensor, replica), the node name that is to hold the sum.

        Returns:
            Names of the collective nodes; a run that reaches one must reach all.
        """
        last: dict[tuple[int, int], str] = {}
        nodes: list[str] = []
        for number, bucket in enumerate(buckets):
            if bucket[0].bytes >= self.group.worth and self.group.shares_memory:
                self._add_up(bucket[0], number % len(self.group.devices), value, names)
                continue
            instance = self.keys.instance()
            communicator = number % self.group.communicators
            for replica, device in enumerate(self.group.devices):
                place = Place(bucket[0].tensor.rpartition(":")[0], replica, device)
                packed = self._pack(place, [value(t.tensor, replica) for t in bucket], bucket)
                before = last.get((communicator, replica))
                summed = self._collective(place, packed, bucket[0].dtype, instance, communicator, before)
                node = summed.rpartition(":")[0]
                last[communicator, replica] = node
                nodes.append(node)
                self._unpack(place, summed, bucket, [names[t.tensor, replica] for t in bucket])
        return nodes

    def _add_up(
        self, tensor: Reduced, turn: int, value: Callable[[str, int], str], names: Mapping[tuple[str, int], str]
    ) -> None:
        """The sum of one tensor where memory is shared: made once, by the devices in turn, and read by all."""
        build, replicas = self.builder, range(len(self.group.devices))
        place = Place(tensor.tensor.rpartition(":")[0], turn, self.group.devices[turn])
        total = build.add_n(place, [value(tensor.tensor, replica) for replica in replicas], tensor.dtype)
        if self.group.final_op == "Div":
            total = build.binary(place, "Div", total, build.const(place, len(replicas), tensor.dtype), tensor.dtype)
        for replica, device in enumerate(self.group.devices):
            there = dataclasses.replace(place, replica=replica, device=device)
            build.named(there, names[tensor.tensor, replica], "Identity", [total], {"T": type_attr(tensor.dtype)})

    def _collective(
        self, place: Place, value: str, dtype: str, instance: int, communicator: int, before: str | None
    ) -> str:
        build = self.builder
        key = self.keys.group(self.group.devices, communicator, self.group.binding)
        size = build.const(place, len(self.group.devices), "int32")
        attrs = {
            "T": type_attr(dtype),
            "merge_op": "Add",
            "final_op": self.group.final_op,
            "communication_hint": self.group.hint,
        }
        inputs = [value, size, build.const(place, key, "int32"), build.const(place, instance, "int32")]
        controls = [before] if before else []
        return build.node(place, "CollectiveReduceV2", inputs, "all_reduce/bucket", attrs, controls, shared=False)

    def _pack(self, place: Place, values: Sequence[str], bucket: Sequence[Reduced]) -> str:
        if len(values) == 1:
            return values[0]
        build, dtype = self.builder, bucket[0].dtype
        flat = build.const(place, [-1], "int32")
        rows = [
            value if len(t.shape) == 1 else build.reshape(place, value, flat, dtype) for value, t in zip(values, bucket)
        ]
        return build.concat(place, rows, 0, dtype)

    def _unpack(self, place: Place, summed: str, bucket: Sequence[Reduced], names: Sequence[str]) -> None:
        build, dtype = self.builder, bucket[0].dtype
        if len(bucket) == 1:
            build.named(place, names[0], "Identity", [summed], {"T": type_attr(dtype)})
            return
        sizes = [math.prod(t.shape) for t in bucket]
        attrs = {"T": type_attr(dtype), "Tlen": type_attr("int64"), "num_split": len(bucket)}
        inputs = [summed, build.const(place, sizes, "int64"), build.const(place, 0, "int32")]
        parts = build.node(place, "SplitV", inputs, "all_reduce/unpack", attrs).rpartition(":")[0]
        for i, (tensor, name) in enumerate(zip(bucket, names)):
            shape = build.const(place, list(tensor.shape), "int32")
            reshape = {"T": type_attr(dtype), "Tshape": type_attr("int32")}
            build.named(place, name, "Reshape", [f"{parts}:{i}", shape], reshape)
