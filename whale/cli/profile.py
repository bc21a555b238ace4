"""``whale profile``: what ops take on the device at hand."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import click

from whale.cli.plan import Size
from whale.cli.script import ScriptCommand, command_of, tf1_environment
from whale.cost_model.runtimes import PRECISIONS
from whale.errors import WhaleError
from whale.runtime import launch


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Measure op times here, for the plans of this machine.",
)
@click.option(
    "--output",
    metavar="FILE",
    default="calibration.csv",
    show_default=True,
    help="The calibration to write, for `whale plan --calibration`.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Training steps to time, and as many to trace, after 2 that warm up.",
)
@click.option("--batch-size", type=click.IntRange(min=1), help="Samples of the script's batch, where nothing says it.")
@click.option("--size", "sizes", type=Size(), multiple=True, help="An open size that the graph does not say.")
@click.option(
    "--precision", type=click.Choice(PRECISIONS), default="fp32", show_default=True, help="What products compute with."
)
@click.option("--catalogue", metavar="FILE", help="CSV file of devices that the catalogue lacks.")
@click.option("--module", hidden=True)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-m MODULE | SCRIPT] [ARGUMENTS]...")
def profile(
    output: str,
    steps: int,
    batch_size: int | None,
    sizes: tuple[tuple[str, int], ...],
    precision: str,
    catalogue: str | None,
    module: str | None,
    words: tuple[str, ...],
) -> None:
    """Train a TensorFlow 1 script for a few steps on one device of this machine, and measure its ops.

    The script really trains, on the first GPU or on the CPU, and whatever it writes is written; it is ended after the
    last step that is measured. Everything after the script's name belongs to the script.
    """
    command = command_of(module, words)
    _check_output(output)
    try:
        if not command.is_module:
            command.source()  # a wrong path is told before TensorFlow's seconds of start-up
        with tf1_environment():
            # Imports TensorFlow, which must not happen before the environment has chosen its Keras.
            profiling = importlib.import_module("whale.cli.profiling")
            profiling.run(
                command,
                profiling.Wishes(
                    output_path=os.path.abspath(output),
                    steps=steps,
                    batch_size=batch_size,
                    sizes=dict(sizes),
                    precision=precision,
                    catalogue_path=catalogue,
                ),
            )
    except WhaleError as error:
        launch.print_error(error)
        raise SystemExit(launch.WHALE_ERROR_STATUS) from None


def _check_output(path: str) -> None:
    """A file that cannot be written is told before the script trains."""
    target = Path(path).resolve()
    if target.is_dir():
        raise click.UsageError(f"{path!r} is a folder: --output names a file.")
    if not target.parent.is_dir():
        raise click.UsageError(f"there is no folder {str(Path(path).parent)!r} to write {target.name!r} to.")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise click.UsageError(f"{path!r} cannot be written: permission denied.")
