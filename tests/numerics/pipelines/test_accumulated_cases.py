"""The numerics cases with their batches cut into micro-batches as well: they equal plain TensorFlow all the same.

By default a few cases run that cover what micro-batches have to do with: conditionals, loops, containers, random
numbers, updates that wait for others, and a fast one of most topics. ``--full`` runs every case.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.numerics.case import Case, all_cases
from tests.numerics.process import tensorflow_version
from tests.numerics.runner import Setting, faults, plain, run
from whale.cluster import Cluster
from whale.config import Config
from whale.errors import PlanError
from whale.runtime.activation import activate
from whale.runtime.options import Options

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

UNCUT: Mapping[str, str] = {
    "dtypes.bytes_decoded": "does not keep the batch in one dim",
    "minimize_inside.in_while_loop": "writes a variable inside of a loop of the script",
    "one_replica.batch_of_one": "nothing is fed or drawn that can be cut",
    "one_replica.data_in_a_variable": "nothing is fed or drawn that can be cut",
    "one_replica.whole_graph_network": "nothing is fed or drawn that can be cut",
    "queues.position_from_a_queue": "nothing is fed or drawn that can be cut",
}
"""Cases whose batch cannot be cut into micro-batches, and what the error says."""

COVERING: Mapping[str, tuple[tuple[int, int], ...]] = {
    "attention.encoder": ((3, 2),),
    "control_flow_v1.case_of_three": ((3, 2), (8, 2), (3, 1)),
    "control_flow_v1.loop_in_cond": ((3, 2), (3, 1)),
    "control_flow_v1.nested_while": ((3, 2),),
    "control_flow_v1.penalty_through_a_branch": ((3, 2),),
    "control_flow_v1.switch_of_three": ((3, 2), (8, 2), (3, 1)),
    "control_flow_v2.cond": ((3, 2), (8, 2), (3, 1)),
    "control_flow_v2.nested_while": ((3, 2),),
    "control_flow_v2.while_loop": ((3, 2), (3, 1)),
    "dtypes.bytes_decoded": ((3, 2),),
    "gradient_tape.callable_loss": ((3, 2),),
    "interactive.ops_added_late": ((3, 2),),
    "losses.triplets_in_the_batch": ((3, 2), (3, 1)),
    "minimize_inside.in_while_loop": ((3, 2),),
    "minimize_inside.unrolled_in_python": ((3, 2),),
    "optimizers.frozen_and_twice_trained": ((3, 2), (3, 1)),
    "random_ops.sampled_actions": ((3, 2),),
    "rnn.stacked_gru_with_dropout": ((3, 2),),
    "second_order.hessian_vector_product": ((3, 2), (3, 1)),
}
"""By case that runs by default: numbers of micro-batches, and of devices."""


def accumulating(micro_batches: int, devices: int) -> Setting:
    """Whale with micro-batches and without stages, statistics over the whole batch included."""

    @contextlib.contextmanager
    def setting() -> Iterator[Sequence[Any]]:
        keys = {"random.mode": "exact", "check.mode": "off", "batch.sync": True}
        config = Config({**keys, "pipeline.num_micro_batch": micro_batches})
        options = Options(cluster=Cluster.local(devices), batch="global", config=config, quiet=True)
        with activate(options) as activation:
            yield activation.reports

    return setting


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise by case, micro-batches and devices, for the installed TensorFlow."""
    full, version = metafunc.config.getoption("--full", default=False), tensorflow_version()
    cases = [case for case in all_cases() if version in case.tf_versions]
    chosen = [
        (case, *counts)
        for case in cases
        for counts in dict.fromkeys([*COVERING.get(case.name, ()), *([(3, 2)] if full else [])])
    ]
    names = [f"{case.name}-{micro_batches}-{devices}" for case, micro_batches, devices in chosen]
    metafunc.parametrize(("case", "micro_batches", "devices"), chosen, ids=names)


def test_equals_one_device(case: Case, micro_batches: int, devices: int) -> None:
    """Same values in the same order, or an error that says why the batch cannot be cut."""
    if case.name in UNCUT:
        with pytest.raises(PlanError, match=UNCUT[case.name]):
            run(case, accumulating(micro_batches, devices))
        return
    expected = run(case, plain)[0]
    actual, reports = run(case, accumulating(micro_batches, devices))
    problems = faults(case, expected, actual, reports)
    assert not problems, "\n".join([f"{case.name}: {case.body.__doc__}", *problems[:20]])
