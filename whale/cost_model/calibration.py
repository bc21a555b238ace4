"""Coefficients fitted to what the ops of a training step took on one device.

The cost model is a black box here: coefficients are chosen so that ``BlockTimes.kernel_seconds`` comes close to the
measured time of each kernel. Let ``p_i(c)`` be the time predicted for kernel i under coefficients c, ``t_i`` the
measured one, over all its runs in a step, and T their sum. The fit minimises

    sum_i (t_i log(t_i / p_i(c)) - t_i + p_i(c)) / T + SHRINKAGE * sum_j (log c_j - log shipped_j) ** 2

over log c: half the deviance of a Poisson regression (McCullagh and Nelder, Generalized Linear Models, 1989). Where it
is least, the times that a coefficient decides have the measured sum, which is what a step's time is made of; a fit to
the logarithms would have the right mean of ratios and too large a sum. An error of one kernel counts by its square over
the kernel's time, so that neither the longest kernels nor the many short ones decide alone. The last term keeps a
coefficient that nothing measured tells about at its shipped value.

Only coefficients that the measurements tell about are kept: those that decide the time of at least one kernel, which
is to say that the kernel's time changes by more than half of what the coefficient changes.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whale.cluster import CATALOGUE, Catalogue, Cluster
from whale.cost_model.block import Chain, Work, WorkClass
from whale.cost_model.calibration_file import merge
from whale.cost_model.coefficients import Coefficient, Coefficients, packaged_coefficients
from whale.cost_model.plan import ParallelPlan, StagePlan
from whale.cost_model.runtimes import Precision, runtime
from whale.cost_model.simulate import simulate
from whale.cost_model.timing import BlockTimes, Share
from whale.cost_model.world import World
from whale.errors import PlanError, Site

# scipy has no type stubs: imported so that the checker takes what it returns for anything.
_OPTIMIZE: Any = importlib.import_module("scipy.optimize")

SHRINKAGE = 1e-9
"""Weight of the shipped values, against 1 for all measured time."""

_STEP = 1.1
"""Factor by which a coefficient is changed to see what it decides."""

_DECIDES = 0.5
"""Part of a coefficient's change by which a time changes that it decides."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """What TensorFlow ran as one, measured."""

    name: str
    """The op, by its name in the user's graph; where several were fused, the last."""
    type: str
    """The op type that ran."""
    work: tuple[Work, ...]
    """What the cost model has in its place: one kernel, or those that TensorFlow fused into this one."""
    seconds: float
    """Of one run."""
    runs: float = 1.0
    """Runs in a step: more than one in a loop."""
    site: Site | None = None
    """The user's line; for a gradient that of the op it is the gradient of."""

    @property
    def work_class(self) -> WorkClass:
        """That of the part with the most FLOPs."""
        return max(self.work, key=lambda work: work.flops.at(1.0)).work_class


@dataclasses.dataclass(frozen=True)
class Measured:
    """A training step, measured on one device."""

    cluster: Cluster
    """The one device."""
    precision: Precision
    samples: int
    """Of the batch."""
    kernels: tuple[Kernel, ...]
    step_seconds: float
    """Of a step, without a trace."""
    dispatch_seconds: float
    """What the host needs to hand one kernel to the device."""
    title: str = "profile"
    """What was measured, for the file."""

    @property
    def model(self) -> str:
        """The device's."""
        return self.cluster.compute_devices[0].model


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration:
    """What was fitted."""

    measured: Measured
    shipped: Coefficients
    """What it was fitted from."""
    fitted: Coefficients
    """The fitted numbers alone."""
    untold: tuple[str, ...]
    """Numbers of this device that keep their shipped values, as they decide the time of no measured kernel."""
    shipped_step_seconds: float
    """Of a step, by the shipped values."""
    fitted_step_seconds: float
    """The same by the fitted ones."""
    catalogue: Catalogue = CATALOGUE

    @property
    def merged(self) -> Coefficients:
        """The shipped numbers with the fitted ones in their places."""
        return merge(self.shipped, self.fitted)

    def predicted(self, coefficients: Coefficients) -> list[float]:
        """Seconds of one run of each measured kernel under some coefficients."""
        return _predicted(self.measured, coefficients, self.catalogue)


