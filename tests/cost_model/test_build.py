"""Chains of captured graphs: what a layer costs, keeps and exchanges, against counts from the literature."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.graphs.capture import capture_chains
from benchmarks.graphs.sizes import Convolutional, Transformer
from whale.cost_model import Block, Chain, Fusion, WorkClass
from whale.ir.program import Phase

HIDDEN, HEADS, SEQUENCE, WORDS, SAMPLES = 256, 4, 64, 1024, 8
GPT = Transformer(3, HIDDEN, HEADS, SEQUENCE, WORDS)
UNIT = SAMPLES * SEQUENCE * HIDDEN
"""Elements of a layer's input: s b h."""


@pytest.fixture(scope="module")
def gpt() -> dict[Fusion, Chain]:
    return capture_chains(GPT)


def layer(chain: Chain) -> Block:
    start, count = max(chain.runs(), key=lambda run: run[1])
    assert count == GPT.layers
    return chain.blocks[start]


def test_no_op_is_unknown(gpt: dict[Fusion, Chain]) -> None:
    assert gpt[Fusion.NONE].unknown == ()


def test_layers_fold_and_a_longer_model_has_the_same_layer(gpt: dict[Fusion, Chain]) -> None:
    longer = capture_chains(Transformer(5, HIDDEN, HEADS, SEQUENCE, WORDS))[Fusion.HAND]
    resized = gpt[Fusion.HAND].resized([5])
    assert len(longer.blocks) == len(resized.blocks)
    for one, other in zip(longer.blocks, resized.blocks):
        assert (one.parameters, one.exchanges, one.output) == (other.parameters, other.exchanges, other.output)
        assert (one.work, one.stash, one.selective_stash) == (other.work, other.stash, other.selective_stash)


def test_a_layer_does_the_flops_of_its_products(gpt: dict[Fusion, Chain]) -> None:
    # 24 b s h^2 for the weights and 4 b s^2 h for attention (Narayanan et al., SC 2021, appendix); twice that backward.
    expected = SAMPLES * SEQUENCE * (24 * HIDDEN**2 + 4 * SEQUENCE * HIDDEN)
    products = [w for w in layer(gpt[Fusion.HAND]).work if w.work_class is not WorkClass.MEMORY]
    forward = sum(w.flops.at(SAMPLES) for w in products if w.phase is Phase.FORWARD)
    backward = sum(w.flops.at(SAMPLES) for w in products if w.phase is Phase.BACKWARD)
    assert (forward, backward) == (expected, 2 * expected)


def test_a_layer_has_twelve_h_squared_parameters(gpt: dict[Fusion, Chain]) -> None:
    parameters = layer(gpt[Fusion.HAND]).parameters
    assert sum(p.elements for p in parameters) == 12 * HIDDEN**2 + 13 * HIDDEN
    assert all(p.slots == 2 and p.trainable and not p.shared for p in parameters)
    # Norms and the biases of products that are summed stay whole.
    assert sum(p.elements for p in parameters if not p.split) == 6 * HIDDEN


def test_a_layer_keeps_what_korthikanti_et_al_count(gpt: dict[Fusion, Chain]) -> None:
    """s b h (10 + 24 / t + 5 a s / (h t)) bytes with 16-bit activations and one byte a mask (2022, section 4)."""
    ratio = HEADS * SEQUENCE / HIDDEN

    def bytes_of(selective: bool, split: bool) -> float:
        block = layer(gpt[Fusion.HAND])
        amounts = block.selective_stash if selective else block.stash
        return sum(2 * a.elements.at(SAMPLES) + a.other_bytes.at(SAMPLES) for a in amounts if a.split is split) / UNIT

    assert bytes_of(False, split=False) == pytest.approx(10, rel=2e-3)
    assert bytes_of(False, split=True) == pytest.approx(24 + 5 * ratio, rel=2e-3)
    assert bytes_of(True, split=False) == pytest.approx(10, rel=2e-3)
    assert bytes_of(True, split=True) == pytest.approx(24, rel=2e-3)


def test_a_layer_exchanges_twice_each_way(gpt: dict[Fusion, Chain]) -> None:
    exchanges = layer(gpt[Fusion.HAND]).exchanges
    assert sorted(e.phase.value for e in exchanges) == ["backward", "backward", "forward", "forward"]
    assert all(e.elements.at(SAMPLES) == UNIT for e in exchanges)
    assert layer(gpt[Fusion.HAND]).output.at(SAMPLES) == UNIT


def test_fusing_moves_fewer_bytes_in_fewer_kernels(gpt: dict[Fusion, Chain]) -> None:
    fused, plain = layer(gpt[Fusion.HAND]), layer(gpt[Fusion.NONE])
    assert len(fused.work) < len(plain.work) / 3
    moved = [sum(w.elements.at(SAMPLES) for w in b.work if w.phase is Phase.FORWARD) for b in (fused, plain)]
    assert moved[0] < moved[1] / 2


def test_a_compiler_reads_again_behind_a_reduction(gpt: dict[Fusion, Chain]) -> None:
    kernels = {fusion: [w for w in layer(gpt[fusion]).work if w.phase is Phase.FORWARD] for fusion in Fusion}
    moved = {fusion: sum(w.elements.at(SAMPLES) for w in kernels[fusion]) for fusion in Fusion}
    assert moved[Fusion.HAND] < moved[Fusion.COMPILER] < moved[Fusion.NONE]
    # Each of two normalisations sums for the mean, then for the variance; softmax is a kernel of its own.
    sums = [w for w in kernels[Fusion.COMPILER] if w.work_class is WorkClass.REDUCTION]
    assert len(sums) == 5
    scores = SAMPLES * HEADS * SEQUENCE**2
    assert max(w.elements.at(SAMPLES) for w in sums) == 5 * scores
    assert not any(w.work_class is WorkClass.REDUCTION for w in kernels[Fusion.HAND] + kernels[Fusion.NONE])


def test_a_head_of_its_own_is_not_shared() -> None:
    chain = capture_chains(dataclasses.replace(GPT, tied=False))[Fusion.HAND]
    assert not any(p.shared for b in chain.blocks for p in b.parameters)
    assert [p.elements for p in chain.blocks[-1].parameters if p.elements >= WORDS * HIDDEN] == [WORDS * HIDDEN]


def test_the_tied_table_is_shared_by_both_ends(gpt: dict[Fusion, Chain]) -> None:
    named = {
        p.shared for b in (gpt[Fusion.HAND].blocks[0], gpt[Fusion.HAND].blocks[-1]) for p in b.parameters if p.shared
    }
    assert named == {"embeddings/words"}


def test_a_convolutional_model_is_cut_between_its_blocks() -> None:
    chain = capture_chains(Convolutional("resnet50"))[Fusion.NONE]
    assert len(chain.blocks) == 18
    forward = sum(b.flops(Phase.FORWARD, 1) for b in chain.blocks)
    # 4.1e9 multiplications and additions an image for version 1.5 (3.8e9 for version 1).
    assert forward / 2 == pytest.approx(4.1e9, rel=0.02)
    assert sum(p.elements for b in chain.blocks for p in b.parameters) == pytest.approx(25.5e6, rel=0.01)
