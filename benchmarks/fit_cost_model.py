"""Fits the cost model's coefficients to measured tables and writes them into the package.

    python benchmarks/fit_cost_model.py ../shared/data/*.csv

Only plans that are not held back are used (``Case.held``: every other one, by a hash of the plan). Coefficients
are fitted in groups, one after the other, each by least squares on the logarithm of predicted over measured, with a
loss that grows linearly for outliers. A pull towards the starting value, as strong as a fraction of one row, keeps what
the rows do not determine where it was. The result depends on the tables and this file alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.resources
import math
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.cost_cases import Case
from benchmarks.cost_predict import Predictor
from benchmarks.cost_rows import read_cases
from whale.cost_model.coefficients import Coefficient, Coefficients, write_coefficients

OUTLIER = 0.1
"""Errors beyond this part count linearly."""

PULL = 0.3
"""Weight of a coefficient's distance from its start, as a logarithm, against one row's error."""


@dataclasses.dataclass(frozen=True)
class Fit:
    """Coefficients that are fitted together."""

    tables: tuple[str, ...]
    """Begins of table names."""
    start: dict[str, float]
    """Starting values."""
    takes: Callable[[Case], bool] = lambda case: True
    """Which cases of the tables."""


def _timed(case: Case) -> bool:
    return case.quantity in ("flops", "seconds")


def _on_v100(case: Case) -> bool:
    return case.setup.cluster.compute_devices[0].model == "V100"


def _sampled(case: Case) -> bool:
    """All plans over several machines, and of the many within one every fourth."""
    return case.setup.cluster.worker_num > 1 or zlib.crc32(case.plan_key[::-1].encode()) % 4 == 0


FITS: tuple[Fit, ...] = (
    Fit(
        ("vtrain_nccl",),
        {
            "collective/NVLink-3/start": 3e-5,
            "collective/NVLink-3/hop": 5e-6,
            "collective/NVLink-3/efficiency": 0.75,
            "collective/NVLink-2/start": 2e-5,
            "collective/NVLink-2/hop": 8e-6,
            "collective/NVLink-2/efficiency": 0.88,
        },
    ),
    Fit(
        ("vtrain_measured",),
        {
            "rate/A100/fp16/matmul": 0.75,
            "batch_matmul/fp16": 0.4,
            "memory/A100": 0.8,
            "fill_seconds": 4e-6,
            "runtime/megatron-deepspeed/dispatch": 3e-5,
            "runtime/megatron-deepspeed/step": 8e-3,
            "communication/megatron-deepspeed/network": 0.9,
            "collective/network/hop": 1e-5,
        },
        _sampled,
    ),
    Fit(
        ("hetero_layer",),
        {
            "rate/A100/tf32/matmul": 0.7,
            "rate/GH200/tf32/matmul": 0.5,
            "rate/RTX-3090/tf32/matmul": 0.6,
            "rate/RTX-2080-Ti/fp32/matmul": 0.7,
            "rate/Titan-RTX/fp32/matmul": 0.6,
            "batch_matmul/tf32": 0.6,
            "batch_matmul/fp32": 0.8,
            "memory/GH200": 0.7,
            "memory/RTX-3090": 0.8,
            "memory/RTX-2080-Ti": 0.8,
            "memory/Titan-RTX": 0.8,
            "runtime/deepspeed/traffic": 1.5,
            "runtime/deepspeed/dispatch": 5e-5,
            "collective/PCIe-3.0/efficiency": 0.3,
            "collective/PCIe-3.0/sockets": 0.9,
            "collective/PCIe-4.0/efficiency": 0.2,
            "collective/PCIe-4.0/sockets": 0.3,
            "collective/NVLink-4-quad/efficiency": 0.8,
        },
        lambda case: not _on_v100(case),
    ),
    Fit(
        ("sailor_measured",),
        {
            "runtime/deepspeed/step": 5e-2,
            "communication/deepspeed/network": 0.9,
        },
        _timed,
    ),
    Fit(
        ("tf1_official", "dlperf_tf1", "nvidia_dle", "hetero_layer"),
        {
            "rate/V100/fp32/matmul": 0.93,
            "memory/V100": 0.85,
            "rate/K80/fp32/convolution": 0.6,
            "rate/P100/fp32/convolution": 0.6,
            "rate/V100/fp32/convolution": 0.8,
            "rate/V100/fp16/convolution": 0.5,
            "rate/A100/tf32/convolution": 0.5,
            "rate/A100/fp16/convolution": 0.5,
            "memory/K80": 0.7,
            "memory/P100": 0.7,
            "runtime/tensorflow/dispatch": 1e-5,
            "runtime/tensorflow/step": 5e-3,
            "runtime/tensorflow/traffic": 0.9,
            "runtime/tensorflow/wide": 0.5,
            "runtime/xla/dispatch": 1e-5,
            "runtime/xla/step": 5e-3,
            "runtime/xla/traffic": 1.0,
            "runtime/xla/reductions": 2.0,
            "communication/horovod/overlap": 0.9,
            "communication/horovod/network": 0.6,
            "communication/horovod/tensor_seconds": 1e-4,
            "communication/horovod/network_tensor_seconds": 2e-4,
            "communication/distribute/network": 0.5,
            "communication/distribute/tensor_seconds": 2e-4,
            "communication/distribute/network_tensor_seconds": 5e-4,
        },
        lambda case: _timed(case) or (case.quantity == "block" and _on_v100(case)),
    ),
    Fit(
        ("dlperf_gpt", "megatron_tables", "seqpar"),
        {
            "rate/V100/fp16/matmul": 0.75,
            "runtime/megatron/dispatch": 2e-5,
            "runtime/megatron/step": 1e-2,
            "communication/megatron/network": 0.8,
            "runtime/oneflow/dispatch": 1.5e-5,
            "runtime/oneflow/step": 1e-2,
            "communication/oneflow/network": 0.9,
        },
        _timed,
    ),
    Fit(
        ("dlperf_gpt",),
        {"runtime/oneflow/context_bytes": 1e9},
        lambda case: case.quantity == "memory",
    ),
)
"""In the order of fitting: each group may use what those before it found."""

SET: dict[str, tuple[float, str]] = {
    "tensor_seconds": (0.0, "most runtimes reduce many gradients as one"),
    "wide": (0.0, "hand-written and compiled kernels work in 16 bits"),
    "normalization/traffic": (1.0, "bytes of a kernel as its operands are large"),
    "traffic": (1.0, "bytes of a kernel as its operands are large"),
    "rate/elementwise": (1.0, "element-wise work is bound by memory"),
    "collective/nvlink/start": (3e-5, "as NVLink-3"),
    "collective/nvlink/hop": (5e-6, "as NVLink-3"),
    "collective/pcie/start": (3e-5, "as NVLink-3"),
    "collective/pcie/hop": (5e-6, "as NVLink-3"),
    "collective/network/start": (3e-5, "usual start-up time of a network transfer"),
    "collective/memory/start": (1e-5, "not measured"),
    "collective/memory/hop": (1e-5, "not measured"),
    "runtime/tensorflow/context_bytes": (1e9, "CUDA context and NCCL buffers; not measured"),
    "runtime/megatron/context_bytes": (1e9, "CUDA context and NCCL buffers; not measured"),
    "communication/distribute/overlap": (0.0, "gradients are reduced after the backward pass, one by one"),
    "communication/megatron/overlap": (0.0, "gradients are reduced after the last backward pass"),
    "communication/deepspeed/overlap": (0.0, "gradients are reduced after the last backward pass"),
    "communication/megatron-deepspeed/overlap": (0.0, "gradients are reduced after the last backward pass"),
    "communication/oneflow/overlap": (1.0, "its graph reduces each gradient when it is there"),
    "communication/parameter-server/overlap": (0.5, "not measured"),
    "communication/parameter-server/network": (0.5, "not measured"),
}
"""What no table determines."""


def fit_all(cases: Sequence[Case], log: Callable[[str], None] = print, split: int = 0) -> Coefficients:
    """Fits every group to the cases that a split does not hold back."""
    values = {name: Coefficient(value, 0, why) for name, (value, why) in SET.items()}
    for fit in FITS:
        values.update({name: Coefficient(value, 0, "start") for name, value in fit.start.items()})
    current = Coefficients(values)
    for fit in FITS:
        chosen = [c for c in cases if c.table.startswith(fit.tables) and fit.takes(c)]
        fitted, held = [c for c in chosen if not c.held(split)], [c for c in chosen if c.held(split)]
        if not fitted:
            log(f"{' '.join(fit.tables)}: no rows, kept as they start")
            continue
        began = time.perf_counter()
        current = _fit(fit, current, fitted)
        seconds = time.perf_counter() - began
        log(
            f"{' '.join(fit.tables)}: {len(fit.start)} coefficients, {len(fitted)} rows, error "
            f"{_mape(current, fitted):.1f} %, on {len(held)} held back {_mape(current, held):.1f} % ({seconds:.0f} s)"
        )
    return current


def _fit(fit: Fit, start: Coefficients, cases: Sequence[Case]) -> Coefficients:
    names = list(fit.start)
    origin = np.log([fit.start[name] for name in names])
    label = " ".join(sorted({case.table for case in cases}))

    def at(point: np.ndarray) -> Coefficients:
        found = dict(zip(names, np.exp(point)))
        return start.replaced({name: _bounded(name, value) for name, value in found.items()}, label, len(cases))

    def errors(point: np.ndarray) -> np.ndarray:
        predictor = Predictor(at(point))
        rows = [math.log(predictor.predict(case) / case.measured) for case in cases]
        return np.array([*rows, *(PULL * (point - origin))])

    found = least_squares(
        errors, origin, loss="soft_l1", f_scale=OUTLIER, diff_step=1e-3, xtol=1e-3, ftol=1e-3, max_nfev=30
    )
    return at(found.x)


def _bounded(name: str, value: float) -> float:
    """Parts of a whole are at most one."""
    part = name.startswith(("rate/", "memory/")) or name.endswith(
        ("/overlap", "/network", "/efficiency", "/sockets", "/wide")
    )
    return float(min(value, 1.0)) if part else float(value)


def _mape(coefficients: Coefficients, cases: Sequence[Case]) -> float:
    predictor = Predictor(coefficients)
    errors = [abs(predictor.predict(case) / case.measured - 1) for case in cases]
    return 100 * sum(errors) / len(errors) if errors else math.nan


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, help="where to write; by default into the package")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", "Converting sparse IndexedSlices")  # the graphs are captured, not run
    cases = [case for path in options.tables for case in read_cases(path) if isinstance(case, Case)]
    coefficients = fit_all(cases)
    path = options.output or Path(str(importlib.resources.files("whale.cost_model") / "data" / "coefficients.csv"))
    path.write_text(write_coefficients(coefficients), encoding="utf-8")


if __name__ == "__main__":
    main()
