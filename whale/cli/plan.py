"""``whale plan``: what would run where, and why."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from whale.cli.script import ScriptCommand, command_of, tf1_environment
from whale.cluster import Cluster, load
from whale.cost_model.runtimes import PRECISIONS
from whale.errors import WhaleError
from whale.runtime import launch


class Size(click.ParamType):
    """``NAME=N``: an open size of a tensor."""

    name = "NAME=N"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int] | object:
        """Splits the text at the last equals sign."""
        if not isinstance(value, str):
            return value
        name, equals, number = value.rpartition("=")
        if not equals or not number.isdigit() or not int(number):
            self.fail(f"{value!r} is not NAME=N, such as 'IteratorGetNext:0[1]=128'", param, ctx)
        return name, int(number)


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Show what would run where, what it costs, and why.",
)
@click.option(
    "--cluster",
    "cluster_paths",
    multiple=True,
    metavar="FILE",
    help="YAML file of the devices to plan for; they need not be here. Given several times, the clusters are compared.",
)
@click.option("--devices", type=click.IntRange(min=1), help="Plan for this machine, with so many of its devices.")
@click.option("--catalogue", metavar="FILE", help="CSV file of devices and links that the catalogue lacks.")
@click.option("--calibration", metavar="FILE", help="What `whale profile` measured, in place of the shipped tables.")
@click.option(
    "--strategy",
    type=click.Choice(["auto", "replica", "annotated"]),
    default="auto",
    show_default=True,
    help="auto: all that can run, within what the script's scopes fix; replica: copies on all devices, with unequal "
    "shares where the devices are unequal; annotated: only what the scopes say.",
)
@click.option("--batch", type=click.Choice(["global", "local"]), help="As for `whale run`.")
@click.option("--batch-size", type=click.IntRange(min=1), help="Samples of the script's batch, where nothing says it.")
@click.option("--size", "sizes", type=Size(), multiple=True, help="An open size that the graph does not say.")
@click.option(
    "--precision", type=click.Choice(PRECISIONS), default="fp32", show_default=True, help="What products compute with."
)
@click.option("--json", "json_path", metavar="FILE", help="Write the plan, for `whale run --plan`, with its report.")
@click.option("--html", "html_path", metavar="FILE", help="Write a page: time line, memory, reasons.")
@click.option("--trace", "trace_path", metavar="FILE", help="Write the time line for Perfetto or chrome://tracing.")
@click.option(
    "--price", "prices", type=click.FloatRange(min=0), multiple=True, help="Price of an hour, one for each --cluster."
)
@click.option("--samples", type=click.IntRange(min=1), help="Samples to train in all, for the cost of each --cluster.")
@click.option("--module", hidden=True)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-m MODULE | SCRIPT] [ARGUMENTS]...")
def plan(
    cluster_paths: tuple[str, ...],
    devices: int | None,
    catalogue: str | None,
    calibration: str | None,
    strategy: str,
    batch: str | None,
    batch_size: int | None,
    sizes: tuple[tuple[str, int], ...],
    precision: str,
    json_path: str | None,
    html_path: str | None,
    trace_path: str | None,
    prices: tuple[float, ...],
    samples: int | None,
    module: str | None,
    words: tuple[str, ...],
) -> None:
    """Capture a TensorFlow 1 script up to its first training step, and plan it for a cluster.

    Nothing is trained and no device is used. Everything after the script's name belongs to the script.
    """
    command = command_of(module, words)
    if devices is not None and cluster_paths:
        raise click.UsageError("--devices and --cluster exclude each other: the file names the devices.")
    if prices and len(prices) != len(cluster_paths):
        raise click.UsageError(f"{len(prices)} --price for {len(cluster_paths)} --cluster: give one for each.")
    if len(cluster_paths) > 1 and (json_path or html_path or trace_path):
        raise click.UsageError("--json, --html and --trace show one plan: give one --cluster.")
    try:
        if not command.is_module:
            command.source()  # a wrong path is told before TensorFlow's seconds of start-up
        for path in (json_path, html_path, trace_path):
            _check_folder(path)
        clusters: list[tuple[str, Cluster]] = [(path, load(path)) for path in cluster_paths]
        with tf1_environment():
            # Imports TensorFlow, which must not happen before the environment has chosen its Keras.
            planning = importlib.import_module("whale.cli.planning")
            planning.run(
                command,
                planning.Wishes(
                    clusters=clusters,
                    devices=devices,
                    catalogue_path=catalogue,
                    calibration_path=calibration,
                    strategy=strategy,
                    batch=batch or "",
                    batch_size=batch_size,
                    sizes=dict(sizes),
                    precision=precision,
                    json_path=json_path,
                    html_path=html_path,
                    trace_path=trace_path,
                    prices=prices,
                    samples=samples,
                ),
            )
    except WhaleError as error:
        launch.print_error(error)
        raise SystemExit(launch.WHALE_ERROR_STATUS) from None


def _check_folder(path: str | None) -> None:
    """A file that cannot be written is told before the search."""
    if path is not None and not Path(path).resolve().parent.is_dir():
        raise click.UsageError(f"there is no folder {str(Path(path).parent)!r} to write {Path(path).name!r} to.")