def rate_format(catalogue: Catalogue, model: str, precision: Precision) -> str:
    """The format under which a device's rates in a precision are filed; both formats of 16 bits share theirs.

    Raises:
        ClusterError: the catalogue does not know the device.
        PlanError: it has no peak for the device in this precision.
    """
    if catalogue.device(model).number(f"{precision}_flops") is None:
        raise PlanError(
            f"the catalogue has no rate of {model} in {precision}", fix="profile in a precision that the device has"
        )
    return "fp16" if precision == "bf16" else precision


def calibrate(
    measured: Measured,
    chain: Chain,
    *,
    catalogue: Catalogue = CATALOGUE,
    shipped: Coefficients | None = None,
) -> Calibration:
    """Fits the coefficients that decide the times of a device to a measured step.

    Args:
        measured: the step.
        chain: the same step as the cost model has it.
        catalogue: peaks and bandwidth of the device.
        shipped: coefficients to start from; those that ship with Whale by default.

    Raises:
        PlanError: nothing was measured, or the device has no peak in this precision.
        ClusterError: the catalogue does not know the speed of the device.
    """
    return _Fit(measured, chain, catalogue, shipped or packaged_coefficients()).run()


def predicted_seconds(
    measured: Measured, work: Iterable[Work], coefficients: Coefficients, catalogue: Catalogue = CATALOGUE
) -> list[float]:
    """Seconds of kernels on the measured device, at the measured batch."""
    times = BlockTimes(runtime("tensorflow"), measured.precision, catalogue, coefficients)
    share = Share(measured.samples)
    known: dict[Work, float] = {}  # equal ones, of which a deep model has many, are predicted once
    found: list[float] = []
    for each in work:
        if each not in known:
            known[each] = times.kernel_seconds(each, measured.model, share)
        found.append(known[each])
    return found


def _predicted(measured: Measured, coefficients: Coefficients, catalogue: Catalogue) -> list[float]:
    """Seconds of one run of each measured kernel."""
    parts = iter(predicted_seconds(measured, (w for k in measured.kernels for w in k.work), coefficients, catalogue))
    return [sum(next(parts) for _ in kernel.work) for kernel in measured.kernels]


