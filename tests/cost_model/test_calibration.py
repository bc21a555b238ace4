"""Coefficients fitted to measured kernels."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.cost_model.models import block, coefficients
from whale.cluster import Cluster
from whale.cost_model import (
    BlockTimes,
    Chain,
    Coefficient,
    Coefficients,
    Curve,
    Precision,
    Share,
    Work,
    WorkClass,
    runtime,
)
from whale.cost_model.calibration import Kernel, Measured, calibrate, predicted_seconds
from whale.cost_model.calibration_file import calibrated_models, check_models, merge, read_calibration
from whale.cost_model.coefficients import write_coefficients
from whale.errors import ClusterError, PlanError
from whale.ir.program import Phase

V100 = Cluster.local(1, "GPU", "V100", 16 * 2**30)

TRUE = {
    "rate__V100__fp32__matmul": 0.5,
    "rate__V100__fp32__convolution": 0.7,
    "batch_matmul__fp32": 0.4,
    "memory__V100": 0.3,
    "fill_seconds": 4e-6,
}
"""What a made-up device reaches."""


def work(work_class: WorkClass, flops: float, elements: float = 1.0) -> Work:
    return Work(work_class, Phase.FORWARD, Curve((0.0, flops)), Curve((0.0, elements)))


WORK = (
    *(work(WorkClass.MATMUL, flops) for flops in (1e9, 1e10, 3e10)),
    *(work(WorkClass.BATCH_MATMUL, flops) for flops in (2e9, 2e10)),
    *(work(WorkClass.CONVOLUTION, flops) for flops in (5e9, 4e10)),
    *(work(WorkClass.MEMORY, 0.0, elements) for elements in (10.0, 100.0, 1e6, 1e7)),
)


def measured(seconds: dict[Work, float], step: float = 1.0, precision: Precision = "fp32") -> Measured:
    kernels = tuple(Kernel(f"op{i}", "Op", (each,), s) for i, (each, s) in enumerate(seconds.items()))
    return Measured(V100, precision, 2, kernels, step, 1e-7)


def true_seconds(work: tuple[Work, ...] = WORK) -> dict[Work, float]:
    times = BlockTimes(runtime("tensorflow"), "fp32", coefficients=coefficients(**TRUE))
    return {each: times.kernel_seconds(each, "V100", Share(2)) for each in work}


CHAIN = Chain((block(),))
SHIPPED = dataclasses.replace(
    coefficients(fill_seconds=1e-5),
    values={**coefficients(fill_seconds=1e-5).values, "normalization/traffic": Coefficient(1.0, 0, "test")},
)


def test_a_made_up_device_is_found_again() -> None:
    found = calibrate(measured(true_seconds()), CHAIN, shipped=SHIPPED).fitted
    for name, value in TRUE.items():
        assert found.get(name.replace("__", "/")) == pytest.approx(value, rel=0.02), name


def test_rows_are_the_kernels_whose_time_a_number_decides() -> None:
    found = calibrate(measured(true_seconds()), CHAIN, shipped=SHIPPED).fitted.values
    assert found["rate/V100/fp32/matmul"].rows == 3
    assert found["batch_matmul/fp32"].rows == 2
    assert found["memory/V100"].rows == 2
    assert found["fill_seconds"].rows == 2


def test_what_nothing_tells_about_is_left_out() -> None:
    only = true_seconds((WORK[0], *WORK[-4:]))
    found = calibrate(measured(only), CHAIN, shipped=SHIPPED)
    assert found.untold == ("batch_matmul/fp32", "rate/V100/fp32/convolution", "normalization/traffic")
    assert not found.fitted.known("batch_matmul/fp32")
    assert found.merged.get("batch_matmul/fp32") == SHIPPED.get("batch_matmul/fp32")


def test_sums_are_right_where_single_kernels_are_not() -> None:
    seconds = {each: s * (3.0 if i % 2 else 0.5) for i, (each, s) in enumerate(true_seconds().items())}
    step = measured(seconds)
    found = calibrate(step, CHAIN, shipped=SHIPPED)
    assert sum(found.predicted(found.merged)) == pytest.approx(sum(seconds.values()), rel=0.01)
    assert sum(found.predicted(SHIPPED)) < 0.9 * sum(seconds.values())


def test_a_fused_kernel_is_the_sum_of_its_parts() -> None:
    fused = Kernel("bias", "_FusedMatMul", (WORK[1], WORK[-1]), 1.0)
    step = dataclasses.replace(measured(true_seconds()), kernels=(fused,))
    assert fused.work_class is WorkClass.MATMUL
    assert calibrate(step, CHAIN, shipped=SHIPPED).predicted(SHIPPED) == [
        pytest.approx(sum(predicted_seconds(step, (WORK[1], WORK[-1]), SHIPPED)))
    ]


def test_the_rest_of_the_step_is_the_hosts() -> None:
    seconds = true_seconds()
    long = calibrate(measured(seconds, step=10.0), CHAIN, shipped=SHIPPED)
    assert long.fitted_step_seconds == pytest.approx(10.0)
    assert long.fitted.get("runtime/tensorflow/step") > 0
    short = calibrate(measured(seconds, step=1e-6), CHAIN, shipped=SHIPPED)
    assert short.fitted.get("runtime/tensorflow/step") == 0.0
    assert short.fitted_step_seconds == pytest.approx(long.fitted_step_seconds - long.fitted.get(STEP))


STEP = "runtime/tensorflow/step"


def test_a_written_calibration_is_read_back_and_wins(tmp_path: Path) -> None:
    found = calibrate(measured(true_seconds()), CHAIN, shipped=SHIPPED).fitted
    path = tmp_path / "calibration.csv"
    path.write_text(write_coefficients(found), encoding="utf-8")
    merged = merge(SHIPPED, read_calibration(str(path)))
    assert merged.get("memory/V100") == pytest.approx(0.3, rel=0.02)
    assert merged.get("collective/nvlink/hop") == SHIPPED.get("collective/nvlink/hop")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("memroy/V100,0.5,1,t", "'memroy/V100' is no coefficient of the cost model.*did you mean 'memory'"),
        ("memory/V100,0,1,t", "memory/V100 cannot be 0"),
        ("fill_seconds,-1,1,t", "fill_seconds cannot be -1"),
        ("rate/V100/fp32/matmul,nan,1,t", "cannot be nan"),
    ],
)
def test_a_bad_calibration_is_told(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "c.csv"
    path.write_text(f"name,value,rows,fitted_to\n{line}\n", encoding="utf-8")
    with pytest.raises(PlanError, match=f"(?s){told}"):
        read_calibration(str(path))


def test_a_calibration_of_other_devices_is_refused() -> None:
    some = Coefficients({"memory/V100": Coefficient(0.5, 1, "t"), "rate/P100/fp32/matmul": Coefficient(0.5, 1, "t")})
    assert calibrated_models(some) == {"P100", "V100"}
    check_models(some, ["A100", "V100"], "c.csv")
    with pytest.raises(PlanError, match=r"c\.csv: the calibration is of P100, V100, and the cluster has A100"):
        check_models(some, ["A100", "A100"], "c.csv")


def test_numbers_of_no_device_fit_every_cluster() -> None:
    check_models(Coefficients({"fill_seconds": Coefficient(1e-6, 1, "t")}), ["A100"], "c.csv")


def test_a_step_without_a_kernel_is_refused() -> None:
    with pytest.raises(PlanError, match="no op"):
        calibrate(measured({}), CHAIN, shipped=SHIPPED)


def test_a_precision_that_the_device_lacks_is_refused() -> None:
    with pytest.raises(PlanError, match="no rate of V100 in tf32"):
        calibrate(measured(true_seconds(), precision="tf32"), CHAIN, shipped=SHIPPED)


def test_a_device_of_which_nothing_is_known_is_refused() -> None:
    unknown = dataclasses.replace(measured(true_seconds()), cluster=Cluster.local(1, "GPU", "X1", 2**30))
    with pytest.raises(ClusterError, match="X1"):
        calibrate(unknown, CHAIN, shipped=SHIPPED)
