"""``whale doctor``: each check, and the table."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from click.testing import CliRunner

from whale.cli import checks, doctor
from whale.cli.checks import Finding, State
from whale.cli.main import main
from whale.config import Config
from whale.errors import ConfigError

REPORT: dict[str, Any] = {"cpus": 2, "gpus": [], "cuda": False, "sum": [3.0, 3.0], "step": 1e-7}


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.what: finding for finding in findings}


def test_collectives_really_run_here() -> None:
    findings = by_name(checks.examine())
    assert findings["TensorFlow"].state is State.WORKS
    assert findings["collectives"].state is State.WORKS, findings["collectives"]
    assert findings["training step"].state is State.WORKS, findings["training step"]
    assert findings["loopback port"].state is State.WORKS
    assert not [f for f in findings.values() if f.is_base and f.state is State.BROKEN]


@pytest.mark.parametrize(
    ("change", "what", "state"),
    [
        ({}, "NCCL", State.ABSENT),
        ({"cuda": True}, "NCCL", State.ABSENT),
        ({"cuda": True, "gpus": ["GPU:0"]}, "NCCL", State.WORKS),
        ({"sum": [1.0, 2.0]}, "collectives", State.BROKEN),
        ({}, "training step", State.WORKS),
        ({"step": 0.1}, "training step", State.BROKEN),
        ({"step": "Whale could not rewrite it"}, "training step", State.BROKEN),
        ({"error": "exit status -11: no message"}, "collectives", State.BROKEN),
    ],
)
def test_reports_of_other_machines(change: dict[str, Any], what: str, state: State) -> None:
    finding = by_name(checks.check_devices({**REPORT, **change}))[what]
    assert finding.state is state
    assert finding.advice or state is State.WORKS


def test_a_probe_that_crashes_or_hangs_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(arguments: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(arguments, -11, "", "first\nlast words\n")

    def hang(arguments: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(arguments, 1)

    monkeypatch.setattr(subprocess, "run", crash)
    assert checks.probe() == {"error": "exit status -11: last words"}
    monkeypatch.setattr(subprocess, "run", hang)
    assert "no answer" in str(checks.probe()["error"])


def test_an_absent_or_unknown_tensorflow_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, message in ((None, "not installed"), ("2.9.1", "2.9.1 is not supported"), ("3.0.0", "3.0.0")):
        monkeypatch.setattr("whale.installed.tensorflow_version", lambda version=version: version)
        finding = checks.check_tensorflow()
        assert finding.state is State.BROKEN and message in finding.found and finding.advice


def test_python_and_keras() -> None:
    assert checks.check_python((3, 8)).state is State.BROKEN
    assert checks.check_python((3, 11)).state is State.WORKS
    assert checks.check_keras((2, 15)).state is State.WORKS


def test_what_only_some_scripts_need_is_absent_and_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "has_module", lambda name: False)
    absent = [checks.check_keras((2, 21)), checks.check_estimator((2, 21)), checks.check_slim(), checks.check_horovod()]
    assert all(found.state is State.ABSENT and found.advice and not found.is_base for found in absent)
    assert "TensorFlow 2.21 has none" in absent[1].found and "whale-tf[tf1]" in absent[1].advice


def test_horovod_is_not_advised_while_nothing_uses_it() -> None:
    with pytest.raises(ConfigError, match="not available"):
        Config({"communication.backend": "horovod"})
    assert "pip install" not in checks.check_horovod().advice


@pytest.mark.parametrize(("state", "is_base", "status"), [(State.BROKEN, True, 1), (State.BROKEN, False, 0)])
def test_exit_status(monkeypatch: pytest.MonkeyPatch, state: State, is_base: bool, status: int) -> None:
    finding = Finding("something", state, "not well", "pip install 'whale-tf[gpu]'", is_base)
    monkeypatch.setattr(doctor, "examine", lambda: [finding])
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == status
    assert "not well" in result.output and "broken" in result.output
    assert "[gpu]" in result.output.replace("\n", "")
