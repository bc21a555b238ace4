"""Running one script of the kit in its own work folder, plain or under Whale."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.corpus.kit import Script

TRACER = Path(__file__).with_name("trace.py")
"""Our own tracing launcher, for runs without the kit's."""
NUDGE = Path(__file__).with_name("nudge.py")
"""Starts a tracing launcher with fed floats moved by their last bit."""
STILL = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_ENABLE_ONEDNN_OPTS": "0",  # oneDNN picks kernels by batch size
    "CUDA_VISIBLE_DEVICES": "-1",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""Environment that makes two runs of a script equal."""


@dataclasses.dataclass(frozen=True)
class Places:
    """Folders and interpreter of a corpus run."""

    home: Path
    """Holds ``ref/`` (clones), ``site/`` (packages the scripts import), ``contrib/`` (the TensorFlow 1.15.5 wheel's
    ``tensorflow_core/contrib``, unless TF115_CONTRIB says where it is), ``work/`` and ``out/`` (both ours)."""
    kit: Path
    """Lists the scripts, see `kit`."""
    root: Path
    """The project: put on PYTHONPATH, so that an uninstalled Whale runs too."""
    python: str
    """Interpreter with TensorFlow."""

    def fill(self, text: str, work: Path) -> str:
        """``text`` with the kit's ``$NAME`` marks replaced."""
        marks = {"$REF": self.home / "ref", "$RES": self.kit, "$W": work}
        for mark, place in marks.items():
            text = text.replace(mark, str(place))
        return text

    def hide(self, text: str) -> str:
        """``text`` without the folders of this machine, as reports show it."""
        for mark, place in (("$KIT", self.kit), ("$CORPUS_HOME", self.home), ("$WHALE", self.root)):
            text = text.replace(str(place), mark)
        return text


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One finished process."""

    code: int
    """Exit code; negative for a signal."""
    seconds: float
    """Processor time, interpreter start and TensorFlow's import included."""
    error: str
    """Last line that looks like an error when the code is not 0; empty otherwise."""


@dataclasses.dataclass(frozen=True)
class Launcher:
    """How scripts are started in one mode."""

    mode: str
    """Names the mode's files: ``out/<id>.<mode>.trace.json``, ``.out``, ``.err`` and ``.outcome.json``."""
    command: tuple[str, ...]
    """What stands before the script."""
    whale: bool
    """Whether the product runs it: then the kit's stand-in for it is left off PYTHONPATH."""
    own_tracer: bool
    """Whether `TRACER` traces it instead of the kit's launcher."""
    devices: int = 1
    """Devices that the product is given."""
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables of the mode; they win over `STILL`."""

    def file(self, places: Places, script: Script, ending: str) -> Path:
        """A file this mode writes for a script."""
        return places.home / "out" / f"{script.id}.{self.mode}.{ending}"

    def finished(self, places: Places, script: Script) -> Outcome | None:
        """What an earlier run left, when it ended with 0 and left a trace."""
        path = self.file(places, script, "outcome.json")
        if not path.exists() or not self.file(places, script, "trace.json").exists():
            return None
        outcome = Outcome(**json.loads(path.read_text(encoding="utf-8")))
        return None if outcome.code else outcome

    def errors(self, places: Places, script: Script) -> str:
        """What the last run wrote to standard error."""
        path = self.file(places, script, "err")
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def run(self, places: Places, script: Script, timeout: float) -> Outcome:
        """Empty the work folder, make the script's data, run it and keep its output and trace."""
        work = places.home / "work" / script.id
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        environment = self._environment(places, script, work)
        trace = self.file(places, script, "trace.json")
        trace.parent.mkdir(exist_ok=True)
        for ending in ("trace.json", "outcome.json", "out", "err"):
            self.file(places, script, ending).unlink(missing_ok=True)
        prepared = subprocess.run(
            ["bash", "-ec", script.setup or "true"], cwd=work, env=environment, capture_output=True, text=True
        )
        if prepared.returncode:
            outcome = Outcome(prepared.returncode, 0.0, f"data: {last_error(prepared.stderr or prepared.stdout)}")
        else:
            outcome = self._start(places, script, work, environment, trace, timeout)
        self.file(places, script, "outcome.json").write_text(json.dumps(dataclasses.asdict(outcome)), encoding="utf-8")
        return outcome

    def _start(
        self,
        places: Places,
        script: Script,
        work: Path,
        environment: Mapping[str, str],
        trace: Path,
        timeout: float,
    ) -> Outcome:
        command = list(self.command)
        if self.own_tracer:
            command += ["--out", str(trace), "--max-runs", str(script.max_runs)]
            if ("TF1_SOFT", "1") in script.environment:  # how the kit's launcher is told
                command.append("--soft-placement")
        command += [places.fill(argument, work) for argument in script.arguments]
        variables = {**environment, "TF1_TRACE": str(trace), "TF1_MAX_RUNS": str(script.max_runs)}
        variables.update(script.environment)
        start = _children_seconds()
        with self.file(places, script, "out").open("wb") as out, self.file(places, script, "err").open("wb") as err:
            process = subprocess.Popen(
                command,
                cwd=places.fill(script.folder, work),
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            try:
                code = process.wait(timeout)
                error = ""
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
                error = f"stopped after {timeout:.0f} s"
        seconds = round(_children_seconds() - start, 1)
        if code and not error:
            error = last_error(self.errors(places, script))
        return Outcome(code, seconds, error)

    def _environment(self, places: Places, script: Script, work: Path) -> dict[str, str]:
        path = [places.fill(script.python_path, work), str(places.kit / "stubs"), str(places.home / "site")]
        path = [entry for entry in path if entry and not (self.whale and (Path(entry) / "whale.py").exists())]
        if self.whale:
            path.insert(0, str(places.root))
        marks = {
            "REF": str(places.home / "ref"),
            "W": str(work),
            "PY": places.python,
            "MK": f"{places.python} {places.kit / 'mk.py'}",
            "RES": str(places.kit),
            "TF115_CONTRIB": os.environ.get("TF115_CONTRIB", str(places.home / "contrib/tensorflow_core/contrib")),
            "PYTHONPATH": os.pathsep.join(path),
        }
        return {**os.environ, **STILL, **marks, **dict(self.variables)}


def _children_seconds() -> float:
    """Processor time of the processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def last_error(text: str) -> str:
    """The last line of a log that begins like an exception, or its last line."""
    lines = [line for line in text.strip().splitlines() if line]
    named = [line for line in lines if line.split(":")[0].rpartition(".")[2].endswith(("Error", "Exception"))]
    return (named or lines or [""])[-1][:300]
