"""The reporting form of an audit: the facts that a paper should report, filled in from the records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from creditscope.records.labels import counted
from creditscope.records.report import SHOWN_HASH, Report
from creditscope.report.form.pitfalls import Pitfall, pitfalls
from creditscope.report.form.setting import setting
from creditscope.report.numbers import accuracy, firing_side, interval, limit, number, value
from creditscope.report.reading import asked
from creditscope.report.views import AuditView
from creditscope.verdict import Finding

LAYER = {"state": "layer", "block": "block"}


@dataclass(frozen=True, slots=True)
class Form:
    """Headings with their answers, and the checklist."""

    lines: tuple[tuple[str, str], ...]
    pitfalls: tuple[Pitfall, ...]


def form(view: AuditView) -> Form:
    """The filled form of one audit; facts that the records do not hold are said to be missing."""
    report = view.report
    lines = [*setting(view.run, report), *(_results(report) if report is not None else ())]
    if report is not None and report.subject.notes:
        lines.append(("Notes", report.subject.notes))
    return Form(tuple(lines), tuple(pitfalls(report)) if report is not None else ())


def _results(report: Report) -> Iterator[tuple[str, str]]:
    """Accuracies, alignment and diagnostics, layer by layer."""
    origin = report.provenance
    yield "Accuracy", _accuracy(report.accuracy, origin.images)
    yield "Frozen control", _accuracy(report.control_accuracy, origin.images)
    size = f"{counted(origin.images, 'image')} in {counted(origin.batches, 'batch', 'batches')}"
    yield "Measured on", f"{size}, {origin.dtype} on {origin.device}"
    gamma = report.measures.get("gamma")
    if gamma is None or not gamma.per_layer:
        yield "Γ per layer", gamma.note if gamma is not None and gamma.note else "no credit signal was examined"
    else:
        yield "Γ per layer", f"{_layers(gamma.per_layer)}; {gamma.note}"
    for finding in asked(report):
        yield f"{finding.code} {finding.title.lower()}", "; ".join(_finding(finding))
    firing = [
        f"{code} {finding.title.lower()}" for code, finding in report.findings.items() if finding.status == "fires"
    ]
    yield "Flags", ", ".join(firing) or "none"
    yield "Verdict", f"{report.verdict} under protocol {report.protocol}. {report.verdict.why}"
    yield "Content hash", report.content_hash[:SHOWN_HASH]


def _finding(finding: Finding) -> Iterator[str]:
    """Number, limit and status, the parts of the number, its interval and its note."""
    if finding.measurement is None:
        yield f"{finding.status}, fires {limit(finding.limit)}"
    else:
        side = firing_side(finding)
        yield f"{value(finding)}, fires {side}: {finding.status}" if side else f"{value(finding)}: {finding.status}"
    if finding.measurement is not None and finding.per_layer:
        yield f"per {LAYER[finding.measurement.axis]} {_layers(finding.per_layer)}"
    if finding.per_seed:
        yield f"per seed {_layers(finding.per_seed)}"
    yield from (text for text in (interval(finding), finding.note) if text)


def _layers(values: tuple[float, ...]) -> str:
    return " ".join(number(value) for value in values)


def _accuracy(shares: tuple[float, ...] | None, images: int) -> str:
    """Mean ± standard deviation with the 95 % t-interval; for a single seed, the interval over its test images."""
    from creditscope.statistics.intervals import t_interval, wilson_interval

    if not shares:
        return "not given"
    if len(shares) > 1:
        low, high = t_interval(shares)
        return f"{accuracy(shares)}, 95 % t-interval {100 * low:.1f} to {100 * high:.1f} %"
    if not 0 <= shares[0] <= 1:
        return accuracy(shares)
    low, high = wilson_interval(shares[0], images)
    return f"{accuracy(shares)}, one seed; 95 % over {images:,} images {100 * low:.1f} to {100 * high:.1f} %"
