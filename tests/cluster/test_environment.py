"""``TF_CONFIG``, host lists and visible devices."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.strategies import clusters
from whale.cluster import (
    Cluster,
    DeviceGroup,
    Host,
    Workers,
    check_agreement,
    describe,
    from_hosts,
    from_tf_config,
    restrict,
    visible_devices,
)
from whale.errors import ClusterError

DOCUMENT = Path(__file__).parents[2] / "docs" / "cluster.md"


def _config(kind: str, index: object, **jobs: object) -> str:
    return json.dumps({"cluster": jobs, "task": {"type": kind, "index": index}})


@pytest.mark.parametrize(
    ("kind", "index", "rank"), [("chief", 0, 0), ("worker", 0, 1), ("worker", 1, 2), ("ps", 0, 3), ("ps", "1", 4)]
)
def test_chief_workers_and_servers_are_ranked_in_this_order(kind: str, index: object, rank: int) -> None:
    text = _config(kind, index, ps=["p:1", "p:2"], worker=["w:1", "w:2"], chief=["c:1"])
    assert from_tf_config(text) == Workers(("c:1", "w:1", "w:2", "p:1", "p:2"), rank)


def test_a_master_is_a_chief() -> None:
    assert from_tf_config(_config("worker", 0, worker=["w:1"], master=["m:1"])) == Workers(("m:1", "w:1"), 1)


def test_hosts_may_be_given_by_index() -> None:
    assert from_tf_config(_config("worker", 1, worker={"1": "b:1", "0": "a:1"})) == Workers(("a:1", "b:1"), 1)


@pytest.mark.parametrize("text", ["", "  ", "{}", '{"cluster": {}, "task": {"type": "worker", "index": 0}}'])
def test_without_a_cluster_this_process_is_alone(text: str) -> None:
    assert from_tf_config(text) is None


def test_keys_of_others_are_left_to_them() -> None:
    text = '{"environment": "cloud", "cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}'
    assert from_tf_config(text) == Workers(("a:1",), 0)


def test_the_documented_example() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert from_tf_config(block) == Workers(("10.0.0.1:2222", "10.0.0.2:2222", "10.0.0.3:2222"), 1)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "TF_CONFIG is not JSON: .* line 1 column 2"),
        ("[" * 100_000, "TF_CONFIG is (nested too deeply|not JSON)"),
        ('{"cluster": ' + "9" * 5000 + "}", "TF_CONFIG is not JSON"),
        ("[]", r"TF_CONFIG is \[\], not an object"),
        ('{"cluster": ["a:1"]}', r"'cluster' is \['a:1'\], not an object"),
        ('{"cluster": {"worker": ["a:1"]}}', "'task' is None, not an object"),
        (_config("worker", 0, workers=["a:1"]), "unknown job 'workers'\n  fix: did you mean 'worker'"),
        (_config("ps", 0, worker=["a:1"]), "this process is a 'ps', and the cluster has none"),
        (_config("evaluator", 0, worker=["a:1"]), "this process is the evaluator"),
        (_config("worker", 2, worker=["a:1", "b:1"]), "this process is worker 2, and the cluster has 2 of them"),
        (_config("worker", -1, worker=["a:1"]), "this process is worker -1"),
        (_config("worker", None, worker=["a:1"]), "task index None"),
        (_config("worker", True, worker=["a:1"]), "task index True"),
        (_config("worker", 0, worker=["a:1", "a:1"]), "workers 0 and 1 have the same address 'a:1'"),
        (_config("worker", 0, worker=["a:1"], ps=["a:1"]), "workers 0 and 1 have the same address 'a:1'"),
        (_config("worker", 0, worker=["a"]), "'a' is not an address"),
        (_config("worker", 0, worker=[1]), "job 'worker' has the address 1"),
        (_config("worker", 0, worker="a:1"), "hosts of job 'worker' are 'a:1'"),
        (_config("worker", 0, worker={"0": "a:1", "2": "b:1"}), "indices 0, 2 of job 'worker'"),
        (_config("worker", 0, worker={"0": "a:1", "00": "b:1"}), "indices 0, 00 of job 'worker'"),
        (
            '{"cluster": {"worker": {"0": "a:1", "0": "b:1"}}, "task": {"type": "worker", "index": 0}}',
            "TF_CONFIG gives '0' twice: 'a:1' and 'b:1'",
        ),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": 3, "index": 0}}', "task type 3"),
    ],
)
def test_a_broken_tf_config_is_refused(text: str, what: str) -> None:
    with pytest.raises(ClusterError, match=what):
        from_tf_config(text)


def test_hosts_are_a_list_or_separated_by_commas() -> None:
    both = Workers(("a:1", "b:1", "p:1"), 2)
    assert from_hosts("a:1, b:1", "p:1", "ps", 0) == both
    assert from_hosts(["a:1", "b:1"], ("p:1",), "ps", 0) == both
    assert from_hosts("a:1") == Workers(("a:1",), 0)


@pytest.mark.parametrize("hosts", [None, "", []])
def test_without_worker_hosts_something_else_decides(hosts: str | list[str] | None) -> None:
    assert from_hosts(hosts) is None
    with pytest.raises(ClusterError, match="ps_hosts without worker_hosts"):
        from_hosts(hosts, "p:1")


def test_a_rank_outside_its_job_is_refused() -> None:
    with pytest.raises(ClusterError, match="this process is worker 1, and the cluster has 1 of them"):
        from_hosts("a:1", "p:1", "worker", 1)
    with pytest.raises(ClusterError, match="task index 1 in a job of 1 processes"):
        Workers(("a:1",), 1)


def test_workers_make_a_cluster() -> None:
    cluster = Workers(("a:1", "b:1"), 0).cluster(2, "GPU", "V100", 2**34)
    assert describe(cluster) == "worker0: 2 x V100 (16 GiB)\nworker1: 2 x V100 (16 GiB)"
    assert [host.address for host in cluster.hosts] == ["a:1", "b:1"]
    assert cluster.devices[-1].name == "/job:worker/replica:0/task:1/device:GPU:1"


def test_one_worker_makes_a_local_cluster() -> None:
    cluster = Workers(("a:1",), 0).cluster(2, "CPU")
    assert cluster.is_local
    assert [device.name for device in cluster.devices] == ["/device:CPU:0", "/device:CPU:1"]


def test_processes_that_claim_one_rank_are_named() -> None:
    first, second = Workers(("a:1", "b:1"), 0), Workers(("a:1", "b:1"), 1)
    check_agreement({})
    check_agreement({"node1": first, "node2": second})
    with pytest.raises(ClusterError, match="node1 and node3 both have task index 0"):
        check_agreement({"node1": first, "node2": second, "node3": first})
    with pytest.raises(ClusterError, match="node1 and node2 were told different workers: a:1, b:1 and b:1, a:1"):
        check_agreement({"node1": first, "node2": Workers(("b:1", "a:1"), 1)})


@pytest.mark.parametrize(("text", "expected"), [("", (0, 1, 2)), ("2", (2,)), ("2, 0", (2, 0))])
def test_visible_devices(text: str, expected: tuple[int, ...]) -> None:
    assert visible_devices(text, 3) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("3", "no device 3 among 3"),
        ("0,0", "names device 0 twice"),
        ("-1", "'-1' is no device number"),
        ("0,", "'' is no device number"),
        ("a", "'a' is no device number"),
    ],
)
def test_visible_devices_that_cannot_be_are_refused(text: str, what: str) -> None:
    with pytest.raises(ClusterError, match=what):
        visible_devices(text, 3)


def test_visible_devices_are_numbered_anew() -> None:
    old, new, cpu = DeviceGroup("GPU", "P100", 2**34), DeviceGroup("GPU", "V100", 2**35), DeviceGroup("CPU", "CPU")
    cluster = Cluster((Host.build("host0", (cpu, old, new)),))
    assert describe(restrict(cluster, "1")) == "host0: 1 x V100 (32 GiB), 1 x CPU"
    assert [device.name for device in restrict(cluster, "1").devices] == ["/device:GPU:0", "/device:CPU:0"]
    with pytest.raises(ClusterError, match="host 'host0': run_visible_devices '2': no device 2 among 2"):
        restrict(cluster, "2")


@given(clusters(), st.data())
def test_restricting_keeps_so_many_devices_of_each_host(cluster: Cluster, data: st.DataObject) -> None:
    compute = [
        [device for device in cluster.compute_devices if device.task == task] for task in range(cluster.worker_num)
    ]
    smallest = min(len(devices) for devices in compute)
    if smallest == 0:
        with pytest.raises(ClusterError, match="no device 0 among 0"):
            restrict(cluster, "0")
        return
    kept = data.draw(st.lists(st.integers(0, smallest - 1), min_size=1, unique=True))
    restricted = restrict(cluster, ",".join(map(str, kept)))
    assert restricted.total_gpu_num == len(kept) * cluster.worker_num
    assert restricted.links == cluster.links
    for task, devices in enumerate(compute):
        models = [device.model for device in restricted.compute_devices if device.task == task]
        assert models == [devices[number].model for number in kept]
