"""The report of a decided plan."""

from __future__ import annotations

from whale.cluster import Catalogue, Cluster
from whale.cost_model import Coefficients
from whale.ir.cost import ELEMENT_BYTES
from whale.ir.program import Program
from whale.planner.report import GraphFacts, make_report
from whale.planner.report.report import PlanReport
from whale.runtime.planning.decide import Decided


def report_of(
    decided: Decided, cluster: Cluster, title: str, catalogue: Catalogue, coefficients: Coefficients
) -> PlanReport:
    """What is told of a plan.

    Args:
        decided: the plan.
        cluster: the devices it was made for.
        title: the script.
        catalogue: what is known of devices and links.
        coefficients: the fitted numbers it was made with.
    """
    step = decided.step
    graph = GraphFacts(
        operations=len(step.ops),
        variables=len(step.program.variables),
        parameter_bytes=_parameter_bytes(step.program),
        batch_mode="local" if step.local else "global",
        notes=(*step.notes, *decided.notes),
    )
    return make_report(
        decided.found,
        step.chain,
        cluster,
        decided.options,
        title=title,
        graph=graph,
        names=decided.names,
        numerics=step.numerics,
        catalogue=catalogue,
        coefficients=coefficients,
    )


def _parameter_bytes(program: Program) -> int:
    total = 0
    for variable in program.variables.values():
        if variable.trainable:
            size = ELEMENT_BYTES.get(variable.dtype.replace("_ref", ""), 4)
            for length in variable.shape or ():
                size *= length or 1
            total += size
    return total
