"""Runs the rows of a table on one device and on pieces, and says what differs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.sharding import graphs
from tests.sharding.graphs import Built
from tests.sharding.rows import Row
from whale.cluster import Cluster
from whale.runtime.activation import activate
from whale.runtime.options import Options
from whale.runtime.report import Report

_WHOLE = re.compile(r"whole: \w+ '([^/']+)")
"""Outermost scope of an op that runs whole, in its line of a report."""

Values = Mapping[str, Mapping[str, np.ndarray]]
"""Fetched values by row and what they are."""


def problems(tf: Any, rows: Sequence[Row], mode: str, replicas: Sequence[int]) -> tuple[list[str], frozenset[str]]:
    """What is wrong with some rows on some numbers of replicas (empty when all is well), and the op types they have.

    The rows run together; where that shows a fault each runs alone, so that it is known which is at fault. That
    nothing runs whole is checked of rows that promise it, in the company of such rows: others change what is cut.
    """
    built = graphs.build(tf, rows, mode)
    together = _problems(tf, built, replicas)
    if not together or len(rows) == 1:
        return together, built.op_types()
    alone = [problem for row in rows for problem in _problems(tf, graphs.build(tf, [row], mode), replicas)]
    return alone or [f"only together: {problem}" for problem in together], built.op_types()


def _problems(tf: Any, built: Built, replicas: Sequence[int]) -> list[str]:
    with _session(tf, built) as session:
        expected = graphs.run(built, session)
    return [problem for count in replicas for problem in _compare(tf, built, expected, count)]


def _session(tf: Any, built: Built) -> Any:
    # Without grappler: what is compared is what the graphs say, and hundreds of first runs are cheaper.
    # A run that waits for ever, on a piece that is never sent, is stopped.
    config = tf.ConfigProto(operation_timeout_in_ms=15_000)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.Session(graph=built.graph, config=config)


def _compare(tf: Any, built: Built, expected: Sequence[Values], replicas: int) -> list[str]:
    options = Options(Cluster.local(replicas), batch="global", quiet=True)
    with activate(options) as activation, _session(tf, built) as session:
        try:
            actual = graphs.run(built, session)
        except tf.errors.OpError as error:
            names = ", ".join(row.name for row in built.rows)
            return [f"{names}, {replicas} replicas: {type(error).__name__}: {error.message}"]
    found = []
    for step, (one, other) in enumerate(zip(expected, actual)):
        for row in built.rows:
            where = f"{row.name}, {replicas} replicas" + (f", step {step}" if len(built.feeds) > 1 else "")
            found.extend(f"{where}: {p}" for p in differences(one[row.name], other[row.name], row.tolerance))
    report = next((report for report in activation.reports if report.cut), activation.reports[-1])
    if not report.cut:
        found.append(f"{built.rows[0].name}, {replicas} replicas: not cut: {report.reason}")
    if not any(row.whole for row in built.rows):
        found.extend(f"{row.name}, {replicas} replicas: {p}" for row in built.rows for p in ran_whole(row, report))
    return found


def ran_whole(row: Row, report: Report) -> list[str]:
    """Lines of a report on ops of a row that ran whole."""
    return [line for line in report.lines if (m := _WHOLE.match(line)) and m.group(1) == graphs.scope_of(row)]


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
