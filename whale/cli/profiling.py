"""Profiles a script in this process. Imports TensorFlow, so it is imported only when a script is about to run."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from whale.cli.profile_tables import Profile, profile_tables
from whale.cli.session import hidden_launcher
from whale.cluster import CATALOGUE, Catalogue
from whale.config import Config, from_environment
from whale.cost_model import BlockTimes, Precision, runtime
from whale.cost_model.calibration import calibrate, rate_format
from whale.cost_model.coefficients import write_coefficients
from whale.errors import PlanError, SetupError, WhaleError
from whale.runtime import launch
from whale.runtime.in_force import InForce
from whale.runtime.machine import gpu_descriptions, this_machine
from whale.runtime.options import Options
from whale.runtime.planning.training_step import Given
from whale.runtime.profiling.measure import measured_step
from whale.runtime.profiling.profiling import WARM_UP, Profiled, Profiling


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What the command line asks for."""

    output_path: str
    """Absolute: a script may change the working folder."""
    steps: int
    batch_size: int | None
    sizes: Mapping[str, int]
    precision: Precision
    catalogue_path: str | None


def run(command: launch.Command, wishes: Wishes) -> None:
    """Trains a script for a few steps, prints what its ops took, and writes the calibration.

    Raises:
        SetupError: the script trains nothing, or not for long enough.
        PlanError, ClusterError: the cost model knows no such step or device, or the file cannot be written.
        SystemExit: the script failed before all steps were measured.
    """
    _Profiling(command, wishes).run()


class _Profiling:
    def __init__(self, command: launch.Command, wishes: Wishes) -> None:
        self.command = command
        self.wishes = wishes
        self.catalogue: Catalogue = CATALOGUE
        if wishes.catalogue_path is not None:
            self.catalogue = CATALOGUE.extended(wishes.catalogue_path)
        cluster = this_machine(gpu_descriptions()[:1], 1)
        (device,) = cluster.compute_devices
        # What is unknown of the device is told before the script trains.
        BlockTimes(runtime("tensorflow"), wishes.precision, self.catalogue).rates(device.model)
        rate_format(self.catalogue, device.model, wishes.precision)
        config = Config()
        config.fall_back_on(from_environment(os.environ))
        self.options = Options(cluster=cluster, config=config)
        self._answered = threading.Lock()
        self._done = False

    def run(self) -> None:
        profiling = Profiling(self.options, self.wishes.steps, lambda: self._answer_or_tell(profiling))
        InForce.set(InForce(profiling, self.options))
        try:
            with hidden_launcher():
                launch.run(self.command)
                _join_threads()
        except SystemExit as end:
            if end.code and not profiling.is_over:
                raise
        finally:
            profiling.close()
        self._answer(profiling)

    def _answer_or_tell(self, profiling: Profiling) -> None:
        """For a script that has to be ended from within, where an exception would reach the script."""
        try:
            self._answer(profiling)
        except WhaleError as error:
            launch.print_error(error)
            sys.stderr.flush()
            os._exit(launch.WHALE_ERROR_STATUS)

    def _answer(self, profiling: Profiling) -> None:
        with self._answered:
            first, self._done = not self._done, True
            if first:
                self._write(self._measured(profiling))

    def _measured(self, profiling: Profiling) -> Profiled:
        found = profiling.profiled()
        if found is not None:
            return found
        if not profiling.met:
            raise SetupError(
                "the script ended without a training step",
                fix="a profile is of a run that computes gradients and updates trainable variables; pass the arguments "
                "with which the script trains",
            )
        raise SetupError(
            f"the script ended after {profiling.met} training step(s), and the first {WARM_UP} are not measured",
            fix=f"let it train for {WARM_UP + 2 * self.wishes.steps} steps",
        )

    def _write(self, profiled: Profiled) -> None:
        wishes, script = self.wishes, Path(self.command.target).name
        given = Given(wishes.batch_size, wishes.sizes)
        step = measured_step(profiled, self.options, given, precision=wishes.precision, title=f"whale profile {script}")
        calibration = calibrate(step.measured, step.chain, catalogue=self.catalogue)
        asked, steps = wishes.steps, len(profiled.traces)
        notes = [f"the script ended after {steps} of {asked} steps"] if steps < asked else []
        Console().print(profile_tables(Profile(script, steps, calibration, step.parts, (*notes, *step.notes))))
        try:
            Path(wishes.output_path).write_text(write_coefficients(calibration.fitted), encoding="utf-8")
        except OSError as error:
            raise PlanError(
                f"cannot write {wishes.output_path}: {error.strerror}", fix="give another --output"
            ) from None
        print(f"whale: wrote {wishes.output_path}, for whale plan --calibration", file=sys.stderr)


def _join_threads() -> None:
    """Waits for what the script's own threads do, as Python does before it ends."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