class _Fit:
    def __init__(self, measured: Measured, chain: Chain, catalogue: Catalogue, shipped: Coefficients) -> None:
        if not measured.kernels:
            raise PlanError("no op of the training step was measured on the device")
        self.measured = measured
        self.chain = chain
        self.catalogue = catalogue
        self.shipped = shipped
        self.model = measured.model
        self.format = rate_format(catalogue, measured.model, measured.precision)
        self.seconds: NDArray[np.float64] = np.array([kernel.seconds for kernel in measured.kernels])
        runs = np.array([kernel.runs for kernel in measured.kernels])
        self.weights: NDArray[np.float64] = runs / (runs * self.seconds).sum()

    def run(self) -> Calibration:
        start = self._start()
        names = [name for name, work_class in self._candidates().items() if self._has(work_class)]
        while True:
            values = self._fitted(names, start)
            decided = self._decided(values)
            kept = [name for name in names if decided[name]]
            if kept == names:
                break
            names = kept
        title, host = self.measured.title, self._host(values)
        fitted = {name: Coefficient(value, decided[name], title) for name, value in values.items()}
        fitted.update({name: Coefficient(value, rows, title) for name, (value, rows) in host.items()})
        calibrated = Coefficients(fitted)
        return Calibration(
            self.measured,
            self.shipped,
            calibrated,
            tuple(name for name in self._candidates() if name not in fitted),
            self._step(self.shipped),
            self._step(merge(self.shipped, calibrated)),
            self.catalogue,
        )

    # -- kernels -----------------------------------------------------------------------------------------------

    def _candidates(self) -> dict[str, WorkClass | None]:
        """What decides the times of a device, with the class of work that tells about it; None for every class."""
        rates = f"rate/{self.model}/{self.format}"
        return {
            f"{rates}/matmul": WorkClass.MATMUL,
            f"batch_matmul/{self.format}": WorkClass.BATCH_MATMUL,
            f"{rates}/convolution": WorkClass.CONVOLUTION,
            f"memory/{self.model}": None,
            "normalization/traffic": WorkClass.NORMALIZATION,
            "fill_seconds": None,
        }

    def _has(self, work_class: WorkClass | None) -> bool:
        return work_class is None or any(kernel.work_class is work_class for kernel in self.measured.kernels)

    def _start(self) -> dict[str, float]:
        """The shipped values, means where the device was never fitted."""
        means: dict[str, tuple[str, ...]] = {
            f"rate/{self.model}/{self.format}/{kind}": (f"rate/*/{self.format}/{kind}", f"rate/*/*/{kind}")
            for kind in ("matmul", "convolution")
        }
        means[f"batch_matmul/{self.format}"] = ("batch_matmul/*",)
        means[f"memory/{self.model}"] = ("memory/*",)
        means["normalization/traffic"] = ("traffic",)
        return {name: self.shipped.get(name, *means.get(name, ())) for name in self._candidates()}

    def _predicted(self, values: Mapping[str, float]) -> NDArray[np.float64]:
        changed = self.shipped.replaced(values, self.measured.title)
        return np.array(_predicted(self.measured, changed, self.catalogue))

    def _fitted(self, names: Sequence[str], start: Mapping[str, float]) -> dict[str, float]:
        if not names:
            return {}
        origin = np.log([start[name] for name in names])

        def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
            values = {name: math.exp(log) for name, log in zip(names, logs)}
            errors = np.sqrt(self.weights) * _deviance_residuals(self.seconds, self._predicted(values))
            return np.concatenate([errors, math.sqrt(SHRINKAGE) * (logs - origin)])

        found = _OPTIMIZE.least_squares(residuals, origin, ftol=1e-12, xtol=1e-9, gtol=1e-12, diff_step=1e-3)
        return {name: math.exp(log) for name, log in zip(names, found.x)}

    def _decided(self, values: Mapping[str, float]) -> dict[str, int]:
        """For each coefficient, how many kernels' times it decides."""
        before = self._predicted(values)
        found: dict[str, int] = {}
        classes = self._candidates()
        for name, value in values.items():
            after = self._predicted({**values, name: value * _STEP})
            decided = np.abs(np.log(after / before)) > _DECIDES * math.log(_STEP)
            told = [classes[name] in (None, kernel.work_class) for kernel in self.measured.kernels]
            found[name] = int(np.sum(decided & np.array(told)))
        return found

    # -- host --------------------------------------------------------------------------------------------------

    def _host(self, values: Mapping[str, float]) -> dict[str, tuple[float, int]]:
        """What the host needs for a kernel, and once a step: the rest of the measured step."""
        rows = len(self.measured.kernels)
        dispatch = self.measured.dispatch_seconds
        numbers = {**values, f"{_HOST}/dispatch": dispatch, f"{_HOST}/step": 0.0}
        rest = self.measured.step_seconds - self._step(self.shipped.replaced(numbers, self.measured.title))
        return {f"{_HOST}/dispatch": (dispatch, rows), f"{_HOST}/step": (max(rest, 0.0), 1)}

    def _step(self, coefficients: Coefficients) -> float:
        device = self.measured.cluster.compute_devices[0].name
        stages = (StagePlan(0, len(self.chain.blocks), ((device,),)),)
        plan = ParallelPlan(stages, self.measured.samples, precision=self.measured.precision)
        world = World(self.measured.cluster, runtime("tensorflow"), self.catalogue, coefficients)
        return simulate(self.chain, plan, world, timeline=False).step_seconds


def _deviance_residuals(measured: NDArray[np.float64], predicted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers whose squares are half the Poisson deviance, with the sign of the error."""
    deviance = measured * np.log(measured / predicted) - measured + predicted
    return np.copysign(np.sqrt(np.maximum(deviance, 0.0)), predicted - measured)


_HOST = "runtime/tensorflow"
