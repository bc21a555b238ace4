"""What a plan costs before it runs: blocks of a captured program, times on devices and links, memory, a simulator."""

from __future__ import annotations

from whale.cost_model.block import (
    Amount,
    Block,
    Chain,
    Exchange,
    Parameter,
    Recompute,
    Work,
    WorkClass,
)
from whale.cost_model.build import build_chain
from whale.cost_model.coefficients import Coefficient, Coefficients, packaged_coefficients, read_coefficients
from whale.cost_model.collectives import all_gather_seconds, all_reduce_seconds, send_seconds
from whale.cost_model.curve import Curve
from whale.cost_model.estimate import Estimate, Event
from whale.cost_model.fusion import Fusion
from whale.cost_model.memory import MemoryUse, gradient_bytes, stage_memory, state_bytes
from whale.cost_model.plan import ParallelPlan, StagePlan
from whale.cost_model.runtimes import RUNTIMES, Precision, Runtime, runtime
from whale.cost_model.simulate import simulate
from whale.cost_model.timing import BlockTimes, Pass, Share
from whale.cost_model.topology import Path, Topology
from whale.cost_model.world import World

__all__ = [
    "RUNTIMES",
    "Amount",
    "Block",
    "BlockTimes",
    "Chain",
    "Coefficient",
    "Coefficients",
    "Curve",
    "Estimate",
    "Event",
    "Exchange",
    "Fusion",
    "MemoryUse",
    "ParallelPlan",
    "Parameter",
    "Pass",
    "Path",
    "Precision",
    "Recompute",
    "Runtime",
    "Share",
    "StagePlan",
    "Topology",
    "Work",
    "WorkClass",
    "World",
    "all_gather_seconds",
    "all_reduce_seconds",
    "build_chain",
    "gradient_bytes",
    "packaged_coefficients",
    "read_coefficients",
    "runtime",
    "send_seconds",
    "simulate",
    "stage_memory",
    "state_bytes",
]
