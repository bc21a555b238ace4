"""Workers as Slurm and Kubernetes name them."""

from __future__ import annotations

import pytest

from whale.cluster.launchers import expand_nodes, from_kubernetes, from_slurm
from whale.errors import ClusterError


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("node1", ["node1"]),
        ("a,b", ["a", "b"]),
        ("gpu[01-03,07],login", ["gpu01", "gpu02", "gpu03", "gpu07", "login"]),
        ("r[1-2]n[8-9]", ["r1n8", "r1n9", "r2n8", "r2n9"]),
        ("n[9-10].site", ["n9.site", "n10.site"]),
    ],
)
def test_node_lists(text: str, nodes: list[str]) -> None:
    assert expand_nodes(text) == nodes


@pytest.mark.parametrize("text", ["gpu[01-", "gpu]1[", "gpu[a-b]", "gpu[3-1]", "gpu[]"])
def test_what_is_no_node_list(text: str) -> None:
    with pytest.raises(ClusterError, match=r"Slurm node list|no range of numbers"):
        expand_nodes(text)


def test_slurm_tasks_are_numbered_machine_by_machine() -> None:
    found = from_slurm({"SLURM_JOB_NODELIST": "g[1-2]", "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_PROCID": "3"}, 9000)
    assert found is not None
    assert found.addresses == ("g1:9000", "g1:9001", "g2:9000", "g2:9001")
    assert found.rank == 3


def test_the_step_comes_before_the_job() -> None:
    found = from_slurm(
        {
            "SLURM_JOB_NODELIST": "g[1-8]",
            "SLURM_STEP_NODELIST": "g[2-3]",
            "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
            "SLURM_TASKS_PER_NODE": "1(x8)",
            "SLURM_PROCID": "0",
        },
        1,
    )
    assert found is not None
    assert found.addresses == ("g2:1", "g3:1")


def test_outside_of_slurm_or_alone_there_are_no_workers() -> None:
    assert from_slurm({}) is None
    assert from_slurm({"SLURM_JOB_NODELIST": "g1", "SLURM_PROCID": "0"}) is None


@pytest.mark.parametrize(
    ("tasks", "rank", "message"),
    [("2", "0", "tasks for 1"), ("two,1", "0", "SLURM_TASKS_PER_NODE"), ("1,1", "x", "not a whole number")],
)
def test_slurm_variables_that_cannot_be(tasks: str, rank: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        from_slurm({"SLURM_JOB_NODELIST": "g[1-2]", "SLURM_TASKS_PER_NODE": tasks, "SLURM_PROCID": rank})


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "WORLD_SIZE": "3"}


def test_pods_of_an_indexed_job() -> None:
    found = from_kubernetes({**POD, "HOSTNAME": "train-2", "WHALE_SERVICE": "pods"}, 7000)
    assert found is not None
    assert found.addresses == ("train-0.pods:7000", "train-1.pods:7000", "train-2.pods:7000")
    assert found.rank == 2


def test_the_completion_index_comes_first() -> None:
    found = from_kubernetes({**POD, "HOSTNAME": "train-2", "JOB_COMPLETION_INDEX": "1"})
    assert found is not None
    assert found.rank == 1


def test_outside_of_kubernetes_or_alone_there_are_no_workers() -> None:
    assert from_kubernetes({"WORLD_SIZE": "3", "HOSTNAME": "train-0"}) is None
    assert from_kubernetes({**POD, "WORLD_SIZE": "1", "HOSTNAME": "train-0"}) is None


def test_a_pod_without_a_number_is_told_what_to_do() -> None:
    with pytest.raises(ClusterError, match="completionMode Indexed"):
        from_kubernetes({**POD, "HOSTNAME": "train-abc"})
