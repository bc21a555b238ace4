"""Results of a corpus run: one row a script, kept as JSON, and shown as a Markdown table."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

EQUAL = "equal"
ROUNDING = "equal to rounding"
TREND = "same trend"
DIFFERS = "differs"
FAILED = "does not run"

SHARE = re.compile(r"([\d.]+%) of the batch's work on pieces")
"""In a line about a signature that is cut."""

INTRODUCTION = """\
# Compatibility: public TF1 scripts under `whale run`

Written by `make corpus CORPUS_HOME=...`, with `ARGS=--own-shims` for the second table (`tests/corpus/run.py`); do not
edit. Public scripts, not one of them edited, are run by plain TensorFlow and by
`whale run --devices {devices} --batch global`, and everything that their `Session.run` calls fetched, and the norms of
all variables in the end, is compared.

- **plan**: *cut (n: shares)* when Whale cut n run signatures over the devices, with the shares of the batch's work that
  it told to be on pieces; then the reasons for what it kept on one replica. *one replica*: nothing was cut.
- **result**: *{equal}*: same number of runs, same variables, every number within {tolerance:g} (relative) of plain
  TensorFlow. *{rounding}*: the training amplifies rounding, so that plain TensorFlow drifts from its own numbers as
  well: with its other kernels (oneDNN's, for two instruction sets), and with fed fractions moved by their last bit (two
  random choices). A number may differ by {factor:g} times the largest drift up to that call, and by {tolerance:g} where
  there is none yet. *{trend}*: two plain runs of the script do not agree (threads, unseeded generators), so only names
  and shapes of variables are compared, and the trend of the loss must be that of one of three plain runs; where it is
  of none, that of a plain run of one op at a time, whose reads of variables do not race with updates.
- **values**: numbers compared. **largest difference**: relative, over all of them.
- **seconds**: processor time of one process from start to end, importing TensorFlow included. What running on several
  devices costs; no benchmark of what it gains, for all devices are threads on the same cores.
- **environment**: *kit*: a tracing launcher brings the removed parts of TensorFlow 1 (`tf.contrib`); *whale*: `whale
  run` brings them. Where those start from other initial values than the kit's, two devices are compared with one device
  of the same environment, and the row says so.
"""


@dataclasses.dataclass(frozen=True)
class Row:
    """What came out for one script."""

    id: str
    repository: str
    exercises: str
    environment: str
    """``kit`` or ``whale``: who resolves ``tf.contrib``."""
    devices: int
    plan: str
    """``cut``, ``one replica`` or ``no plan``."""
    cut: tuple[str, ...]
    """Whale's lines about signatures that are cut."""
    reasons: tuple[str, ...]
    """Whale's reasons for one replica."""
    result: str
    """`EQUAL`, `ROUNDING`, `TREND`, `DIFFERS` or `FAILED`."""
    findings: tuple[str, ...]
    """What differs, or the error."""
    values: int
    """Numbers compared."""
    largest: float | None
    """Largest relative difference; None when no numbers were compared or it is not finite."""
    plain_seconds: float
    """Processor time of the plain process."""
    whale_seconds: float
    """Processor time of the process under Whale."""
    note: str = ""
    """What else a reader must know."""
    drift: float | None = None
    """Largest relative difference of plain runs that round in another way; None when none were needed."""
    commit: str = ""
    """Of the project, as far as it is known."""

    @property
    def good(self) -> bool:
        """True when the script ran, planned, and gave what plain TensorFlow gives."""
        return self.result in (EQUAL, ROUNDING, TREND) and self.plan != "no plan"


def read_rows(path: Path) -> dict[tuple[str, str], Row]:
    """Rows of an earlier run by script and environment; none when there is no file."""
    if not path.exists():
        return {}
    rows = [_row(data) for data in json.loads(path.read_text(encoding="utf-8"))]
    return {(row.id, row.environment): row for row in rows}


