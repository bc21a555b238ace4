"""A process is run, and what is kept of it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.corpus.kit import Repeats, Script
from tests.corpus.launch import Launcher, Places

BUSY = "import time\nstart = time.process_time()\nwhile time.process_time() < start + 0.3: pass\ntime.sleep(1)"


def test_seconds_are_those_of_the_processor(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    script = Script("s", "owner/name", "", Repeats.EXACTLY, (str(tmp_path / "busy.py"),), 60, "", "$W", "", ())
    launcher = Launcher("plain", (sys.executable, "-S"), whale=False, own_tracer=False)
    outcome = launcher.run(Places(tmp_path, tmp_path, tmp_path, sys.executable), script, 60.0)
    assert outcome.code == 0
    assert 0.3 <= outcome.seconds < 1.0
