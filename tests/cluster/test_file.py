"""Cluster files, the examples and the documentation of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.cluster.strategies import linked_clusters
from whale.cluster import Cluster, Link, describe, load, to_yaml
from whale.errors import ClusterError, Site

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "clusters"
DOCUMENT = ROOT / "docs" / "cluster.md"

GOOD = """\
hosts:
  - name: a
    address: 10.0.0.1:2222
    devices:
      - model: V100
        count: 2
  - name: b
    devices:
      - {model: Homemade, kind: GPU, memory: 12 GiB}
links:
  - kind: network
    hosts: [a, b]
    speed: 35 Gb/s
    latency: 30 us
"""


def _load(tmp_path: Path, text: str) -> Cluster:
    path = tmp_path / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def test_a_file_becomes_a_cluster(tmp_path: Path) -> None:
    cluster = _load(tmp_path, GOOD)
    assert describe(cluster) == "a: 2 x V100 (16 GiB)\nb: 1 x Homemade (12 GiB)"
    assert cluster.hosts[0].address == "10.0.0.1:2222"
    assert cluster.devices[2].name == "/job:worker/replica:0/task:1/device:GPU:0"
    assert cluster.links == (Link("network", ("a", "b"), 4_375_000_000, 3e-5),)


def test_a_dead_link_is_listed_as_down(tmp_path: Path) -> None:
    cluster = _load(tmp_path, GOOD + "    down: true\n")
    assert cluster.links[0].down
    assert _load(tmp_path, to_yaml(cluster)) == cluster
    with pytest.raises(ClusterError, match=r"links\[0\]\.down: must be true or false, not 'maybe'"):
        _load(tmp_path, GOOD + "    down: maybe\n")


@pytest.mark.parametrize(
    ("example", "text", "last"),
    [
        ("cpu2", "host0: 2 x CPU", "/device:CPU:1"),
        ("v100x8", "host0: 8 x V100 (16 GiB)", "/device:GPU:7"),
        ("h100x8", "host0: 8 x H100 (80 GiB)", "/device:GPU:7"),
        (
            "v100x8_p100x8",
            "v100: 8 x V100 (16 GiB)\np100: 8 x P100-PCIe (16 GiB)",
            "/job:worker/replica:0/task:1/device:GPU:7",
        ),
    ],
)
def test_examples(example: str, text: str, last: str) -> None:
    cluster = load(EXAMPLES / f"{example}.yaml")
    assert describe(cluster) == text
    assert cluster.devices[-1].name == last


def test_every_example_is_tested_above() -> None:
    assert sorted(path.stem for path in EXAMPLES.iterdir()) == ["cpu2", "h100x8", "v100x8", "v100x8_p100x8"]


def test_the_documented_file_is_valid(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert [describe(_load(tmp_path, block)) for block in blocks] == [
        "v100: 8 x V100 (32 GiB)\np100: 8 x P100 (16 GiB)"
    ]


def test_the_documented_error_is_the_one_raised(tmp_path: Path) -> None:
    (block,) = re.findall(r"```text\n(.*?)\n```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    text = "hosts:\n  - name: a\n    address: a:1\n    devices:\n      - model: V10\n"
    with pytest.raises(ClusterError) as caught:
        _load(tmp_path, text)
    assert str(caught.value).replace(f"{tmp_path}/", "") == block


def test_a_job_may_be_given_to_one_host(tmp_path: Path) -> None:
    text = "job: worker\nhosts: [{name: a, devices: [{model: CPU}]}]\n"
    assert _load(tmp_path, text).devices[0].name == "/job:worker/replica:0/task:0/device:CPU:0"


def test_memory_may_be_unknown(tmp_path: Path) -> None:
    text = "hosts: [{name: a, devices: [{model: V100, memory: unknown}, {model: V100, memory: 8 GiB}]}]\n"
    assert [device.memory_bytes for device in _load(tmp_path, text).devices] == [None, 8 * 2**30]


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("hosts:\n", "host:\n", 1, "host: unknown field\n.*\n  fix: did you mean 'hosts'"),
        ("    address", "    adress", 3, r"hosts\[0\]\.adress: unknown field\n.*\n  fix: did you mean 'address'"),
        ("count: 2", "cuont: 2", 6, r"hosts\[0\]\.devices\[0\]\.cuont: unknown field\n.*\n.*'count'"),
        ("latency: 30 us", "latency: 30 us\n    7: x", 15, r"links\[0\]\.7: unknown field"),
        ("latency: 30 us", "latency: 30 us\n    speed: 1 B/s", 15, "speed: given twice, first on line 13"),
        ("    latency: 30 us\n", "", 11, r"links\[0\]: field 'latency' is missing"),
        ("V100", "V10O", 5, r"hosts\[0\]\.devices\[0\]\.model: unknown device model 'V10O'\n.*\n  fix: did you mean"),
        ("kind: GPU, ", "", 9, r"hosts\[1\]\.devices\[0\]\.model: unknown device model 'Homemade'"),
        ("kind: GPU", "kind: GPUs", 9, r"hosts\[1\]\.devices\[0\]\.kind: unknown device kind 'GPUs'"),
        ("model: V100", "model: V100\n        kind: CPU", 6, r"devices\[0\]\.kind: V100 is a GPU, not a CPU"),
        ("model: V100", "model: V100\n        memory: 64 GiB", 6, r"devices\[0\]\.memory: V100 has at most 32 GiB"),
        ("12 GiB", "12", 9, r"hosts\[1\]\.devices\[0\]\.memory: '12' has no unit"),
        ("12 GiB", "12 GIB", 9, r"memory: unknown unit 'GIB' in '12 GIB'\n.*\n  fix: known units: B"),
        ("count: 2", "count: 0", 6, r"count: must be from 1 to 1024, not 0"),
        ("count: 2", "count: 1000000", 6, r"count: must be from 1 to 1024"),
        ("count: 2", "count: two", 6, r"count: must be a whole number, not 'two'"),
        ("name: b", "name: a", 7, r"hosts\[1\]\.name: another host is named 'a'"),
        ("name: b", "name: b\n    address: 10.0.0.1:2222", 8, r"address: host 'a' has the address '10.0.0.1:2222'"),
        ("10.0.0.1:2222", "10.0.0.1", 3, r"hosts\[0\]\.address: '10.0.0.1' is not an address"),
        ("name: a", "name: 5", 2, r"hosts\[0\]\.name: must be text"),
        ("name: a", "name: a/b", 2, r"hosts\[0\]\.name: 'a/b' is not a host name"),
        ("Homemade", "Home/made", 9, r"devices\[0\]\.\w+: 'Home/made' is not a model name"),
        ("[a, b]", "[a, bb]", 12, r"links\[0\]\.hosts\[1\]: no host is named 'bb'"),
        ("[a, b]", "[a, a]", 12, r"links\[0\]\.hosts\[1\]: host 'a' is named twice"),
        ("[a, b]", "[]", 12, r"links\[0\]\.hosts: must be a list of at least one entry"),
        ("kind: network", "kind: netwrk", 11, r"links\[0\]\.kind: unknown link kind 'netwrk'\n.*\n.*'network'"),
        ("35 Gb/s", "35", 13, r"links\[0\]\.speed: '35' has no unit"),
        ("35 Gb/s", "0 Gb/s", 13, r"links\[0\]\.speed: a link of 0 bytes per second"),
        ("30 us", "fast", 14, r"links\[0\]\.latency: 'fast' is not a number with a unit"),
        ("hosts:\n", "job: ''\nhosts:\n", 1, r"job: '' is not a job name"),
        ("hosts:\n", "job: a b\nhosts:\n", 1, r"job: 'a b' is not a job name"),
        ("      - model: V100\n        count: 2\n", "      V100\n", 5, r"hosts\[0\]\.devices: must be a list"),
        (
            "    latency: 30 us\n",
            "    latency: 30 us\n  - {kind: network, hosts: [b, a], speed: 1 B/s, latency: 1 s}\n",
            15,
            r"links\[1\]: another network link joins b, a",
        ),
        ("count: 2", "count: 1024\n      - model: T4", 5, r"hosts\[0\]\.devices: more than 1024 devices"),
    ],
)
def test_a_fault_names_file_line_and_field(tmp_path: Path, old: str, new: str, line: int, what: str) -> None:
    assert old in GOOD
    with pytest.raises(ClusterError, match=what) as caught:
        _load(tmp_path, GOOD.replace(old, new, 1))
    assert caught.value.site == Site(str(tmp_path / "cluster.yaml"), line)


@pytest.mark.parametrize("text", ["- a\n", "text\n", "hosts: 3\n", "hosts: {}\n"])
def test_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ClusterError, match="must be a"):
        _load(tmp_path, text)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(linked_clusters())
def test_writing_and_loading_gives_an_equal_cluster(tmp_path: Path, cluster: Cluster) -> None:
    text = to_yaml(cluster)
    loaded = _load(tmp_path, text)
    assert loaded == cluster
    assert to_yaml(loaded) == text
    assert describe(loaded) == describe(cluster)
