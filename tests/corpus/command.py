"""The command line of the corpus: run scripts plain and under ``whale run``, compare, and write the page."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.corpus import compare, report
from tests.corpus.kit import KitError, Repeats, Script, load_scripts, select
from tests.corpus.launch import NUDGE, TRACER, Launcher, Outcome, Places
from tests.corpus.plan_lines import parse_plan

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "compatibility.md"
UNREPEATABLE_RUNS = 3
"""Plain runs of a script that does not repeat."""
ONEDNN = ("TF_ENABLE_ONEDNN_OPTS", "1")
OTHER_KERNELS = {"onednn": (ONEDNN,), "onednn_sse": (ONEDNN, ("ONEDNN_MAX_CPU_ISA", "SSE41"))}
"""Environment variables by name of the mode: TensorFlow's default kernels, which `launch.STILL` switches off, for two
instruction sets."""
NUDGES = (1, 2)
"""Seeds of `nudge`."""


def whale_command() -> tuple[str, ...]:
    """The console script beside this interpreter, or what it would call when Whale is not installed."""
    script = Path(sys.executable).with_name("whale")
    if script.exists():
        return (str(script),)
    return (sys.executable, "-c", "from whale.cli.main import main; raise SystemExit(main())")


def plain_launchers(places: Places, script: Script) -> list[Launcher]:
    """Plain TensorFlow under the kit's tracing launcher, several times when the script does not repeat."""
    command = (places.python, str(places.kit / "run_tf1.py"))
    times = UNREPEATABLE_RUNS if script.repeats is Repeats.NOT else 1
    return [Launcher(f"plain{time or ''}", command, whale=False, own_tracer=False) for time in range(times)]


def rounding_launchers(places: Places) -> list[Launcher]:
    """Plain TensorFlow rounding in another way: the yardstick of scripts that amplify rounding."""
    launcher = str(places.kit / "run_tf1.py")
    kernels = [
        Launcher(f"rounding_{name}", (places.python, launcher), whale=False, own_tracer=False, variables=variables)
        for name, variables in OTHER_KERNELS.items()
    ]
    nudge = (places.python, str(NUDGE))
    nudges = [
        Launcher(f"rounding_nudge{seed}", (*nudge, str(seed), launcher), whale=False, own_tracer=False)
        for seed in NUDGES
    ]
    return kernels + nudges


def rounded_traces(places: Places, script: Script, timeout: float) -> list[compare.Trace]:
    """What the runs of `rounding_launchers` gave, of those that ran."""
    traces = []
    for launcher in rounding_launchers(places):
        outcome = launcher.finished(places, script) or launcher.run(places, script, timeout)
        if not outcome.code:
            traces.append(compare.read_trace(launcher.file(places, script, "trace.json")))
    return traces


def whale_launcher(places: Places, whale: Sequence[str], devices: int, own_shims: bool) -> Launcher:
    """``whale run`` of the kit's tracing launcher, or of ours; ``whale`` is how the product's command is started."""
    tracer = TRACER if own_shims else places.kit / "run_tf1.py"
    command = (*whale, "run", "--devices", str(devices), "--batch", "global", str(tracer))
    mode = f"{'own' if own_shims else 'whale'}{devices}"
    return Launcher(mode, command, whale=True, own_tracer=own_shims)


def judge(
    places: Places,
    script: Script,
    plain: Sequence[Launcher],
    launcher: Launcher,
    outcome: Outcome,
    plain_seconds: float,
    options: argparse.Namespace,
) -> report.Row:
    """Compare what ``launcher``'s run gave with what the plain runs gave; where numbers differ, with
    what `rounding_launchers` give too."""
    plan = parse_plan(places.hide(line) for line in launcher.errors(places, script).splitlines())
    trace = launcher.file(places, script, "trace.json")
    comparison = compare.Comparison(0, float("nan"), (places.hide(outcome.error) or "no trace",))
    result = report.FAILED
    if not outcome.code and trace.exists():
        expected = [compare.read_trace(one.file(places, script, "trace.json")) for one in plain]
        actual = compare.read_trace(trace)
        if script.repeats is Repeats.NOT:
            comparison, agreed = compare.compare_trend(expected, actual), report.TREND
        else:
            comparison, agreed = compare.compare_values(expected[0], actual), report.EQUAL
            if not comparison.agrees and not list(compare.layout_differences(expected[0], actual)):
                rounded = rounded_traces(places, script, options.timeout)
                comparison, agreed = compare.compare_rounding(expected[0], actual, rounded), report.ROUNDING
        result = agreed if comparison.agrees else report.DIFFERS
    return report.Row(
        id=script.id,
        repository=script.repository,
        exercises=script.exercises,
        environment="whale" if launcher.own_tracer else "kit",
        devices=options.devices,
        plan=plan.verdict,
        cut=plan.cut,
        reasons=plan.kept,
        result=result,
        findings=comparison.findings,
        values=comparison.compared,
        largest=report.finite(comparison.largest),
        drift=report.finite(comparison.drift),
        plain_seconds=plain_seconds,
        whale_seconds=outcome.seconds,
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
    product = whale_launcher(places, options.whale or whale_command(), options.devices, options.own_shims)
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
        row = judge(places, script, plain, product, outcome, seconds, options)
        good &= row.good
        rows = report.read_rows(RESULTS)
        rows[row.id, row.environment] = row
        ordered = report.in_order(rows, [known.id for known in scripts])
        report.write_rows(RESULTS, ordered)
        PAGE.write_text(report.markdown(ordered, compare.TOLERANCE, compare.ROUNDING_FACTOR), encoding="utf-8")
        print(report.line(row), flush=True)
    return 0 if good else 1