def _row(data: dict[str, Any]) -> Row:
    lists = {key: tuple(data[key]) for key in ("cut", "reasons", "findings")}
    return Row(**{**data, **lists})


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Keep rows as JSON."""
    data = [dataclasses.asdict(row) for row in rows]
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def in_order(rows: Mapping[tuple[str, str], Row], ids: Iterable[str]) -> list[Row]:
    """Rows by environment, then in the kit's order."""
    position = {name: index for index, name in enumerate(ids)}
    return sorted(rows.values(), key=lambda row: (row.environment, position.get(row.id, len(position))))


def markdown(rows: Iterable[Row], tolerance: float, factor: float) -> str:
    """The page."""
    rows = list(rows)
    devices = " or ".join(str(count) for count in sorted({row.devices for row in rows}))
    text = INTRODUCTION.format(
        devices=devices, equal=EQUAL, rounding=ROUNDING, trend=TREND, tolerance=tolerance, factor=factor
    )
    for environment in dict.fromkeys(row.environment for row in rows):
        chosen = [row for row in rows if row.environment == environment]
        text += f"\n## Environment: {environment}\n\n{_summary(chosen)}\n\n{_table(chosen)}\n"
    return text


def line(row: Row) -> str:
    """A row in one line, as shown while the corpus runs."""
    largest = "" if row.largest is None else f"; largest difference {row.largest:.0e}"
    return f"{row.id}: {'; '.join((row.plan, row.result, *row.findings, *_remarks(row)))}{largest}"


def _summary(rows: list[Row]) -> str:
    plans = {plan: sum(row.plan == plan for row in rows) for plan in ("cut", "one replica", "no plan")}
    results = {
        result: sum(row.result == result for row in rows) for result in (EQUAL, ROUNDING, TREND, DIFFERS, FAILED)
    }
    counts = [f"{count} {name}" for name, count in {**plans, **results}.items() if count]
    return f"{len(rows)} scripts: {', '.join(counts)}.{_times(rows)}{_commits(rows)}"


def _times(rows: list[Row]) -> str:
    """What a process under Whale takes of a plain one's processor time, of those that ran."""
    taken = {row.id: row.whale_seconds / row.plain_seconds for row in rows if row.plain_seconds and row.whale_seconds}
    if not taken:
        return ""
    worst = max(taken, key=taken.__getitem__)
    middle = statistics.median(taken.values())
    longest = f"{worst} {taken[worst]:.1f} times"
    return f" A process takes {middle:.1f} times the processor time of plain TensorFlow's (median); {longest}."


def _commits(rows: list[Row]) -> str:
    commits = dict.fromkeys(row.commit for row in rows if row.commit)
    return f" Commit {', '.join(commits)}." if commits else ""


def _table(rows: list[Row]) -> str:
    headings = (
        "id",
        "repository",
        "exercises",
        "plan",
        "result",
        "values",
        "largest difference",
        "seconds plain / whale",
    )
    lines = [_line(headings), _line("---" for _ in headings)]
    lines += [
        _line(
            (
                row.id,
                row.repository,
                row.exercises,
                "; ".join((f"{row.plan} ({_cuts(row)})" if row.cut else row.plan, *row.reasons)),
                "; ".join((row.result, *row.findings, *_remarks(row))),
                str(row.values) if row.values else "-",
                "-" if row.largest is None else f"{row.largest:.0e}" if row.largest else "0",
                f"{row.plain_seconds:.0f} / {row.whale_seconds:.0f}",
            )
        )
        for row in rows
    ]
    return "\n".join(lines)


def _cuts(row: Row) -> str:
    shares = dict.fromkeys(share for cut in row.cut for share in SHARE.findall(cut))
    return f"{len(row.cut)}{': ' if shares else ''}{', '.join(shares)}"


def _remarks(row: Row) -> tuple[str, ...]:
    drift = "" if row.drift is None else f"plain TensorFlow drifts by {row.drift:.0e}"
    return tuple(filter(None, (row.note, drift)))


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def finite(value: float) -> float | None:
    """``value``, or None when it is infinite or not a number, which JSON cannot hold."""
    return value if math.isfinite(value) else None
