"""One report over the seeds of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy
from numpy.typing import NDArray

from creditscope.diagnostics.depth import from_answers
from creditscope.diagnostics.seeds import medians, over_seeds
from creditscope.protocols import judge, protocol_named
from creditscope.records.labels import counted
from creditscope.records.report import Report
from creditscope.registry import natural_key
from creditscope.statistics.power import seeds_to_settle
from creditscope.verdict import Finding, Measurement, Status

Answers = NDArray[numpy.bool_]  # (seeds, images)


def depth_margin(trained: Answers, control: Answers, protocol: str) -> Finding:
    """D3 of the trained networks against one control, both over the same seeds and images."""
    return from_answers(trained, control, variant=protocol_named(protocol).variants.get("D3", ""))


def over_all_seeds(reports: Sequence[Report], seeds: tuple[int, ...], depth: Finding | None) -> Report:
    """One report for all seeds: D3 as given, every other finding by those of each seed, measures as medians."""
    first = reports[0]
    if len(reports) == 1:
        return first
    codes = sorted({code for report in reports for code in report.findings}, key=natural_key)
    findings = {code: over_seeds([report.findings.get(code) for report in reports]) for code in codes}
    if depth is not None:
        findings["D3"] = depth
    measures = {
        name: _over_seeds([report.measures[name] for report in reports])
        for name in first.measures
        if all(name in report.measures for report in reports)
    }
    controls = [report.control_accuracy for report in reports]
    return first.model_copy(
        update={
            "accuracy": tuple(share for report in reports for share in report.accuracy or ()),
            "control_accuracy": tuple(share for shares in controls for share in shares or ()) or None,
            "findings": findings,
            "measures": measures,
            "verdict": judge(protocol_named(first.protocol), findings),
            "provenance": first.provenance.model_copy(
                update={"seeds": seeds, "control_seeds": seeds if controls[0] is not None else ()}
            ),
        }
    )


def seeds_needed(depth: Finding | None, trained: Sequence[float], control: Sequence[float], images: int) -> int | None:
    """Seeds per arm that would settle an undecided D3; None where it is settled, or with a single seed."""
    if depth is None or depth.status is not Status.UNDECIDED or len(trained) < 2:
        return None
    return seeds_to_settle(trained, control, depth.limit.at, images)


def margins(answers: Mapping[str, Answers], protocol: str) -> dict[str, Finding]:
    """D3 of the trained networks against every control, by its name."""
    trained = answers["trained"]
    return {name: depth_margin(trained, own, protocol) for name, own in answers.items() if name != "trained"}


def _over_seeds(measures: Sequence[Measurement]) -> Measurement:
    """The median over seeds of a measure, layer by layer."""
    value, per_layer = medians(measures)
    note = "; ".join(part for part in (f"median over {counted(len(measures), 'seed')}", measures[0].note) if part)
    return replace(measures[0], value=value, per_layer=per_layer, note=note)
