"""Bytes of devices, counted by hand."""

from __future__ import annotations

import dataclasses

import pytest

from tests.cost_model.models import chain, cluster, coefficients, plan
from whale.cost_model import (
    Chain,
    MemoryUse,
    ParallelPlan,
    Recompute,
    StagePlan,
    gradient_bytes,
    runtime,
    stage_memory,
    state_bytes,
)

TENSORFLOW = runtime("tensorflow")


def use(model: Chain, chosen: ParallelPlan, row: int = 0) -> MemoryUse:
    return stage_memory(model, chosen, row, 0, TENSORFLOW, coefficients())


def test_one_device_holds_everything_once() -> None:
    found = use(chain(), plan(cluster(devices=1)))
    assert (found.parameters, found.gradients, found.slots) == (16000, 16000, 32000)
    assert found.activations == 4 * 8 * 100 * 4
    assert found.workspace == 8 * 50 * 4
    assert found.total == sum(dataclasses.astuple(found))


def test_mixed_precision_keeps_a_copy_in_32_bits() -> None:
    assert state_bytes(chain().blocks, 1, "fp16", TENSORFLOW) == (8000, 16000, 48000)


def test_tensor_parallelism_divides_what_is_split() -> None:
    found = use(chain(), plan(cluster(devices=2), parts=2))
    assert (found.parameters, found.activations) == (8000, 4 * 8 * 100 * 4 / 2)
    assert found.workspace == 8 * 50 * 4


def test_early_stages_hold_more_micro_batches() -> None:
    chosen = plan(cluster(devices=4), stages=4, micro_batches=8)
    held = [use(chain(), chosen, row).activations for row in range(4)]
    assert held == [n * 1 * 100 * 4 for n in (4, 3, 2, 1)]


def test_gpipe_holds_all_micro_batches() -> None:
    chosen = plan(cluster(devices=4), stages=4, micro_batches=8, schedule="gpipe")
    assert use(chain(), chosen, 3).activations == 8 * 1 * 100 * 4


def test_recomputation_keeps_what_enters_and_one_block() -> None:
    found = use(chain(), plan(cluster(devices=1), recompute=Recompute.FULL))
    assert found.activations == 3 * 8 * 50 * 4  # the first block reads its input anew
    assert found.workspace == 8 * 50 * 4 + 8 * 100 * 4


def test_selective_recomputation_keeps_less() -> None:
    found = use(chain(), plan(cluster(devices=1), recompute=Recompute.SELECTIVE))
    assert found.activations == 4 * 8 * 50 * 4


def test_a_shared_table_counts_once_a_device() -> None:
    model = chain(2)
    shared = dataclasses.replace(model.blocks[0].parameters[0], shared="table")
    blocks = tuple(dataclasses.replace(b, parameters=(shared,)) for b in model.blocks)
    assert state_bytes(blocks, 1, "fp32", TENSORFLOW)[0] == 4000


def test_interleaving_counts_what_lives_together() -> None:
    names = [device.name for device in cluster(devices=2).compute_devices]
    stages = tuple(StagePlan(i, i + 1, ((names[i % 2],),)) for i in range(4))
    chosen = ParallelPlan(stages, global_batch=8, micro_batches=4, schedule="interleaved")
    # Device 0 runs F0@0 F1@0 F0@2 F1@2 F2@0, then a backward pass after each forward pass: five at once.
    assert use(chain(), chosen).activations == pytest.approx(5 * 2 * 100 * 4)


def test_buffers_of_a_static_pipeline_are_there_from_the_start() -> None:
    chosen = plan(cluster(devices=4), stages=4, micro_batches=8)
    oneflow = runtime("oneflow")
    known = coefficients(runtime__oneflow__context_bytes=0.0)
    held = [stage_memory(chain(), chosen, row, 0, oneflow, known).activations for row in range(4)]
    # Twice as many as stages, but none on the last stage, which turns at once.
    assert held == [n * 1 * 100 * 4 for n in (8, 8, 8, 1)]


def test_gradients_may_be_reduced_in_16_bits_and_kept_in_32() -> None:
    megatron = runtime("megatron")
    assert state_bytes(chain().blocks, 1, "fp16", megatron)[1] == 16000
    assert gradient_bytes(chain().blocks, 1, "fp16", megatron) == 8000
    assert gradient_bytes(chain().blocks, 1, "fp32", megatron) == 16000
