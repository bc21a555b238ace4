"""The checks behind ``whale doctor``. TensorFlow runs in a process of its own: a crash there is a finding."""

from __future__ import annotations

import dataclasses
import enum
import importlib.metadata
import json
import os
import platform
import socket
import subprocess
import sys

from whale.config.keys import SETTINGS
from whale.errors import SetupError
from whale.installed import has_module, needs_legacy_keras, require_tensorflow, tensorflow_version

PROBE_SECONDS = 120
"""Longest time for TensorFlow to start and run the probe."""

ROUNDING = 1e-5
"""Largest relative difference of float32 sums that rounding explains."""


class State(enum.Enum):
    """Outcome of a check."""

    WORKS = "works"
    ABSENT = "absent"
    """Not there, and not needed by everybody."""
    BROKEN = "broken"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One row of the table."""

    what: str
    state: State
    found: str
    advice: str = ""
    is_base: bool = True
    """Whether training is impossible when this is broken."""


def examine() -> list[Finding]:
    """All findings, the base first."""
    findings = [check_python(sys.version_info[:2]), check_tensorflow()]
    if findings[-1].state is State.WORKS:
        found = require_tensorflow()
        findings.append(check_keras(found))
        findings.append(check_estimator(found))
        findings.append(check_slim())
        findings += check_devices(probe())
    findings.append(check_horovod())
    findings.append(check_port())
    return findings


def check_python(version: tuple[int, int]) -> Finding:
    """Python 3.9 to 3.12."""
    text = platform.python_version()
    if (3, 9) <= version <= (3, 12):
        return Finding("Python", State.WORKS, text)
    return Finding("Python", State.BROKEN, text, "use Python 3.9 to 3.11 with TensorFlow 2.15, 3.10 to 3.12 with 2.21")


def check_tensorflow() -> Finding:
    """An installed TensorFlow of a known release."""
    try:
        require_tensorflow()
    except SetupError as error:
        return Finding("TensorFlow", State.BROKEN, error.what, error.fix)
    return Finding("TensorFlow", State.WORKS, str(tensorflow_version()))


def check_keras(found: tuple[int, int]) -> Finding:
    """tf-keras, where tf.layers and RNN cells need it."""
    if not needs_legacy_keras(found):
        return Finding("tf.layers, RNN cells", State.WORKS, "part of TensorFlow")
    if has_module("tf_keras"):
        return Finding("tf.layers, RNN cells", State.WORKS, f"tf-keras {importlib.metadata.version('tf-keras')}")
    advice = f"pip install 'tf-keras=={found[0]}.{found[1]}.*'"
    return Finding("tf.layers, RNN cells", State.ABSENT, "tf-keras is not installed", advice, is_base=False)


def check_estimator(found: tuple[int, int]) -> Finding:
    """tf.estimator, which TensorFlow had up to 2.15."""
    if has_module("tensorflow_estimator"):
        version = importlib.metadata.version("tensorflow-estimator")
        return Finding("tf.estimator", State.WORKS, f"tensorflow-estimator {version}")
    advice = "for scripts that use it: pip install 'whale-tf[tf1]' (TensorFlow 2.15)"
    return Finding("tf.estimator", State.ABSENT, f"TensorFlow {found[0]}.{found[1]} has none", advice, is_base=False)


def check_slim() -> Finding:
    """tf-slim, which contrib.slim and contrib.layers resolve to."""
    if has_module("tf_slim"):
        return Finding("contrib.slim, contrib.layers", State.WORKS, f"tf-slim {importlib.metadata.version('tf-slim')}")
    advice = "pip install tf-slim"
    return Finding("contrib.slim, contrib.layers", State.ABSENT, "tf-slim is not installed", advice, is_base=False)


def probe() -> dict[str, object]:
    """What a fresh process with TensorFlow reports; ``error`` when it fails, crashes or hangs."""
    arguments = [sys.executable, "-m", "whale.cli.probe"]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {PROBE_SECONDS} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        reason = done.stderr.strip().splitlines()
        return {"error": f"exit status {done.returncode}: {reason[-1] if reason else 'no message'}"}
    return json.loads(lines[-1])


def check_devices(report: dict[str, object]) -> list[Finding]:
    """Devices, collectives and NCCL, from a probe's report."""
    if "error" in report:
        advice = "run python -c 'import tensorflow' to see why"
        return [Finding("collectives", State.BROKEN, str(report["error"]), advice)]
    gpus = report["gpus"]
    findings = [Finding("devices", State.WORKS, f"{report['cpus']} CPU core(s), {len(gpus)} GPU(s)")]  # type: ignore[arg-type]
    if report["sum"] == [3.0, 3.0]:
        findings.append(Finding("collectives", State.WORKS, "all-reduce over two CPU devices"))
    else:
        advice = "reinstall TensorFlow"
        findings.append(Finding("collectives", State.BROKEN, f"1 + 2 gave {report['sum']} on two devices", advice))
    findings.append(check_step(report["step"]))
    if not report["cuda"]:
        found = "this TensorFlow is built without CUDA"
        findings.append(Finding("NCCL", State.ABSENT, found, "for GPUs: pip install 'whale-tf[gpu]'", is_base=False))
    elif not gpus:
        found = "no GPU is visible"
        findings.append(
            Finding("NCCL", State.ABSENT, found, "check nvidia-smi and CUDA_VISIBLE_DEVICES", is_base=False)
        )
    else:
        findings.append(Finding("NCCL", State.WORKS, "part of this TensorFlow"))
    return findings


def check_step(difference: object) -> Finding:
    """A training step cut over two CPU devices: its relative difference from one device, or what went wrong."""
    if isinstance(difference, float) and difference < ROUNDING:
        return Finding("training step", State.WORKS, "on two CPU devices as on one")
    found = f"differs from one device by {difference:.0e}" if isinstance(difference, float) else str(difference)
    return Finding("training step", State.BROKEN, found, "please report it, with this table")


def check_horovod() -> Finding:
    """Horovod with its TensorFlow binding, which no feature of this version needs."""
    if not has_module("horovod"):
        advice = f"nothing: {SETTINGS['communication.backend'].instead}"
        return Finding("Horovod", State.ABSENT, "not installed", advice, is_base=False)
    done = subprocess.run(
        [sys.executable, "-c", "import horovod.tensorflow"], capture_output=True, text=True, timeout=PROBE_SECONDS
    )
    if done.returncode:
        advice = "rebuild it with HOROVOD_WITH_TENSORFLOW=1 against this TensorFlow"
        return Finding("Horovod", State.BROKEN, "its TensorFlow binding cannot be imported", advice, is_base=False)
    return Finding("Horovod", State.WORKS, importlib.metadata.version("horovod"))


def check_port() -> Finding:
    """A port of the loopback address, which workers on one machine talk over."""
    try:
        with socket.socket() as server, socket.socket() as client:
            server.bind(("127.0.0.1", 0))
            server.listen(1)
            client.connect(server.getsockname())
    except OSError as error:
        return Finding("loopback port", State.BROKEN, str(error), "allow connections to 127.0.0.1", is_base=False)
    return Finding("loopback port", State.WORKS, "127.0.0.1 accepts connections")
