"""Checklist of seven known ways to get such numbers wrong, and how this report avoids each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from creditscope.records.report import Report

HALF = ("float16", "half")


@dataclass(frozen=True, slots=True)
class Pitfall:
    """One line of the checklist: avoided, or explained."""

    name: str
    avoided: bool
    how: str


def pitfalls(report: Report) -> Iterator[Pitfall]:
    """The checklist, each line from what the report holds."""
    aligned = "gamma" in report.measures and bool(report.measures["gamma"].per_layer)
    no_credit = "no Γ is reported"
    yield Pitfall(
        "norm(-1) is not the norm along the last axis", True, "norms are L2 along the features, medians over images"
    )
    clamp = "Γ is exact, in float64; the clamped value is shown beside it" if aligned else no_credit
    yield Pitfall("cosine_similarity clamps small norms", True, clamp)
    yield _half(report)
    saved = "credit comes from the feedback saved with the run" if aligned else no_credit
    yield Pitfall("feedback that was not saved", True, saved)
    order = "mean over images of each image's cosine, per layer" if aligned else no_credit
    yield Pitfall("the order of aggregation changes Γ", True, order)
    hidden = "Γ is given per layer; layer 0 and the deep layers are kept apart" if aligned else no_credit
    yield Pitfall("an average hides layers", True, hidden)
    nets = "auxiliary networks are saved with the run; without them Γ is not available" if aligned else no_credit
    yield Pitfall("auxiliary networks that were not saved", True, nets)


def _half(report: Report) -> Pitfall:
    name, dtype = "half precision loses small gradients", report.provenance.dtype
    if dtype not in HALF:
        return Pitfall(name, True, f"measured in {dtype}")
    precision = report.findings.get("D7")
    check = f"D7 precision: {precision.status}" if precision is not None else "the reference was not checked in float64"
    return Pitfall(name, False, f"measured in {dtype}, whose smallest number is 6e-8; {check}")
