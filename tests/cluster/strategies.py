"""Random clusters for the properties of this directory."""

from __future__ import annotations

from hypothesis import strategies as st

from whale.cluster import MODELS, Cluster, DeviceGroup, Host, Link
from whale.cluster.devices import LINK_KINDS, WORKER_JOB

# Names that YAML would read as something else, among others.
_HOST_NAMES = ("node-1", "A", "0", "1.5", "null", "yes", "1e3", "2020-01-01", "a_b.c")
_ADDRESSES = ("", "10.0.0.1:2222", "10.0.0.1:2223", "10.0.0.2:2222", "[fd00::1]:2222")
_MEMORY_BYTES = (None, 1, 2**30, 5 * 10**9, 3 * 2**29)

_GROUPS = (
    *(DeviceGroup(model.kind, name, memory) for name, model in MODELS.items() for memory in _MEMORY_BYTES),
    *(DeviceGroup(model.kind, name, size) for name, model in MODELS.items() for size in model.memory_bytes),
    *(
        DeviceGroup(kind, name, memory)
        for kind in ("CPU", "GPU")
        for name in ("off", "7", "X 1")
        for memory in (None, 8)
    ),
)

_hosts = st.lists(
    st.tuples(
        st.sampled_from(_HOST_NAMES),
        st.sampled_from(_ADDRESSES),
        st.lists(st.sampled_from(_GROUPS), min_size=1, max_size=4),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=4,
    unique_by=(lambda host: host[0], lambda host: host[1] or host[0]),
)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A cluster of up to four hosts, some of them on one machine."""
    drawn = draw(_hosts)
    job = WORKER_JOB if len(drawn) > 1 else draw(st.sampled_from(("", WORKER_JOB)))
    return Cluster(
        tuple(
            Host.build(name, groups * repeats, address=address, task=task, job=job)
            for task, (name, address, groups, repeats) in enumerate(drawn)
        )
    )


@st.composite
def linked_clusters(draw: st.DrawFn) -> Cluster:
    """A cluster with links of any speed."""
    cluster = draw(clusters())
    names = st.sampled_from([host.name for host in cluster.hosts])
    link = st.builds(
        Link,
        st.sampled_from(LINK_KINDS),
        st.lists(names, min_size=1, max_size=3, unique=True).map(tuple),
        st.integers(1, 2**60),
        st.floats(0, 1e3, allow_nan=False),
    )
    links = draw(st.lists(link, max_size=3, unique_by=lambda link: (link.kind, frozenset(link.hosts))))
    return Cluster(cluster.hosts, tuple(links))
