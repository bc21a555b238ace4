"""Every case computes under Whale on 2 and 3 devices what plain TensorFlow computes on one.

By default each case runs on its smallest device count, and a fixed third of the cases on every count; ``--full``
runs all of them on all. Another third takes its first step checked.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pytest

from tests.numerics.case import Case, all_cases
from tests.numerics.process import tensorflow_version
from tests.numerics.recording import Recording, differences
from tests.numerics.runner import faults, handed_over, plain, run, whale

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def device_counts(case: Case, full: bool) -> tuple[int, ...]:
    """The device counts a case runs on."""
    everywhere = full or zlib.crc32(case.name.encode()) % 3 == 0
    return case.devices if everywhere else case.devices[:1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise by case and device count, for the installed TensorFlow."""
    full = metafunc.config.getoption("--full", default=False)
    version = tensorflow_version()
    cases = [case for case in all_cases() if version in case.tf_versions and (full or not case.slow)]
    if "directions" in metafunc.fixturenames:
        cases = [case for case in cases if case.reader is not None]
    pairs = [(case, devices) for case in cases for devices in device_counts(case, full)]
    names = [f"{case.name}-{devices}" for case, devices in pairs]
    metafunc.parametrize(("case", "devices"), pairs, ids=names)
    if "directions" in metafunc.fixturenames:
        metafunc.parametrize("directions", ["whale writes", "whale reads"])


@pytest.fixture(scope="module")
def reference() -> Callable[[Case], Recording]:
    """What plain TensorFlow records for a case; computed once a case."""
    known: dict[str, Recording] = {}

    def recorded(case: Case) -> Recording:
        if case.name not in known:
            known[case.name] = run(case, plain)[0]
        return known[case.name]

    return recorded


def test_equals_one_device(case: Case, devices: int, reference: Callable[[Case], Recording]) -> None:
    """Same values in the same order, and cut where the case says that it must be."""
    expected = reference(case)
    check = "on" if zlib.crc32(case.name.encode()) % 3 == 1 else "off"
    actual, reports = run(case, whale(devices, check))
    problems = faults(case, expected, actual, reports)
    assert not problems, "\n".join([f"{case.name} on {devices} devices: {case.body.__doc__}", *problems[:20]])


def test_files_cross(case: Case, devices: int, directions: str, reference: Callable[[Case], Recording]) -> None:
    """What was written under Whale is read by plain TensorFlow, and the reverse."""
    sides = (whale(devices), plain) if directions == "whale writes" else (plain, whale(devices))
    problems = differences(reference(case), handed_over(case, *sides), case.tolerance)
    assert not problems, "\n".join([f"{case.name} on {devices} devices, {directions}", *problems[:20]])
