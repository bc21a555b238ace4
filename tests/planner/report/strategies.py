"""Any report whose parts belong together."""

from __future__ import annotations

from hypothesis import strategies as st

from whale.cost_model import MemoryUse
from whale.planner.report import (
    DeviceFacts,
    GraphFacts,
    Measured,
    OtherPlan,
    PlanReport,
    Prediction,
    ReplicaFacts,
    SearchFacts,
    StageFacts,
    Timeline,
    TimelineEvent,
)

WORDS = st.text(st.sampled_from("abc <>&\"'{}[]%/\\é1"), max_size=12)
SECONDS = st.floats(1e-6, 1e4)
SIZES = st.floats(0, 1e13)
COUNTS = st.integers(0, 10**12)
PARTS = st.floats(0, 1)


@st.composite
def _devices(draw: st.DrawFn, place: int, stages: tuple[int, ...]) -> DeviceFacts:
    return DeviceFacts(
        name=f"/job:worker/task:{place // 4}/device:GPU:{place % 4}",
        host=draw(st.sampled_from((f"host{place // 4}", "a&b"))),
        kind="GPU",
        index=place,
        model=draw(st.sampled_from(("V100", "P100-PCIe"))),
        limit_bytes=draw(st.none() | st.integers(1, 2**40)),
        stages=stages,
        memory=draw(st.builds(MemoryUse, SIZES, SIZES, SIZES, SIZES, SIZES, SIZES)) if stages else None,
    )


@st.composite
def _events(draw: st.DrawFn, replicas: int, stages: int) -> TimelineEvent:
    begin, end = sorted((draw(SECONDS), draw(SECONDS)))
    kind = draw(st.sampled_from(("forward", "backward", "send", "reduce", "update")))
    stage = st.integers(0, stages - 1)
    return TimelineEvent(
        kind=kind,
        replica=draw(st.integers(0, replicas - 1)),
        stage=draw(stage),
        target=draw(stage) if kind == "send" else -1,
        micro_batch=draw(st.integers(0, 99)) if kind in ("forward", "backward", "send") else -1,
        start=begin,
        end=end,
    )


_others = st.builds(OtherPlan, WORDS, WORDS, st.none() | SECONDS, st.booleans(), WORDS, WORDS)


@st.composite
def reports(draw: st.DrawFn) -> PlanReport:
    """Reports of up to three stages, three replicas and eleven devices; their figures need not make sense."""
    rows, chunks, copies = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    count = rows * chunks
    held = [tuple(range(row, count, rows)) for row in range(rows) for _ in range(copies)]
    held += [()] * draw(st.integers(0, 2))
    devices = tuple(draw(_devices(place, stages)) for place, stages in enumerate(held))
    stages = tuple(
        StageFacts(
            number=number,
            name=draw(WORDS),
            start=number,
            stop=number + draw(st.integers(1, 9)),
            first=draw(WORDS),
            last=draw(WORDS),
            folded=draw(st.integers(0, 9)),
            work=draw(PARTS),
            parameter_bytes=draw(COUNTS),
            reduced_bytes=draw(SIZES),
            output_bytes=draw(SIZES),
            devices=tuple((devices[number % rows * copies + replica].name,) for replica in range(copies)),
            divided=draw(st.sampled_from(("whole", "2 devices"))),
        )
        for number in range(count)
    )
    events = tuple(sorted(draw(st.lists(_events(copies, count), max_size=6)), key=lambda event: event.start))
    last = max((event.end for event in events), default=0.0)
    gap = sorted((last * draw(PARTS), last * draw(PARTS)))
    return PlanReport(
        title=draw(WORDS),
        graph=draw(st.builds(GraphFacts, COUNTS, COUNTS, COUNTS, WORDS, st.lists(WORDS, max_size=2).map(tuple))),
        batch=draw(st.integers(1, 10**6)),
        family=draw(WORDS),
        layout=draw(WORDS),
        devices=devices,
        stages=stages,
        rows=rows,
        replicas=tuple(
            ReplicaFacts(number, draw(SIZES), draw(PARTS), draw(st.integers(0, number))) for number in range(copies)
        ),
        micro_batches=draw(st.integers(1, 99)),
        schedule=draw(st.sampled_from(("gpipe", "one_f_one_b", "another"))),
        recomputation=draw(st.sampled_from(("none", "full", "another"))),
        precision="fp32",
        prediction=draw(st.builds(Prediction, SECONDS, SIZES, PARTS, SECONDS, SECONDS)),
        timeline=Timeline(
            events,
            draw(st.sampled_from((None, (gap[0], gap[1])))),
            tuple(range(copies)),
            draw(st.integers(copies, 9)),
        ),
        runners_up=tuple(draw(st.lists(_others, max_size=12))),
        left_out=draw(st.none() | _others),
        search=SearchFacts(draw(st.booleans()), draw(COUNTS), ((draw(WORDS), draw(SECONDS)),)),
        numerics=tuple(draw(st.lists(WORDS, max_size=2))),
        measured=draw(
            st.none() | st.builds(Measured, st.none() | SECONDS, st.sampled_from(((), ((devices[0].name, 2**31),))))
        ),
    )
