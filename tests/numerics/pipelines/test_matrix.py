"""Every model as a pipeline of every form computes in global mode what one device computes.

By default as many combinations as it takes for every pair of model, stages, micro-batches, replicas and schedule to
occur; ``--full`` runs all of them.
"""

from __future__ import annotations

import itertools

import pytest

from tests.numerics.pipelines import models
from tests.numerics.pipelines.compare import compare, on_one_device
from tests.numerics.pipelines.covering import pairs, pairwise, product
from tests.numerics.pipelines.scopes import Cut
from tests.numerics.recording import Recording

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

AXES = {
    "model": (models.mlp, models.language_model, models.lstm, models.cnn, models.bert),
    "stages": (2, 3, 4),
    "micro_batches": (1, 2, 4, 5),
    "replicas": (1, 2),
    "schedule": ("PreferBackward", "PreferForward", "PreferBackwardOptimizer", "Interleaved"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise by the combinations that are to run."""
    if "cut" not in metafunc.fixturenames:
        return
    chosen = product(AXES) if metafunc.config.getoption("--full", default=False) else pairwise(AXES)
    rows = [(row["model"], Cut(*(row[name] for name in list(AXES)[1:]))) for row in chosen]
    names = [f"{model.__name__}-S{c.stages}-M{c.micro_batches}-R{c.replicas}-{c.schedule}" for model, c in rows]
    metafunc.parametrize(("model", "cut"), rows, ids=names)


@pytest.fixture(scope="module")
def reference() -> dict[models.Model, Recording]:
    """What one device records, by model."""
    return {}


def test_a_pipeline_equals_one_device(model: models.Model, cut: Cut, reference: dict[models.Model, Recording]) -> None:
    """Losses, norms of all gradients, and all variables and slots after three steps."""
    script = models.fed(model)
    if model not in reference:
        reference[model] = on_one_device(script)
    text = compare(script, cut, reference[model], settings=models.SETTINGS.get(model))
    assert "approximate" not in text, text


def test_the_default_combinations_cover_every_pair() -> None:
    found = set().union(*map(pairs, pairwise(AXES)))
    for one, other in itertools.combinations(AXES, 2):
        for values in itertools.product(AXES[one], AXES[other]):
            assert tuple(zip((one, other), values)) in found
