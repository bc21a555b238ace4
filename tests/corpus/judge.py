"""What is expected of a run under Whale, and whether it came."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tests.corpus import compare, report
from tests.corpus.kit import Repeats, Script
from tests.corpus.launch import NUDGE, Launcher, Outcome, Places

ONEDNN = ("TF_ENABLE_ONEDNN_OPTS", "1")
OTHER_KERNELS = {"onednn": (ONEDNN,), "onednn_sse": (ONEDNN, ("ONEDNN_MAX_CPU_ISA", "SSE41"))}
"""Environment variables by name of the mode: TensorFlow's default kernels, which `launch.STILL` switches off, for two
instruction sets."""
IN_ORDER = (("TF_NUM_INTEROP_THREADS", "1"), ("TF_NUM_INTRAOP_THREADS", "1"))
"""Environment variables with which plain TensorFlow runs one op after the other."""
NUDGES = (1, 2)
"""Seeds of `nudge`."""
ALONE = "compared with one device of the same environment, whose initial values are not the kit's"
"""Note of a row whose expectation is not the kit's plain run."""

ORDERED = "compared with plain TensorFlow running one op at a time: otherwise its reads of variables race with updates"
"""Note of a row that only the run of `IN_ORDER` agrees with."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What came out of a comparison."""

    result: str
    """`report.EQUAL`, `report.ROUNDING`, `report.TREND`, `report.DIFFERS` or `report.FAILED`."""
    comparison: compare.Comparison
    """The numbers behind it."""
    note: str = ""
    """What else a reader must know; mostly empty."""

    @staticmethod
    def of(comparison: compare.Comparison, agreed: str, note: str = "") -> Verdict:
        """``agreed`` if the comparison agrees, else `report.DIFFERS`."""
        return Verdict(agreed if comparison.agrees else report.DIFFERS, comparison, note)


def judge(
    places: Places,
    script: Script,
    plain: Sequence[Launcher],
    launcher: Launcher,
    alone: Launcher,
    outcome: Outcome,
    timeout: float,
) -> Verdict:
    """Compare what ``launcher``'s run gave with what the ``plain`` runs gave.

    Where numbers differ, ``alone`` (``whale run`` on one device) says whether the environment itself does that, and
    `rounding_launchers` say how far rounding may drive the script. Where a trend differs, a plain run of one op at a
    time says whether the plain runs raced.
    """
    if outcome.code or not launcher.file(places, script, "trace.json").exists():
        error = places.hide(outcome.error) or "no trace"
        return Verdict(report.FAILED, compare.Comparison(0, float("nan"), (error,)))
    expected = [trace_of(places, script, one) for one in plain]
    actual = trace_of(places, script, launcher)
    if script.repeats is Repeats.NOT:
        return _trend(places, script, expected, actual, timeout)
    base, note = expected[0], ""
    comparison = compare.compare_values(base, actual)
    if comparison.agrees or list(compare.layout_differences(base, actual)):
        return Verdict.of(comparison, report.EQUAL)
    if launcher.own_tracer and not alone.run(places, script, timeout).code:
        single = trace_of(places, script, alone)
        if not compare.compare_values(base, single).agrees:
            base, note = single, ALONE
            comparison = compare.compare_values(base, actual)
            if comparison.agrees:
                return Verdict.of(comparison, report.EQUAL, note)
    drift = compare.Envelope.of(expected[0], rounded_traces(places, script, timeout))
    return Verdict.of(compare.compare_rounding(base, actual, drift), report.ROUNDING, note)


def _trend(
    places: Places, script: Script, expected: Sequence[compare.Trace], actual: compare.Trace, timeout: float
) -> Verdict:
    verdict = Verdict.of(compare.compare_trend(expected, actual), report.TREND)
    if verdict.comparison.agrees:
        return verdict
    command = (places.python, str(places.kit / "run_tf1.py"))
    in_order = Launcher("plain_in_order", command, whale=False, own_tracer=False, variables=IN_ORDER)
    outcome = in_order.finished(places, script) or in_order.run(places, script, timeout)
    if outcome.code:
        return verdict
    comparison = compare.compare_trend([*expected, trace_of(places, script, in_order)], actual)
    return Verdict.of(comparison, report.TREND, ORDERED if comparison.agrees else "")


def trace_of(places: Places, script: Script, launcher: Launcher) -> compare.Trace:
    """What a finished run recorded."""
    return compare.read_trace(launcher.file(places, script, "trace.json"))


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
            traces.append(trace_of(places, script, launcher))
    return traces
