"""Transfers between the stages of a pipeline, as its tasks end."""

from __future__ import annotations

from collections.abc import Sequence

from whale.cost_model.steps import Step


class Transfers:
    """The transfers between the stages of one replica's pipeline."""

    def __init__(self, tasks: Sequence[Step], end: Sequence[float], sends: Sequence[float], in_turn: bool) -> None:
        self.tasks = tasks
        self.end = end
        """When each task ends; filled in as the pipeline runs."""
        self.sends = sends
        self.in_turn = in_turn
        self.seconds_of: dict[int, float] = {}
        self._arrival = [-1.0] * len(tasks)
        self._free: dict[tuple[int, int], float] = {}

    def arrival(self, place: int) -> float:
        """When a task's result is with its receiver. The task has run, and so has what the receiver does before."""
        if self._arrival[place] < 0:
            step = self.tasks[place]
            lower = min(step.stage, step.target)
            way = (lower, lower + 1) if self.in_turn else (step.stage, step.target)
            begin = max(self.end[place], self._free.get(way, 0.0))
            if step.meets >= 0:
                begin = max(begin, self.end[step.meets])
            self.seconds_of[place] = self.sends[lower]
            self._arrival[place] = self._free[way] = begin + self.sends[lower]
        return self._arrival[place]
