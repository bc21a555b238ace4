"""The kit: a folder that lists the public scripts and holds their data makers, stand-ins and tracing launcher.

``corpus.py`` of the kit lists how each script is run, the table of its ``README.md`` says what each script exercises
and whether two plain runs of it agree. Both are read here into `Script` values; nothing of them is kept in the project.
"""

from __future__ import annotations

import dataclasses
import enum
import runpy
from collections.abc import Iterable, Mapping
from pathlib import Path


class Repeats(enum.Enum):
    """How far two plain runs of a script agree, hence what may be asked of a run under Whale."""

    EXACTLY = "exactly"
    """Bit for bit: every fetched number is compared."""
    NEARLY = "nearly"
    """To rounding: every fetched number is compared."""
    NOT = "not"
    """Threads or unseeded generators: only the variables' names and shapes and the trend of the loss are compared."""


@dataclasses.dataclass(frozen=True)
class Script:
    """One public script and how it is run. ``$REF``, ``$W``, ``$RES``, ``$MK`` and ``$PY`` in texts stand for folders
    and commands that `launch` fills in."""

    id: str
    """Short name, unique in the kit."""
    repository: str
    """``owner/name``, as the kit's table gives it."""
    exercises: str
    """What the script makes the product meet."""
    repeats: Repeats
    """What a comparison may ask for."""
    arguments: tuple[str, ...]
    """The script's path, then its arguments."""
    max_runs: int
    """Number of ``Session.run`` calls after which the tracing launcher ends the process."""
    setup: str
    """Shell lines run in the empty work folder before the script; empty for none."""
    folder: str
    """Folder in which the script starts."""
    python_path: str
    """Entry to put on PYTHONPATH; empty for none."""
    environment: tuple[tuple[str, str], ...]
    """Further environment variables."""


class KitError(Exception):
    """The kit folder, or what was asked of it, is not usable; the message says which file or name."""


def load_scripts(kit: Path) -> tuple[Script, ...]:
    """All scripts of the kit, in its order.

    Raises:
        KitError: ``corpus.py`` or ``README.md`` is missing, or the table has no row for a script.
    """
    for name in ("corpus.py", "README.md", "run_tf1.py", "mk.py", "stubs"):
        if not (kit / name).exists():
            raise KitError(f"{kit} is not a kit: it has no {name}")
    commands = runpy.run_path(str(kit / "corpus.py"))["C"]
    rows = table_rows((kit / "README.md").read_text(encoding="utf-8").splitlines())
    return tuple(_script(command, rows) for command in commands)


def select(scripts: Iterable[Script], ids: Iterable[str]) -> tuple[Script, ...]:
    """The scripts named by ``ids``, or all of them when ``ids`` is empty.

    Raises:
        KitError: a name is not in the kit.
    """
    known = {script.id: script for script in scripts}
    wanted = list(ids)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise KitError(f"not in the kit: {', '.join(unknown)}; it has {', '.join(known)}")
    return tuple(known[name] for name in wanted or known)


def table_rows(lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """Rows of the Markdown table whose first column is headed ``id``: from the id to {heading: cell}."""
    headings: list[str] = []
    rows: dict[str, dict[str, str]] = {}
    for line in lines:
        if not line.startswith("|"):
            headings = []
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] == "id":
            headings = cells
        elif headings and set(cells[0]) - set("-: "):
            rows[cells[0]] = dict(zip(headings, cells))
    return rows


def repeats(cell: str) -> Repeats:
    """What the table's cell about repeatability says: ``bitwise``, ``to 1e-07`` or ``no (...)``."""
    if cell.startswith("bitwise"):
        return Repeats.EXACTLY
    return Repeats.NEARLY if cell.startswith("to ") else Repeats.NOT


def _script(command: Mapping[str, object], rows: Mapping[str, Mapping[str, str]]) -> Script:
    name = str(command["id"])
    if name not in rows:
        raise KitError(f"the kit's README.md has no row for {name}")
    row = rows[name]
    arguments, environment = command["argv"], command.get("env", {})
    assert isinstance(arguments, list) and isinstance(environment, dict)
    return Script(
        id=name,
        repository=row["repo"],
        exercises=row["TF1 features exercised"],
        repeats=repeats(row["repeatable run to run"]),
        arguments=tuple(arguments),
        max_runs=int(str(command.get("runs", 60))),
        setup=str(command.get("setup", "")),
        folder=str(command.get("cwd", "$W")),
        python_path=str(command.get("pp", "")),
        environment=tuple(environment.items()),
    )
