"""The command line of the corpus: run scripts plain and under ``whale run``, compare, and write the page."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.corpus import compare, report
from tests.corpus.judge import Verdict, judge
from tests.corpus.kit import KitError, Repeats, Script, load_scripts, select
from tests.corpus.launch import TRACER, Launcher, Outcome, Places
from tests.corpus.plan_lines import parse_plan

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "compatibility.md"
UNREPEATABLE_RUNS = 3
"""Plain runs of a script that does not repeat."""


def whale_command() -> tuple[str, ...]:
    """The console script beside this interpreter, or what it would call when Whale is not installed."""
    script = Path(sys.executable).with_name("whale")
    if script.exists():
        return (str(script),)
    return (sys.executable, "-c", "from whale.cli.main import main; raise SystemExit(main())")


def commit_of(root: Path) -> str:
    """The commit of a checkout; empty where there is no repository."""
    command = ["git", "-C", str(root), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def plain_launchers(places: Places, script: Script) -> list[Launcher]:
    """Plain TensorFlow under the kit's tracing launcher, several times when the script does not repeat."""
    command = (places.python, str(places.kit / "run_tf1.py"))
    times = UNREPEATABLE_RUNS if script.repeats is Repeats.NOT else 1
    return [Launcher(f"plain{time or ''}", command, whale=False, own_tracer=False) for time in range(times)]


def whale_launcher(places: Places, whale: Sequence[str], devices: int, own_shims: bool) -> Launcher:
    """``whale run`` of the kit's tracing launcher, or of ours; ``whale`` is how the product's command is started."""
    tracer = TRACER if own_shims else places.kit / "run_tf1.py"
    command = (*whale, "run", "--devices", str(devices), "--batch", "global", str(tracer))
    mode = f"{'own' if own_shims else 'whale'}{devices}"
    return Launcher(mode, command, whale=True, own_tracer=own_shims, devices=devices)


def row_of(
    places: Places, script: Script, launcher: Launcher, outcome: Outcome, verdict: Verdict, plain_seconds: float
) -> report.Row:
    """The row of what ``launcher``'s run gave."""
    plan = parse_plan(places.hide(line) for line in launcher.errors(places, script).splitlines())
    comparison = verdict.comparison
    return report.Row(
        id=script.id,
        repository=script.repository,
        exercises=script.exercises,
        environment="whale" if launcher.own_tracer else "kit",
        devices=launcher.devices,
        plan=plan.verdict,
        cut=plan.cut,
        reasons=plan.kept,
        result=verdict.result,
        findings=comparison.findings,
        note=verdict.note,
        values=comparison.compared,
        largest=report.finite(comparison.largest),
        drift=report.finite(comparison.drift),
        plain_seconds=plain_seconds,
        whale_seconds=outcome.seconds,
        commit=commit_of(places.root),
    )


def parse_options(description: str) -> argparse.Namespace:
    """The command line; ``kit`` falls back to CORPUS_KIT, then to ``kit`` in the home."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True, help="CORPUS_HOME")
    parser.add_argument("--kit", type=Path, default=None, help="default: $CORPUS_KIT, else CORPUS_HOME/kit")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds a process may take")
    parser.add_argument("--whale", type=shlex.split, help="the product's command; default: the one of this interpreter")
    parser.add_argument("--own-shims", action="store_true", help="let `whale run` resolve tf.contrib, not the kit")
    parser.add_argument("--plain-only", action="store_true", help="make missing plain traces and stop")
    parser.add_argument("ids", nargs="*", metavar="ID", help="scripts; default: all")
    options = parser.parse_args()
    options.home = options.home.resolve()
    options.kit = Path(options.kit or os.environ.get("CORPUS_KIT") or options.home / "kit").resolve()
    return options


def main(description: str) -> int:
    """Run what was asked for, one script after the other, and keep the page in step."""
    options = parse_options(description)
    places = Places(options.home, options.kit, ROOT, sys.executable)
    try:
        scripts = load_scripts(options.kit)
        chosen = select(scripts, options.ids)
    except KitError as error:
        print(error, file=sys.stderr)
        return 2
    command = options.whale or whale_command()
    product = whale_launcher(places, command, options.devices, options.own_shims)
    alone = whale_launcher(places, command, 1, options.own_shims)
    good = True
    for script in chosen:
        plain = plain_launchers(places, script)
        baselines = [one.finished(places, script) or one.run(places, script, options.timeout) for one in plain]
        errors = [baseline.error for baseline in baselines if baseline.code]
        seconds = baselines[0].seconds
        if errors:
            print(f"{script.id}: plain TensorFlow does not run it: {errors[0]}", flush=True)
            good = False
            continue
        if options.plain_only:
            print(f"{script.id}: {seconds} s plain", flush=True)
            continue
        outcome = product.run(places, script, options.timeout)
        found = judge(places, script, plain, product, alone, outcome, options.timeout)
        row = row_of(places, script, product, outcome, found, seconds)
        good &= row.good
        rows = report.read_rows(RESULTS)
        rows[row.id, row.environment] = row
        ordered = report.in_order(rows, [known.id for known in scripts])
        report.write_rows(RESULTS, ordered)
        PAGE.write_text(report.markdown(ordered, compare.TOLERANCE, compare.ROUNDING_FACTOR), encoding="utf-8")
        print(report.line(row), flush=True)
    return 0 if good else 1
