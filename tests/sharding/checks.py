"""Runs the rows of a table on one device and on pieces, and says what differs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from tests.sharding import graphs
from tests.sharding.graphs import Built
from tests.sharding.rows import Row
from whale.cluster import Cluster
from whale.runtime.activation import Activation, activate
from whale.runtime.options import Options
from whale.runtime.report import Report

REPLICAS = (2, 3)
"""Numbers of devices each row runs on."""

_WHOLE = re.compile(r"whole: (\w+) ")


class Bench:
    """A table's graph with one session on one device and one per number of replicas."""

    def __init__(self, tf: Any, rows: Sequence[Row], mode: str) -> None:
        self.tf = tf
        self.table = graphs.build(tf, rows, mode)
        self.activations: dict[int, Activation] = {}
        self.plain = self._session()
        self.cut: dict[int, Any] = {}
        for replicas in REPLICAS:
            for earlier in self.activations.values():
                earlier.close()
            self.activations[replicas] = activate(Options(Cluster.local(replicas), batch="global", quiet=True))
            self.cut[replicas] = self._session()

    def _session(self) -> Any:
        # Without grappler: what is compared is what the graphs say, and hundreds of first runs are cheaper.
        config = self.tf.ConfigProto(inter_op_parallelism_threads=8)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        session = self.tf.Session(graph=self.table.graph, config=config)
        session.run(self.table.initializer)
        return session

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the sessions and undoes the activation; bound sessions need one, whichever it is, to be run."""
        for session in (self.plain, *self.cut.values()):
            session.close()
        for activation in self.activations.values():
            activation.close()

    def problems(self, built: Built) -> list[str]:
        """What is wrong with a row, on any number of replicas; empty when all is well."""
        expected = graphs.run(self.tf, self.table, built, self.plain)
        found = []
        for replicas in REPLICAS:
            try:
                actual = graphs.run(self.tf, self.table, built, self.cut[replicas])
            except self.tf.errors.OpError as error:
                found.append(f"{replicas} replicas: {type(error).__name__}: {error.message}")
                continue
            report = self.activations[replicas].reports[-1]
            for step, (one, other) in enumerate(zip(expected, actual)):
                found.extend(f"{replicas} replicas, step {step}: {p}" for p in differences(one, other, built.row.tolerance))
            found.extend(f"{replicas} replicas: {p}" for p in placed_otherwise(built.row, report))
        return found


def placed_otherwise(row: Row, report: Report) -> list[str]:
    """What a report says that the row did not expect."""
    if not report.cut:
        return [f"not cut: {report.reason}"]
    whole = {m.group(1): line for line in report.lines if (m := _WHOLE.match(line))}
    found = [line for op_type, line in whole.items() if op_type not in row.whole]
    found.extend(f"{op_type} ran on pieces, which the row does not expect" for op_type in row.whole if op_type not in whole)
    return found


def differences(expected: Mapping[str, Any], actual: Mapping[str, Any], tolerance: float) -> list[str]:
    """How two sets of fetched values differ."""
    found = []
    for name, value in expected.items():
        one, other = np.asarray(value), np.asarray(actual[name])
        if one.shape != other.shape or one.dtype != other.dtype:
            found.append(f"{name}: {other.dtype}{list(other.shape)} instead of {one.dtype}{list(one.shape)}")
        elif not _equal(one, other, tolerance):
            found.append(f"{name}: {np.array2string(other.ravel()[:6])} instead of {np.array2string(one.ravel()[:6])}")
    return found


def _equal(expected: np.ndarray, actual: np.ndarray, tolerance: float) -> bool:
    if expected.dtype.kind != "f":
        return bool(np.array_equal(expected, actual))
    finite = np.abs(expected[np.isfinite(expected)])
    scale = float(finite.max()) if finite.size else 0.0
    return bool(np.allclose(actual, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
