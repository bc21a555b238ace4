"""Every op of the tables computes on pieces what it computes whole: values, loss, and gradients.

By default each row enters its batch in one way and runs on one number of devices, rows and groups of rows taking
turns; ``--full`` runs each in every way on every number.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.sharding import (
    checks,
    ops_algebra,
    ops_control,
    ops_elementwise,
    ops_images,
    ops_index,
    ops_linear,
    ops_nn,
    ops_recurrent,
    ops_reduction,
    ops_sample_loops,
    ops_shape,
)
from tests.sharding.rows import MODES, Row
from whale.sharding.rules import RULES

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

TABLES = {
    **ops_elementwise.TABLES,
    **ops_reduction.TABLES,
    **ops_algebra.TABLES,
    **ops_shape.TABLES,
    **ops_images.TABLES,
    **ops_index.TABLES,
    **ops_nn.TABLES,
    **ops_linear.TABLES,
    **ops_recurrent.TABLES,
    **ops_control.TABLES,
    **ops_sample_loops.TABLES,
}

REPLICAS = (2, 3)
"""Numbers of devices: with both the batches of the tables are cut unevenly."""

MANY = (2, 3, 4)
"""Numbers of devices with ``--full``."""

TOGETHER = 12
"""Rows that one graph holds: more make fewer first runs, but each of them longer."""

UNEXERCISED = {
    "MirrorIdentity": "TensorFlow makes it for none of its own gradients",
    "RefEnter": "a reference to a variable is not cut",
    "RefExit": "a reference to a variable is not cut",
    "RefIdentity": "a reference to a variable is not cut",
    "RefNextIteration": "a reference to a variable is not cut",
    "RefSwitch": "a reference to a variable is not cut",
    "TopK": "TensorFlow no longer makes it",
    "CTCLossV2": "TensorFlow has its kernel for GPUs only",
    "PyFunc": "called once on the whole batch; by every copy in local mode, see tests/numerics/test_modes.py",
    "EagerPyFunc": "as PyFunc",
    "PyFuncStateless": "as PyFunc",
}
"""Op types with a rule and no row, with the reason."""


@dataclasses.dataclass(frozen=True)
class Group:
    """Rows that run together."""

    table: str
    mode: str
    number: int
    rows: tuple[Row, ...]
    replicas: tuple[int, ...]
    """Numbers of devices to run on."""

    def __str__(self) -> str:
        return f"{self.table}-{self.mode}-{self.number}"


def groups(full: bool) -> Iterator[Group]:
    """All rows, in the ways in which they run."""
    turns = itertools.cycle(REPLICAS)
    for table, rows in TABLES.items():
        for mode in MODES:
            chosen = [r for i, r in enumerate(rows) if mode in (r.modes if full else r.modes[i % len(r.modes) :][:1])]
            # Rows with an op that runs whole are kept apart: such a row may change how the batch of all is cut.
            parts = [part for some in (False, True) for part in _parts([r for r in chosen if bool(r.whole) is some])]
            for number, part in enumerate(parts):
                yield Group(table, mode, number, tuple(part), MANY if full else (next(turns),))


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), TOGETHER):
        yield rows[start : start + TOGETHER]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise by group of rows."""
    if "group" in metafunc.fixturenames:
        found = list(groups(metafunc.config.getoption("--full", default=False)))
        metafunc.parametrize("group", found, ids=[str(g) for g in found])


@pytest.fixture(scope="module")
def exercised() -> dict[str, frozenset[str]]:
    """Op types met so far, by group."""
    return {}


def test_rows_are_named_once() -> None:
    for table, rows in TABLES.items():
        names = [row.name for row in rows]
        assert len(names) == len(set(names)), table


def test_equals_one_device(tf: Any, group: Group, exercised: dict[str, frozenset[str]]) -> None:
    problems, exercised[str(group)] = checks.problems(tf, group.rows, group.mode, group.replicas)
    assert not problems, "\n".join(problems[:20])


def test_every_rule_was_exercised(exercised: dict[str, frozenset[str]], request: pytest.FixtureRequest) -> None:
    if len(exercised) < len(list(groups(request.config.getoption("--full", default=False)))):
        pytest.skip("only some of the rows were run")
    met = frozenset().union(*exercised.values())
    assert sorted(set(RULES) - met) == sorted(UNEXERCISED)
