"""Cases as the planner runs them on unequal devices: whatever it chooses, a step equals one device."""

from __future__ import annotations

import dataclasses

import pytest

from tests.numerics.case import Case, all_cases
from tests.numerics.process import tensorflow_version
from tests.numerics.runner import faults, plain, run
from tests.numerics.unequal import one_pipeline, planned
from whale.planner.ask import what_runs

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]

SOME = (
    "attention.causal_decoder",
    "baked.reshaped_with_constants",
    "control_flow_v1.nested_while",
    "control_flow_v2.while_loop",
    "embeddings.weighted_sparse_lookup",
    "feeds.unknown_rank",
    "keras_v1.layers_in_a_session_loop",
    "layers.convolutional_network",
    "layers.fused_batch_norm",
    "losses.family_of_tf_losses",
    "optimizers.accumulated_gradients",
    "rnn.lstm_with_lengths",
)
"""One of each kind of model; ``--full`` runs all."""

SPACES = {"what_runs": what_runs, "one_pipeline": one_pipeline}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise by case, for the installed TensorFlow."""
    version, every = tensorflow_version(), all_cases()
    assert set(SOME) <= {case.name for case in every}
    chosen = every if metafunc.config.getoption("--full", default=False) else [c for c in every if c.name in SOME]
    found = [case for case in chosen if version in case.tf_versions]
    metafunc.parametrize("case", found, ids=[case.name for case in found])


@pytest.mark.parametrize("space", SPACES)
def test_a_planned_step_equals_one_device(case: Case, space: str) -> None:
    # What is cheapest on one device may stay there.
    case = dataclasses.replace(case, cut=False, reason=case.reason or "the planner may leave devices out")
    expected, _ = run(case, plain)
    actual, reports = run(case, planned(SPACES[space]))
    assert not faults(case, expected, actual, reports)
