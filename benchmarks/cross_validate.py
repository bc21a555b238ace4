"""How much the cost model's accuracy depends on which rows were fitted: fits again for other splits of the tables.

    python benchmarks/cross_validate.py ../shared/data/*.csv --splits 4

For each table, quantity and number of machines: the mean absolute error in percent on the rows held back, for each
split, then its mean and its greatest value. Split 0 is that of the coefficients in the package.
"""

from __future__ import annotations

import argparse
import collections
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.cost_cases import Case
from benchmarks.cost_model import evaluate, mape
from benchmarks.cost_rows import read_cases
from benchmarks.fit_cost_model import fit_all


def errors(cases: Sequence[Case], split: int) -> Mapping[str, float]:
    """Mean absolute errors in percent on the rows that a split holds back, by what was measured."""
    coefficients = fit_all(cases, log=lambda line: None, split=split)
    groups: dict[str, list[Case]] = collections.defaultdict(list)
    for case in cases:
        if case.held(split) and case.quantity != "out of memory":
            groups[_name(case)].append(case)
    return {name: mape(evaluate(members, coefficients)) for name, members in groups.items()}


def _name(case: Case) -> str:
    if len({device.model for device in case.setup.cluster.compute_devices}) > 1:
        where = "mixed"
    else:
        where = "one machine" if case.setup.cluster.worker_num == 1 else "many machines"
    return f"{case.table.removesuffix('.csv')}, {case.quantity}, {where}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--splits", type=int, default=4, help="how many")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", "Converting sparse IndexedSlices")  # the graphs are captured, not run
    cases = [case for path in options.tables for case in read_cases(path) if isinstance(case, Case)]
    found: dict[str, list[float]] = collections.defaultdict(list)
    for split in range(options.splits):
        for name, error in errors(cases, split).items():
            found[name].append(error)
    for name, values in sorted(found.items()):
        each = " ".join(f"{value:.1f}" for value in values)
        print(f"{name}: {each}; mean {sum(values) / len(values):.1f}, greatest {max(values):.1f}")


if __name__ == "__main__":
    main()
