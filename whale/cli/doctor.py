"""``whale doctor``: what works here, what does not, and what to do."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from whale.cli.checks import Finding, State, examine

_STYLES = {State.WORKS: "green", State.ABSENT: "yellow", State.BROKEN: "bold red"}


@click.command(short_help="Check what works on this machine.")
def doctor() -> None:
    """Check Python, TensorFlow and its parts, devices, a training step on two of them, NCCL, Horovod and ports.

    Exit status 1 when training cannot work at all.
    """
    findings = examine()
    Console().print(_table(findings))
    if any(finding.state is State.BROKEN and finding.is_base for finding in findings):
        sys.exit(1)


def _table(findings: list[Finding]) -> Table:
    table = Table(title="whale doctor", show_lines=False)
    for heading in ("what", "state", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        state = f"[{_STYLES[finding.state]}]{finding.state.value}[/]"
        table.add_row(finding.what, state, escape(finding.found), escape(finding.advice))
    return table
