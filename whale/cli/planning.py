"""Plans a script in this process. Imports TensorFlow, so it is itself imported only when a script is about to run."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.status import Status

from whale.cli.session import hidden_launcher
from whale.cluster import CATALOGUE, Catalogue, Cluster
from whale.config import Config, from_environment
from whale.cost_model import Coefficients, Precision, packaged_coefficients
from whale.cost_model.calibration_file import check_models, merge, read_calibration
from whale.errors import PlanError, SetupError, WhaleError
from whale.ir.plan import dump
from whale.planner.report import Offer, rank_offers, to_data, to_page, to_tables, to_trace
from whale.planner.report.offers import offers_tables
from whale.planner.report.report import PlanReport
from whale.runtime import launch
from whale.runtime.in_force import InForce
from whale.runtime.machine import gpu_descriptions, this_machine
from whale.runtime.options import Options
from whale.runtime.planning.decide import Decided, as_dealt, decide
from whale.runtime.planning.fixed import dealt_mesh
from whale.runtime.planning.rehearsal import Met, Rehearsal
from whale.runtime.planning.reporting import report_of
from whale.runtime.planning.training_step import Given, TrainingStep, training_step


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What the command line asks for."""

    clusters: Sequence[tuple[str, Cluster]]
    """With the names of their files; none for this machine."""
    devices: int | None
    catalogue_path: str | None
    calibration_path: str | None
    strategy: str
    batch: str
    batch_size: int | None
    sizes: Mapping[str, int]
    precision: Precision
    json_path: str | None
    html_path: str | None
    trace_path: str | None
    prices: tuple[float, ...]
    samples: int | None


def run(command: launch.Command, wishes: Wishes) -> None:
    """Rehearses a script and prints its plan.

    Raises:
        PlanError, ClusterError: there is no plan, or a size is not known.
        SetupError: the script trains nothing.
        SystemExit: the script failed before its first training step.
    """
    _Planning(command, wishes).run()


class _Planning:
    def __init__(self, command: launch.Command, wishes: Wishes) -> None:
        self.command = command
        self.wishes = wishes
        self.console = Console()
        self.catalogue: Catalogue = CATALOGUE
        if wishes.catalogue_path is not None:
            self.catalogue = CATALOGUE.extended(wishes.catalogue_path)
        self.coefficients: Coefficients = packaged_coefficients()
        here = [("this machine", this_machine(gpu_descriptions(), wishes.devices))] if not wishes.clusters else []
        self.clusters = here or list(wishes.clusters)
        if wishes.calibration_path is not None:
            measured = read_calibration(wishes.calibration_path)
            models = [d.model for cluster in (cluster for _, cluster in self.clusters) for d in cluster.compute_devices]
            check_models(measured, models, wishes.calibration_path)
            self.coefficients = merge(self.coefficients, measured)
        config = Config()
        config.fall_back_on(from_environment(os.environ))
        (_, cluster), *_ = self.clusters
        self.options = Options(cluster=cluster, strategy=wishes.strategy, batch=wishes.batch, config=config)
        self._answered = threading.Lock()
        self._done = False

    def run(self) -> None:
        rehearsal = Rehearsal(self.options, lambda: self._answer_or_tell(rehearsal))
        InForce.set(InForce(rehearsal, self.options))
        try:
            with hidden_launcher():
                launch.run(self.command)
        except SystemExit as end:
            if rehearsal.met is None and end.code:
                raise
        finally:
            rehearsal.close()
        if rehearsal.met is None:
            raise SetupError(
                "the script ended without a training step",
                fix="a plan is for a run that computes gradients and updates trainable variables; pass the arguments "
                "with which the script trains",
            )
        self._answer(rehearsal, rehearsal.met)

    def _answer_or_tell(self, rehearsal: Rehearsal) -> None:
        """For a script that has to be ended from within, where an exception would reach the script."""
        try:
            if rehearsal.met is not None:
                self._answer(rehearsal, rehearsal.met)
        except WhaleError as error:
            launch.print_error(error)
            sys.stderr.flush()
            os._exit(launch.WHALE_ERROR_STATUS)

    def _answer(self, rehearsal: Rehearsal, met: Met) -> None:
        with self._answered:
            if not self._begin():
                return
            self.options = rehearsal.options  # with what the script has configured
            given = Given(self.wishes.batch_size, self.wishes.sizes)
            step = training_step(met.graph, met.program, met.run, self.options, given)
            if len(self.clusters) > 1:
                self._compare(step, met)
            else:
                ((_, cluster),) = self.clusters
                self._show(self._decided(step, met, cluster), cluster)

    def _begin(self) -> bool:
        """Whether nothing was answered yet."""
        first, self._done = not self._done, True
        return first

    def _decided(self, step: TrainingStep, met: Met, cluster: Cluster) -> Decided:
        if step.is_fixed or self.wishes.strategy == "annotated":
            mesh = dealt_mesh(met.graph, met.program, dataclasses.replace(self.options, cluster=cluster))
            return as_dealt(
                step,
                mesh,
                cluster,
                precision=self.wishes.precision,
                catalogue=self.catalogue,
                coefficients=self.coefficients,
            )
        with self._status(f"planning {_script(self.command)}") as status:
            return decide(
                step,
                cluster,
                "shares only" if self.wishes.strategy == "replica" else "everything",
                precision=self.wishes.precision,
                catalogue=self.catalogue,
                coefficients=self.coefficients,
                progress=lambda phase: status.update(f"planning {_script(self.command)}: {phase}"),
            )

    def _status(self, text: str) -> Status:
        """A line on standard error while a search runs; nothing where that is no terminal."""
        return Status(text, console=Console(stderr=True))

    def _show(self, decided: Decided, cluster: Cluster) -> None:
        report = report_of(decided, cluster, _script(self.command), self.catalogue, self.coefficients)
        self.console.print(to_tables(report))
        self._write(decided, report)

    def _write(self, decided: Decided, report: PlanReport) -> None:
        wishes = self.wishes
        texts = {
            wishes.json_path: lambda: dump(decided.plan, to_data(report)),
            wishes.html_path: lambda: to_page(report),
            wishes.trace_path: lambda: json.dumps(to_trace(report)),
        }
        for path, text in texts.items():
            if path is None:
                continue
            try:
                Path(path).write_text(text(), encoding="utf-8")
            except OSError as error:
                raise PlanError(f"cannot write {path}: {error.strerror}", fix="give another path") from None
            print(f"whale: wrote {path}", file=sys.stderr)

    def _compare(self, step: TrainingStep, met: Met) -> None:
        prices = self.wishes.prices or (0.0,) * len(self.clusters)
        offers: list[Offer] = []
        for (name, cluster), price in zip(self.clusters, prices):
            try:
                offers.append(Offer(name, price, self._decided(step, met, cluster).found))
            except WhaleError as error:
                offers.append(Offer(name, price, error))
        samples = float(self.wishes.samples or _MILLION)
        by = "cost" if self.wishes.prices else "time"
        self.console.print(offers_tables(rank_offers(offers, samples, by), samples))


_MILLION = 1_000_000
"""Samples whose cost is told where the command line does not say how many are to be trained."""


def _script(command: launch.Command) -> str:
    return f"-m {command.target}" if command.is_module else command.target
