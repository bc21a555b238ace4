"""Quantities and names of devices in words."""

from __future__ import annotations

import pytest

from tests.planner.report import plans
from whale.planner.report.ranges import host_ranges, number_ranges, range_words
from whale.planner.report.words import (
    bytes_words,
    difference_words,
    duration_words,
    gibibytes_words,
    layout_words,
    money_words,
    number_words,
    part_words,
    rate_words,
    seconds_words,
)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (3.12947, "3.129 s"),
        (12.3456, "12.35 s"),
        (123.456, "123.5 s"),
        (12345.6, "12,346 s"),
        (0.99996, "1.000 s"),
        (0.0452, "45.20 ms"),
        (9.9999e-4, "1.000 ms"),
        (8.12e-4, "812.0 us"),
        (1.5e-8, "0.015 us"),
        (9.99996, "10.00 s"),
    ],
)
def test_seconds(seconds: float, words: str) -> None:
    assert seconds_words(seconds) == words


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1023.6, "1.0 KiB"),
        (2**20, "1.0 MiB"),
        (15.5 * 2**30, "15.50 GiB"),
        (2**41, "2.00 TiB"),
    ],
)
def test_bytes(size: float, words: str) -> None:
    assert bytes_words(size) == words


def test_gibibytes_in_a_column() -> None:
    assert [gibibytes_words(size) for size in (0, 1, 2**30, 2**34)] == ["-", "<0.01", "1.00", "16.00"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(41.2, "41.20 s"), (750, "12 min 30 s"), (3599.7, "1 h 00 min"), (11100, "3 h 05 min"), (352800, "4 d 02 h")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words


def test_other_quantities() -> None:
    assert [rate_words(rate) for rate in (1969.4, 32.71, 3.2714)] == [
        "1,969 samples/s",
        "32.7 samples/s",
        "3.271 samples/s",
    ]
    assert [number_words(number) for number in (1024, 85.333)] == ["1,024", "85.3"]
    assert [part_words(part) for part in (1, 0.125, 0.76893)] == ["100 %", "12.5 %", "76.9 %"]
    assert [money_words(amount) for amount in (0, 1234.5, 0.002)] == ["0.00", "1,234.50", "0.002"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1.0, "as fast"),
        (1.0032, "0.3 % slower"),
        (1.28, "28 % slower"),
        (2.6, "2.6 times as long"),
        (0.84, "16 % faster"),
    ],
)
def test_differences(seconds: float, words: str) -> None:
    assert difference_words(seconds, 1.0) == words


def test_a_plan_in_a_few_words() -> None:
    cluster = plans.two_hosts()
    assert layout_words(plans.one_device(cluster)) == "1 replica, 1 micro-batch"
    plan = plans.pipeline(cluster, rows=2, replicas=2, parts=2, chunks=2, micro_batches=4, schedule="interleaved")
    assert layout_words(plan) == "2 replicas x 2 stages x 2 chunks x 2 devices, 4 micro-batches"


def test_numbers_become_ranges() -> None:
    assert number_ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["host0", "host1", "host2"], ["host0-2"]),
        (["v100", "p100"], ["v100", "p100"]),
        (["node08", "node09", "node10"], ["node08-10"]),
        (["node9", "node10"], ["node9-10"]),
        (["node9", "node010"], ["node9", "node010"]),
        (["a1b", "a2b"], ["a1b", "a2b"]),
        (["host3", "host1"], ["host3", "host1"]),
    ],
)
def test_hosts_become_ranges(names: list[str], words: list[str]) -> None:
    assert [name for name, _ in host_ranges(names)] == words


def test_devices_in_few_words() -> None:
    report = plans.pipeline_report()
    assert range_words(report.devices, 2) == "fast GPU:0-3, slow GPU:0-3"
    assert range_words(report.devices[:3], 1) == "GPU:0-2"
    many = plans.many_hosts(30)
    devices = plans.report(many, plans.data(many, global_batch=240)).devices
    scattered = [device for device in devices if int(device.host[4:]) % 2 == 0 and device.index < 3]
    words = range_words(scattered, 30)
    assert (
        words == "host0 GPU:0-2, host2 GPU:0-2, host4 GPU:0-2, host6 GPU:0-2, host8 GPU:0-2, host10 GPU:0-2 and 27 more"
    )
