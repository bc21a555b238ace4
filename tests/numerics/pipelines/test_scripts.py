"""Every script of one feature computes as a pipeline what it computes on one device.

By default a script runs as two of the pipelines below, in turn; ``--full`` runs it as all of them.
"""

from __future__ import annotations

import pytest

from tests.numerics.pipelines.compare import Script, compare, on_one_device
from tests.numerics.pipelines.scopes import Cut
from tests.numerics.pipelines.scripts import SCRIPTS
from tests.numerics.recording import Recording

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

CUTS = (
    Cut(2, 4),
    Cut(3, 2, 2, "PreferForward"),
    Cut(4, 5, 1, "PreferBackwardOptimizer"),
    Cut(4, 2, 1, "Interleaved"),
    Cut(3, 3),
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise by script and pipeline."""
    if "script" not in metafunc.fixturenames:
        return
    full = metafunc.config.getoption("--full", default=False)
    rows = [
        (script, CUTS[(2 * number + turn) % len(CUTS)])
        for number, script in enumerate(SCRIPTS)
        for turn in range(len(CUTS) if full else 2)
    ]
    metafunc.parametrize(("script", "cut"), rows, ids=[f"{script.__name__}, {cut}" for script, cut in rows])


@pytest.fixture(scope="module")
def reference() -> dict[Script, Recording]:
    """What one device records, by script."""
    return {}


def test_a_pipeline_equals_one_device(script: Script, cut: Cut, reference: dict[Script, Recording]) -> None:
    if script not in reference:
        reference[script] = on_one_device(script)
    compare(script, cut, reference[script])
