"""How well the cost model predicts measured tables.

    python benchmarks/cost_model.py FILE...

For each file one line: rows predicted, mean absolute error in percent, rank correlation, and regret: what the plan
predicted best takes over what the best plan takes, both as measured, over groups of equal model and device count (time
per sample; mean over groups). Below it, by what was measured and by whether the rows were fitted or held back, and
the rows that were skipped, by kind. A row whose plan ran out of memory counts as right when the model says it does not
fit.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import math
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.cost_cases import Case, Skip
from benchmarks.cost_predict import Predictor
from benchmarks.cost_rows import read_cases
from whale.cost_model import Coefficients, packaged_coefficients, read_coefficients

TIMES = ("seconds", "flops", "block", "collective")
"""Quantities that are times."""


@dataclasses.dataclass(frozen=True)
class Result:
    """A case and what was predicted."""

    case: Case
    predicted: float

    @property
    def error(self) -> float:
        """Absolute error as a part of what was measured."""
        return abs(self.predicted / self.case.measured - 1)


def evaluate(cases: Iterable[Case], coefficients: Coefficients) -> list[Result]:
    """Predicts every case."""
    predictor = Predictor(coefficients)
    return [Result(case, predictor.predict(case)) for case in cases]


def mape(results: Sequence[Result]) -> float:
    """Mean absolute error in percent."""
    return 100 * sum(r.error for r in results) / len(results) if results else math.nan


def rank_correlation(results: Sequence[Result]) -> float:
    """Spearman's coefficient of times; of whatever there is, where there are none."""
    chosen = [r for r in results if r.case.quantity in TIMES] or list(results)
    if len(chosen) < 3:
        return math.nan
    return float(spearmanr([r.predicted for r in chosen], [r.case.measured for r in chosen])[0])


def regret(results: Iterable[Result]) -> float:
    """Mean over groups with a choice: measured time of the plan predicted best over that of the best."""
    groups: dict[str, list[Result]] = collections.defaultdict(list)
    for result in results:
        if result.case.quantity in ("seconds", "flops") and result.case.plan is not None:
            groups[result.case.group].append(result)
    ratios: list[float] = []
    for members in groups.values():
        batch = [r.case.plan.global_batch for r in members if r.case.plan is not None]
        if len({r.case.plan_key for r in members}) > 1:
            measured = [r.case.measured / b for r, b in zip(members, batch)]
            chosen = min(range(len(members)), key=lambda i: members[i].predicted / batch[i])
            ratios.append(measured[chosen] / min(measured))
    return sum(ratios) / len(ratios) if ratios else math.nan


def report(path: Path, coefficients: Coefficients) -> list[str]:
    """The lines for one table."""
    rows = list(read_cases(path))
    skipped = collections.Counter(row.reason for row in rows if isinstance(row, Skip))
    results = evaluate((row for row in rows if isinstance(row, Case)), coefficients)
    failed = [r for r in results if r.case.quantity == "out of memory"]
    results = [r for r in results if r.case.quantity != "out of memory"]
    lines = [f"{path.name} n={len(results)}"]
    if results:
        lines[0] += f" mape={mape(results):.1f} spearman={rank_correlation(results):.3f} regret={regret(results):.3f}"
    lines[0] += f" skipped={sum(skipped.values())}"
    for quantity in dict.fromkeys(r.case.quantity for r in results):
        for title, held in (("fitted", False), ("held back", True)):
            some = [r for r in results if r.case.quantity == quantity and r.case.held_back is held]
            for where, part in _by_machines(some):
                lines.append(
                    f"  {quantity}, {title}{where}: n={len(part)} mape={mape(part):.1f}"
                    f" spearman={rank_correlation(part):.3f}"
                )
    if failed:
        wrong = sum(r.predicted > 0 for r in failed)
        lines.append(f"  ran out of memory: n={len(failed)} called feasible={wrong}")
    lines += [f"  skipped {count}: {reason}" for reason, count in sorted(skipped.items())]
    return lines


def _by_machines(results: Sequence[Result]) -> list[tuple[str, list[Result]]]:
    """Results on one machine and on several, where a table has both."""
    one = [r for r in results if r.case.setup.cluster.worker_num == 1]
    many = [r for r in results if r.case.setup.cluster.worker_num > 1]
    if one and many:
        return [(", one node", one), (", many nodes", many)]
    return [("", list(results))] if results else []


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--coefficients", type=Path, help="a file of coefficients instead of those in the package")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", "Converting sparse IndexedSlices")  # the graphs are captured, not run
    coefficients = read_coefficients(options.coefficients) if options.coefficients else packaged_coefficients()
    for path in options.tables:
        print("\n".join(report(path, coefficients)), flush=True)


if __name__ == "__main__":
    main()
