"""Chains of blocks of the benchmark's models: the graph is built with TF1 code, captured, and the result cached.

Transformers are captured with three layers; the layer in the middle then stands for as many as the model has.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import os
import pickle
from pathlib import Path

from benchmarks.graphs.sizes import Model, Transformer
from whale.cost_model import Chain, Fusion

CAPTURED_LAYERS = 3

_ROOT = Path(__file__).parents[2]


def cache_directory() -> Path:
    """Where chains are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "whale" / "cost_model"


@functools.lru_cache(maxsize=256)
def chain(model: Model, fusion: Fusion) -> Chain:
    """The blocks of a model, by who joins ops into kernels."""
    if isinstance(model, Transformer):
        return _captured(dataclasses.replace(model, layers=CAPTURED_LAYERS))[fusion].resized([model.layers])
    return _captured(model)[fusion]


@functools.lru_cache(maxsize=64)
def _captured(model: Model) -> dict[Fusion, Chain]:
    path = cache_directory() / f"{hashlib.sha256(f'{_sources()}{model}'.encode()).hexdigest()[:24]}.pickle"
    if path.exists():
        return pickle.loads(path.read_bytes())
    # TensorFlow takes seconds to load, and a filled cache does without it.
    chains = importlib.import_module("benchmarks.graphs.capture").capture_chains(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(pickle.dumps(chains))
    partial.replace(path)
    return chains


@functools.lru_cache(maxsize=1)
def _sources() -> str:
    """A hash of the code that a chain depends on."""
    model = _ROOT / "whale" / "cost_model"
    names = ("block", "build", "curve", "fusion", "segments", "split", "stash", "tensors")
    files = [*Path(__file__).parent.glob("*.py"), *(_ROOT / "whale" / "ir").glob("cost*.py")]
    files += [model / f"{name}.py" for name in names]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(files))).hexdigest()
