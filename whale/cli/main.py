"""Entry point of the command ``whale``."""

from __future__ import annotations

import importlib.metadata

import click

from whale.cli.doctor import doctor
from whale.cli.plan import plan
from whale.cli.profile import profile
from whale.cli.run import run


def installed_version() -> str:
    """Version of the distribution, or what says that this is a source tree."""
    try:
        return importlib.metadata.version("whale-tf")
    except importlib.metadata.PackageNotFoundError:
        return "0 (not installed)"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(installed_version(), prog_name="whale")
def main() -> None:
    """Train TensorFlow static-graph scripts on many devices, unchanged."""


main.add_command(run)
main.add_command(plan)
main.add_command(profile)
main.add_command(doctor)

if __name__ == "__main__":
    main(prog_name="whale")
