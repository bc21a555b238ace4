"""``whale run``: a script on several devices."""

from __future__ import annotations

import atexit
import contextlib
import importlib

import click

from whale.cli.script import ScriptCommand, command_of, tf1_environment
from whale.cluster import load
from whale.errors import WhaleError
from whale.runtime import launch


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Run a TensorFlow 1 script on several devices.",
)
@click.option(
    "--devices",
    type=click.IntRange(min=1),
    help="Number of devices of this machine: its first GPUs, or CPU devices when it has none. "
    "Default: all GPUs, or one CPU device.",
)
@click.option("--cluster", "cluster_path", metavar="FILE", help="YAML file of the devices, in place of --devices.")
@click.option(
    "--strategy",
    type=click.Choice(["auto", "replica", "annotated"]),
    help="auto: the plan that is predicted fastest, within what the script's scopes fix; replica: copies on all "
    "devices, whatever the scopes say; annotated: only what the scopes say. Default: what the scopes say, and copies "
    "on all devices where they say nothing.",
)
@click.option(
    "--batch",
    type=click.Choice(["global", "local"]),
    help="Whether the script's batch is the whole batch or that of one replica. "
    "Default: local when the script uses Whale's scopes, else global.",
)
@click.option(
    "--plan",
    "plan_path",
    metavar="FILE",
    help="JSON file that `whale plan --json` wrote.",
)
@click.option("--catalogue", metavar="FILE", help="CSV file of devices and links that the planner's catalogue lacks.")
@click.option("--module", hidden=True)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-m MODULE | SCRIPT] [ARGUMENTS]...")
def run(
    devices: int | None,
    cluster_path: str | None,
    strategy: str | None,
    batch: str | None,
    plan_path: str | None,
    catalogue: str | None,
    module: str | None,
    words: tuple[str, ...],
) -> None:
    """Run a TensorFlow 1 (static graph) script on several devices, unchanged.

    Everything after the script's name belongs to the script. What runs on several devices, and what does not and why,
    is printed on standard error before training. Configuration keys are set by environment variables, such as
    WHALE_BATCH_SYNC=False.
    """
    command = command_of(module, words)
    if devices is not None and cluster_path is not None:
        raise click.UsageError("--devices and --cluster exclude each other: the file names the devices.")
    # At exit, after what the script registered there: its threads and handlers still run under Whale.
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    try:
        if not command.is_module:
            command.source()  # a wrong path is told before TensorFlow's seconds of start-up
        cluster = None if cluster_path is None else load(cluster_path)
        stack.callback(tf1_environment().close)
        # Imports TensorFlow, which must not happen before the environment has chosen its Keras.
        session = importlib.import_module("whale.cli.session")
        activation = session.start(cluster, devices, strategy, batch, plan_path, catalogue)
        stack.callback(activation.close)
    except WhaleError as error:
        launch.print_error(error)
        raise SystemExit(launch.WHALE_ERROR_STATUS) from None
    try:
        with session.hidden_launcher():
            launch.run(command)
    except SystemExit as end:
        if not end.code:
            session.tell_if_unused(activation)
        raise
    session.tell_if_unused(activation)
