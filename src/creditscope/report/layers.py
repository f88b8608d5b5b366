"""Columns of the table per layer: one for every finding and measure with a number per state or per block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from creditscope.records.report import Report
from creditscope.registry import natural_key
from creditscope.report.reading import carrying
from creditscope.verdict import CLAMPED, Limit, Measurement, Reason, Status, reference_collapsed

# Titles of the known measures, in the order of their columns; other numbers follow under their own names.
STREAM = "hidden_norm"
HEADINGS = {
    "hidden_norm": "‖h‖",
    "gamma": "Γ",
    "gamma_clamped": "Γ clamped",
    "label_dependence": "Γ by labels",
    "gamma_update": "Γ^W",
    "gamma_update_null": "Γ^W null",
    "gamma_own": "Γ own ref.",
    "gamma_update_own": "Γ^W own ref.",
    "rho": "ρ",
    "rho_bp": "ρ of BP",
    "rho_absolute": "ρ absolute",
    "nudge": "nudge",
    "nudge_absolute": "nudge abs.",
    "rho_absolute_bp": "ρ abs. of BP",
    "weight_drift": "drift of W",
    "gradient_norm": "‖g‖",
    "gain": "gain ‖g_L‖/‖e‖",
    "gamma_clamped_mean": "Γ as usually reported",
    "gamma_update_whole": "Γ^W as usually reported",
    "gamma_null": "Γ of the null",
    "gamma_null_std": "std of the null",
    "gamma_random": "Γ of random vectors",
    "bridge_residual": "bridge residual",
    "gamma_noise": "Γ of a correct estimate",
    "feedback_angle": "angle of B to W",
}
ELSEWHERE = ("gradient_norm", "gamma_null", "gamma_null_std", "gamma_random")  # shown by D2 and D6
WHY_GATED = "invalid, because the reference gradient lies below the clamp or the step is absolute (D2)"


@dataclass(frozen=True, slots=True)
class Column:
    """One number per state h_0..h_L; a block's number stands beside the state that the block makes."""

    key: str
    heading: str
    cells: tuple[float | None, ...]
    past: tuple[bool, ...]  # beyond the limit of a diagnostic that fires
    gated: bool = False  # not interpretable: `WHY_GATED`


def telling_columns(report: Report) -> list[Column]:
    """The columns that matter, most important first: ‖h‖, ‖g‖, Γ, those that the verdict rests on, those that fire.

    Without credit at the states Γ^W stands for Γ. A method's own reference follows.
    """
    every = {column.key: column for column in columns(report)}
    fires = [code for code, finding in report.findings.items() if finding.status is Status.FIRES]
    aligned = ("gamma" if "gamma" in report.measures else "gamma_update", "gamma_own", "gamma_update_own")
    keys = dict.fromkeys((STREAM, "D2", *aligned, *carrying(report), *fires))
    return [every[key] for key in keys if key in every]


def arranged(report: Report, chosen: Iterable[Column]) -> list[Column]:
    """Some columns in the order of the whole table."""
    keys = {column.key for column in chosen}
    return [column for column in columns(report) if column.key in keys]


def columns(report: Report) -> list[Column]:
    """The stream, then the findings in order of their codes, then the other measures."""
    states = report.subject.depth + 1
    result = []
    for key, heading, measurement, bound in _layered(report):
        cells: tuple[float | None, ...] = measurement.per_layer
        if measurement.axis == "block":
            cells = (None, *cells)
        if len(cells) != states or not measurement.per_layer:
            continue
        past = tuple(bound is not None and cell is not None and bound.past(cell) for cell in cells)
        result.append(Column(key, heading, cells, past, gated(report, key)))
    return result


def measure_title(key: str) -> str:
    """The title of a measure; one that is not listed is called by its key."""
    return HEADINGS.get(key, key.replace("_", " "))


def collapsed(report: Report) -> bool:
    """Whether the reference gradient lies below the clamp, so that clamped cosines and absolute steps are invalid."""
    return reference_collapsed(report.findings)


def gated(report: Report, key: str) -> bool:
    """Whether a number must not be read: a clamped cosine or absolute step below the clamp, or a gated finding."""
    if key in report.findings:
        return report.findings[key].reason is Reason.GATED
    return key in CLAMPED and collapsed(report)


def scale_bars(report: Report, room: int) -> list[str]:
    """One bar per state: decades of ‖h‖ above the smallest state; empty if there is nothing to draw.

    A quarter of a decade is one sign, less where the room is too small.
    """
    norms = report.measures.get("hidden_norm", Measurement(math.nan)).per_layer
    decades = [math.log10(norm) if math.isfinite(norm) and norm > 0 else math.nan for norm in norms]
    known = [decade for decade in decades if not math.isnan(decade)]
    if len(known) < 2 or room < 8 or len(norms) != report.subject.depth + 1:
        return []
    lowest, range_ = min(known), max(known) - min(known)
    per_decade = min(4.0, (room - 1) / range_) if range_ else 4.0
    return ["" if math.isnan(decade) else "▪" * (1 + round((decade - lowest) * per_decade)) for decade in decades]


def _layered(report: Report) -> Iterator[tuple[str, str, Measurement, Limit | None]]:
    """Key, heading, numbers and the limit of a diagnostic that fires."""
    if STREAM in report.measures:
        yield STREAM, HEADINGS[STREAM], report.measures[STREAM], None
    for code in sorted(report.findings, key=natural_key):
        finding = report.findings[code]
        if finding.measurement is not None and finding.column:
            judged = finding.status is Status.FIRES and finding.limits_layers
            yield code, finding.column, finding.measurement, finding.limit if judged else None
    known = [key for key in HEADINGS if key in report.measures]
    for key in dict.fromkeys((*known, *report.measures)):
        if key != STREAM and key not in ELSEWHERE:
            yield key, measure_title(key), report.measures[key], None
