"""What the commands that run a script share: a line that ends with the script's own words, and its environment."""

from __future__ import annotations

import click

import whale_tf1
from whale.runtime import launch


class ScriptCommand(click.Command):
    """A command whose own options end where the script, or ``-m module``, begins."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Cuts the line after ``-m module``, as Python does, so that what follows is left untouched."""
        position = 0
        while position < len(args) and args[position].startswith("-") and args[position] != "--":
            if args[position] == "-m":
                if position + 1 == len(args):
                    raise click.UsageError("Option '-m' requires an argument.", ctx)
                args = [*args[:position], "--module", *args[position + 1 : position + 2], "--", *args[position + 2 :]]
                break
            has_value = args[position] not in ("-h", "--help") and "=" not in args[position]
            position += 2 if has_value else 1
        return super().parse_args(ctx, args)


def command_of(module: str | None, words: tuple[str, ...]) -> launch.Command:
    """What is to be run: a script or module and its arguments.

    Raises:
        UsageError: there is none.
    """
    if module is not None:
        return launch.Command(module, words, is_module=True)
    if not words:
        raise click.UsageError("Missing the script to run, or -m and a module.")
    return launch.Command(words[0], words[1:])


def tf1_environment() -> whale_tf1.Installation:
    """Makes this process run TF1 source, until what is returned is closed or left as a context manager.

    Raises:
        SetupError: TensorFlow is absent or of an unknown release.
    """
    return whale_tf1.install()
