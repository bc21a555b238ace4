"""The pipeline a script asks for: by ``pipeline`` and ``stage`` scopes, or by EPL's rule.

EPL's rule: where ``pipeline.num_micro_batch`` is above 1, two or more ``replicate`` scopes one after another are the
stages of a pipeline, and one scope, or none, is gradient accumulation.
"""

from __future__ import annotations

from whale.annotations.state import Annotations, Scope
from whale.annotations.strategies import Kind
from whale.config import Config
from whale.errors import ScopeError
from whale.ir.task_graphs import UNSTAMPED, PipelineRequest, Stage


def pipeline_of(said: Annotations | None, config: Config) -> PipelineRequest | None:
    """What is asked for of one graph; None for neither stages nor micro-batches.

    Raises:
        ScopeError: the graph has two pipelines, or stages outside of its pipeline.
    """
    scopes = said.scopes if said is not None else ()
    pipelines = [scope for scope in scopes if scope.kind is Kind.PIPELINE]
    configured = int(config.pipeline.num_micro_batch)
    if len(pipelines) > 1:
        raise ScopeError(
            f"the graph has two pipelines, at {pipelines[0].site} and at {pipelines[1].site}",
            site=pipelines[1].site,
            fix="put all stages of a model inside one `with wh.pipeline(...):`",
        )
    if pipelines:
        (pipeline,) = pipelines
        micro_batches = pipeline.strategy.num_micro_batches
        return PipelineRequest(
            stages=_stages(scopes, [scope for scope in scopes if scope.kind is Kind.STAGE]),
            micro_batches=micro_batches if micro_batches > 1 else configured,
            strategy=pipeline.strategy.schedule or str(config.pipeline.strategy),
            site=pipeline.site,
        )
    if configured == 1:
        return None
    replicas = [scope for scope in scopes if scope.kind is Kind.REPLICA]
    entered = [scope for scope in replicas if not scope.is_default]
    set_here = [scope for scope in replicas if not scope.is_carried]
    chosen = next((some for some in (entered, set_here, replicas) if _strategies(some) > 1), None)
    rest = said.rest if said is not None else None
    stages = _stages(scopes, chosen, rest) if chosen is not None else ()
    site = (chosen or replicas)[0].site if replicas else None
    return PipelineRequest(stages, configured, str(config.pipeline.strategy), site)


def _strategies(scopes: list[Scope]) -> int:
    return len({id(scope.strategy) for scope in scopes})


def _stages(scopes: tuple[Scope, ...], entered: list[Scope], rest: Scope | None = None) -> tuple[Stage, ...]:
    """One stage per strategy, however often it is entered; what is stamped inside of it is its own."""
    by_strategy: dict[int, list[Scope]] = {}
    for scope in entered:
        by_strategy.setdefault(id(scope.strategy), []).append(scope)
    stages: list[Stage] = []
    for group in by_strategy.values():
        first = group[0]
        own = {scope.index for scope in group}
        for scope in scopes:  # in the order in which they were entered: a parent comes before its children
            if scope.parent in own:
                own.add(scope.index)
        if rest is not None and rest.index in own:
            own.add(UNSTAMPED)
        devices, start = [], 0
        for replica in first.strategy.devices:
            devices.append(first.devices[start : start + len(replica)])
            start += len(replica)
        count = first.strategy.device_count or (len(devices[0]) if devices else 1)
        stages.append(Stage(frozenset(own), first.name, tuple(devices), count, first.site))
    return tuple(stages)
