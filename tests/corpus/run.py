"""Run public TF1 scripts plain and under ``whale run``, compare what they fetched, and write the compatibility page.

usage: python tests/corpus/run.py --home CORPUS_HOME [--kit KIT] [--devices 2] [--own-shims] [ID ...]

CORPUS_HOME holds ``ref/NAME`` (clones of the repositories), ``site/`` (packages that the scripts import) and
``contrib/tensorflow_core/contrib`` (from the wheel of TensorFlow 1.15.5; or TF115_CONTRIB says where that folder is);
``work/`` and ``out/`` are made in it. KIT lists the scripts. The README of the kit says what else it needs.
Ends with 0 when every script that was asked for gave what plain TensorFlow gives.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # this folder would hide the standard module `trace`
    sys.exit(importlib.import_module("tests.corpus.command").main(__doc__))
