"""What does a report say layer by layer?  Whatever has one number per state or per block becomes a column by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from creditscope.records.report import Report
from creditscope.verdict import Limit, Measurement, Status, reference_collapsed

# Headings of the known measures; other numbers per layer follow under their own names.
HEADINGS = {
    "hidden_norm": "‖h‖",
    "gamma": "Γ",
    "gamma_clamped": "Γ clamped",
    "rho": "ρ",
    "rho_absolute": "ρ absolute",
    "nudge": "nudge",
    "nudge_absolute": "nudge abs.",
    "rho_absolute_bp": "ρ abs. of BP",
    "weight_drift": "drift of W",
}
FIRST = ("hidden_norm", "D1", "D2", "D4", "gamma", "gamma_clamped", "D6")  # columns that lead, in this order
ELSEWHERE = ("gradient_norm", "gamma_null", "gamma_null_std", "gamma_random")  # shown by D2 and D6
GATED = ("gamma", "gamma_clamped", "gamma_clamped_mean", "D6")  # cosines with the reference gradient


@dataclass(frozen=True, slots=True)
class Column:
    """One number per state h_0..h_L; a block's number stands beside the state that the block makes."""

    key: str
    heading: str
    cells: tuple[float | None, ...]
    past: tuple[bool, ...]  # beyond the limit of a diagnostic that fires
    gated: bool = False  # not interpretable: the reference has collapsed


def columns(report: Report) -> list[Column]:
    """Every finding and measure with one number per state (L+1) or per block (L)."""
    states = report.subject.depth + 1
    found = []
    for key, heading, measurement, bound in _layered(report):
        cells: tuple[float | None, ...] = measurement.per_layer
        if measurement.axis == "block":
            cells = (None, *cells)
        if len(cells) != states or not measurement.per_layer:
            continue
        past = tuple(bound is not None and cell is not None and bound.past(cell) for cell in cells)
        found.append(Column(key, heading, cells, past, collapsed(report) and key in GATED))
    order = [*FIRST, *(key for key in HEADINGS if key not in FIRST)]
    return sorted(found, key=lambda column: order.index(column.key) if column.key in order else len(order))


def collapsed(report: Report) -> bool:
    """Whether the reference gradient has collapsed, so that cosines with it mean nothing."""
    return reference_collapsed(report.findings)


def scale_bars(report: Report, room: int) -> list[str]:
    """One bar per state: decades of ‖h‖ above the smallest state; empty if there is nothing to draw.

    A quarter of a decade is one sign, less where the room is too small.
    """
    norms = report.measures.get("hidden_norm", Measurement(math.nan)).per_layer
    decades = [math.log10(norm) if math.isfinite(norm) and norm > 0 else math.nan for norm in norms]
    known = [decade for decade in decades if not math.isnan(decade)]
    if len(known) < 2 or room < 8:
        return []
    lowest, range_ = min(known), max(known) - min(known)
    per_decade = min(4.0, (room - 1) / range_) if range_ else 4.0
    return ["" if math.isnan(decade) else "▪" * (1 + round((decade - lowest) * per_decade)) for decade in decades]


def _layered(report: Report) -> Iterator[tuple[str, str, Measurement, Limit | None]]:
    """Key, heading, numbers and the limit of a diagnostic that fires."""
    for key, measurement in report.measures.items():
        if key not in ELSEWHERE:
            yield key, HEADINGS.get(key, key.replace("_", " ")), measurement, None
    for code, finding in report.findings.items():
        if finding.measurement is not None and finding.column:
            yield code, finding.column, finding.measurement, finding.limit if finding.status is Status.FIRES else None
