"""EPL's ``epl.profiler`` and its ``memory_profiler_hook``: how much memory each device held in the first steps."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["MemoryProfilerHook"]
__path__: list[str] = []  # it stands for the package as well


class MemoryProfilerHook(tf.train.SessionRunHook):
    """Traces steps and logs the peak of every device; the allocations go to files
    ``profile_step_<step>_<device>.csv``, one line each (microseconds, op, bytes, bytes held after it).

    The first step is not traced: it holds what is made once only.

    Args:
        save_steps: steps from one trace to the next.
        max_steps: step after which nothing is traced.
        output_dir: folder of the files; made when it is absent.
        visualize: whether to write the files. EPL draws them as well; a CSV file is drawn by any spreadsheet.
        dump_metadata: whether to write the whole trace too, as a serialized RunMetadata ``run_metadata_<step>.bin``.

    Raises:
        ValueError: ``save_steps`` is above ``max_steps``, so that nothing would be traced.
    """

    def __init__(
        self,
        save_steps: int = 1,
        max_steps: int = 5,
        output_dir: str = "",
        visualize: bool = True,
        dump_metadata: bool = False,
    ) -> None:
        if save_steps > max_steps:
            raise ValueError(f"save_steps is {save_steps}, above max_steps ({max_steps}): nothing would be traced")
        self._save_steps = save_steps
        self._max_steps = max_steps
        self._folder = output_dir
        self._visualize = visualize
        self._dump = dump_metadata
        self._step: Any = None
        self._done: int | None = None  # steps done; counted between two traces, as reading it costs a run
        self._next = 0
        self._traces = False

    def begin(self) -> None:
        """Finds the global step.

        Raises:
            RuntimeError: the graph has none.
        """
        self._step = tf.train.get_global_step()
        if self._step is None:
            raise RuntimeError("MemoryProfilerHook needs a global step: call tf.train.get_or_create_global_step()")
        if self._folder:
            tf.gfile.MakeDirs(self._folder)

    def before_run(self, run_context: Any) -> Any:
        """Asks for a trace where one is due."""
        self._traces = self._done is not None and self._next <= min(self._done + 1, self._max_steps)
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE) if self._traces else None
        return tf.train.SessionRunArgs(None, options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes a trace that came, and works out when the next is due."""
        if self._done is not None and not self._traces:
            self._done += 1
            return
        self._done = int(run_context.session.run(self._step))
        self._next = self._done + self._save_steps
        if self._traces:
            self._write(self._done, run_values.run_metadata)

    def _write(self, step: int, metadata: Any) -> None:
        if self._dump:
            with tf.gfile.Open(os.path.join(self._folder, f"run_metadata_{step}.bin"), "wb") as file:
                file.write(metadata.SerializeToString())
        for device in metadata.step_stats.dev_stats:
            rows = list(held(device))
            peak = max([row[3] for row in rows] + [_in_use(device)])
            if peak == 0:
                continue
            tf.logging.info("step %d, %s: peak memory %.1f MB", step, device.device, peak / 2**20)
            if self._visualize and rows:
                name = re.sub(r"[/:]+", "-", device.device).strip("-")
                with tf.gfile.Open(os.path.join(self._folder, f"profile_step_{step}_{name}.csv"), "w") as file:
                    writer = csv.writer(file)
                    writer.writerow(("time", "name", "allocated_bytes", "held_bytes"))
                    writer.writerows(rows)


def held(device: Any) -> Iterator[tuple[int, str, int, int]]:
    """Time, op, bytes (negative when given back) and sum so far of every allocation of a ``DeviceStepStats``."""
    records = [
        (record.alloc_micros, node.node_name, record.alloc_bytes)
        for node in device.node_stats
        for memory in node.memory
        for record in memory.allocation_records
    ]
    total = 0
    for time, name, size in sorted(records):
        total += size
        yield time, name, size, total


def _in_use(device: Any) -> int:
    """The largest sum that an allocator of the device names; CPU allocators name none."""
    in_use = [memory.allocator_bytes_in_use for node in device.node_stats for memory in node.memory]
    return max(in_use, default=0)
