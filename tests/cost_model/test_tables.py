"""Rows of measured tables as cases, and the figures over predictions. The graphs are small, and captured once."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchmarks.cost_cases import Case, Setup, Skip
from benchmarks.cost_model import Result, evaluate, mape, rank_correlation, regret, report
from benchmarks.cost_rows import read_cases
from benchmarks.cost_stages import place
from tests.cost_model.models import cluster
from whale.cost_model import Recompute, packaged_coefficients

COLUMNS = (
    *("source", "repo_path", "model", "params", "layers", "hidden", "heads", "seq", "vocab", "precision", "gpu"),
    *("num_gpus", "per_gpu_batch", "global_batch", "tp", "pp", "dp", "micro_batch", "metric", "value", "unit", "notes"),
)
GPT = {
    "source": "test",
    "model": "GPT (Megatron-DeepSpeed)",
    "layers": "4",
    "hidden": "256",
    "heads": "4",
    "seq": "64",
    "vocab": "1024",
    "precision": "fp16",
    "gpu": "A100",
    "num_gpus": "8",
    "global_batch": "16",
    "tp": "2",
    "pp": "2",
    "dp": "2",
    "micro_batch": "2",
    "metric": "iteration_time",
    "value": "100",
    "unit": "ms",
}


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def table(path: Path, *rows: dict[str, str]) -> Path:
    file = path / "table.csv"
    with file.open("w", encoding="utf-8", newline="") as text:
        writer = csv.DictWriter(text, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return file


def only(path: Path, **changed: str) -> Case | Skip:
    (found,) = read_cases(table(path, {**GPT, **changed}))
    return found


def test_a_row_becomes_a_plan(tmp_path: Path) -> None:
    case = only(tmp_path)
    assert isinstance(case, Case)
    assert case.plan is not None
    assert case.measured == pytest.approx(0.1)
    assert (len(case.plan.stages), case.plan.num_replicas, case.plan.stages[0].tensor_parallel) == (2, 2, 2)
    assert (case.plan.micro_batches, case.plan.recompute, case.plan.precision) == (4, Recompute.FULL, "fp16")
    assert case.setup.runtime == "megatron-deepspeed"


def test_the_measured_value_decides_nothing(tmp_path: Path) -> None:
    one, other = only(tmp_path), only(tmp_path, value="900")
    assert isinstance(one, Case)
    assert isinstance(other, Case)
    assert (one.plan, one.held_back, one.setup.runtime) == (other.plan, other.held_back, other.setup.runtime)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"model": "NCF"}, "model not built: NCF"),
        ({"metric": "mfu"}, "metric: mfu"),
        ({"num_gpus": ""}, "no plan"),
        ({"num_gpus": "16"}, "tp x pp x dp is not the number of devices"),
        ({"gpu": "TPU"}, "device unknown: TPU"),
        ({"global_batch": "", "micro_batch": ""}, "no batch size"),
        ({"micro_batch": ""}, "a pipeline without the size of its micro-batches"),
        ({"unit": "days"}, "unit: days"),
        ({"pp": "8", "dp": "1", "tp": "1"}, "more stages than layers"),
        ({"notes": "real data; x"}, "real data: the input pipeline is measured as well"),
    ],
)
def test_what_is_skipped_and_why(tmp_path: Path, changed: dict[str, str], reason: str) -> None:
    assert only(tmp_path, **changed) == Skip(reason)


def test_a_plan_that_ran_out_of_memory_must_not_fit(tmp_path: Path) -> None:
    found = only(tmp_path, value="OOM")
    assert isinstance(found, Case)
    assert found.quantity == "out of memory"
    lines = report(table(tmp_path, {**GPT, "value": "OOM"}), packaged_coefficients())
    assert "  ran out of memory: n=1 called feasible=1" in lines  # so small a model always fits


def test_tables_without_plans_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "specs.csv"
    path.write_text("gpu,memory\nV100,16\nA100,40\n", encoding="utf-8")
    assert report(path, packaged_coefficients()) == ["specs.csv n=0 skipped=2", "  skipped 2: table without plans"]


def test_devices_of_a_group_are_neighbours_then_replicas_then_stages() -> None:
    stages = place([(0, 1), (1, 2)], 2, 2, cluster(devices=8))
    names = [[d[-5:] for r in stage.replicas for d in r] for stage in stages]
    assert names == [["GPU:0", "GPU:1", "GPU:2", "GPU:3"], ["GPU:4", "GPU:5", "GPU:6", "GPU:7"]]


def test_about_half_of_the_plans_are_held_back() -> None:
    def case(number: int) -> Case:
        return Case("t", f"plan {number}", "g", "seconds", 1.0, Setup(cluster(), "tensorflow"))

    held = sum(case(number).held_back for number in range(1000))
    assert 400 < held < 600
    # Other splits hold back others: of those, again about half.
    for one, other in ((0, 1), (1, 2), (0, 2)):
        both = sum(case(number).held(one) and case(number).held(other) for number in range(1000))
        assert 150 < both < 350


def results(tmp_path: Path, *pairs: tuple[float, float]) -> list[Result]:
    """Results of plans of one group, as (predicted, measured)."""
    found = []
    for number, (predicted, measured) in enumerate(pairs):
        case = only(tmp_path, micro_batch=str(2**number), value=str(1000 * measured))
        assert isinstance(case, Case)
        found.append(Result(case, predicted))
    return found


def test_the_figures(tmp_path: Path) -> None:
    some = results(tmp_path, (1.0, 2.0), (2.0, 1.0), (3.0, 3.0))
    assert mape(some) == pytest.approx(100 * (0.5 + 1.0 + 0.0) / 3)
    assert rank_correlation(some) == pytest.approx(0.5)
    assert regret(some) == pytest.approx(2.0)


def test_a_prediction_needs_no_table(tmp_path: Path) -> None:
    case = only(tmp_path)
    assert isinstance(case, Case)
    (result,) = evaluate([case], packaged_coefficients())
    assert 0 < result.predicted < 10
