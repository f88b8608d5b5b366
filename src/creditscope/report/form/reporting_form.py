"""The reporting form of an audit: every line that a paper owes its readers, filled from the records, never typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from creditscope.records.report import Report
from creditscope.report.form.entries import Entry, entry
from creditscope.report.form.pitfalls import Pitfall, pitfalls
from creditscope.report.numbers import accuracy, interval, limit, number, value
from creditscope.report.views import AuditView

UNKNOWN = "not recorded"


@dataclass(frozen=True, slots=True)
class Form:
    """Headings with their answers, and the checklist."""

    lines: tuple[tuple[str, str], ...]
    pitfalls: tuple[Pitfall, ...]


def form(shown: AuditView) -> Form:
    """The filled form of one audit; what the records do not know is said to be missing."""
    report = shown.report
    spec: Mapping[str, Any] = shown.run.spec if shown.run is not None else {}
    lines = [*_setting(spec, report), *(_results(report) if report is not None else ())]
    if report is not None and report.subject.notes:
        lines.append(("Notes", report.subject.notes))
    return Form(tuple(lines), tuple(pitfalls(report)) if report is not None else ())


def _setting(spec: Mapping[str, Any], report: Report | None) -> Iterator[tuple[str, str]]:
    """What was trained, on what, from which seeds."""
    method = entry("method", str(spec.get("method", "")))
    network = entry("network", str(spec.get("network", "")))
    yield "Method", _named(spec, "method", method) + (f" + penalty {spec['penalty']:g}" if spec.get("penalty") else "")
    yield "Credit", (method.formula or method.summary) if spec.get("method") else UNKNOWN
    model = f"{report.subject.model}, {report.subject.depth} blocks" if report is not None else UNKNOWN
    yield "Architecture", _named(spec, "network", network) if spec.get("network") else model
    yield "Terminal LayerNorm", _terminal(spec, network)
    yield "Dataset", _named(spec, "data", Entry())
    seeds = report.provenance.seeds if report is not None else ()
    seeds = seeds or ((spec["seed"],) if "seed" in spec else ())
    yield "Seeds", ", ".join(map(str, seeds)) or UNKNOWN
    yield "Feedback", _feedback(spec, method)
    if "epochs" in spec:
        recipe = "AdamW, {epochs} epochs, batch {batch_size}, learning rate {learning_rate:g}, decay {weight_decay:g}"
        yield "Recipe", recipe.format_map(spec)


def _named(spec: Mapping[str, Any], kind: str, known: Entry) -> str:
    """A name with its options, defaults included."""
    if not spec.get(kind):
        return UNKNOWN
    options = known.defaults | dict(spec.get(f"{kind}_options", {}))
    told = ", ".join(f"{name} = {option}" for name, option in options.items())
    return str(spec[kind]) + (f" ({told})" if told else "")


def _terminal(spec: Mapping[str, Any], network: Entry) -> str:
    options = network.defaults | dict(spec.get("network_options", {}))
    if "terminal_ln" in options:
        return "yes" if options["terminal_ln"] else "no"
    if not network.summary:
        return UNKNOWN
    return "yes" if "LayerNorm" in network.summary.rpartition("|")[2] else "no"


def _feedback(spec: Mapping[str, Any], method: Entry) -> str:
    """Seed and distribution; the formula of a rule says whether it has random feedback at all."""
    if not spec.get("method"):
        return UNKNOWN
    if "~" not in method.formula:
        return "none that is drawn at random" if method.summary else UNKNOWN
    start = method.formula.index("B") if "B" in method.formula else 0
    return f"drawn once from seed {spec.get('seed', UNKNOWN)}; {method.formula[start:]}"


def _results(report: Report) -> Iterator[tuple[str, str]]:
    """Accuracies, alignment and diagnostics, layer by layer."""
    origin = report.provenance
    yield "Accuracy", _accuracy(report.accuracy, origin.images)
    yield "Frozen-blocks accuracy", _accuracy(report.control_accuracy, origin.images)
    yield "Measured on", f"{origin.images:,} images in {origin.batches} batches, {origin.dtype} on {origin.device}"
    gamma = report.measures.get("gamma")
    if gamma is None or not gamma.per_layer:
        yield "Γ per layer", gamma.note if gamma is not None and gamma.note else "no credit signal was examined"
    else:
        yield "Γ per layer", f"{_layers(gamma.per_layer)}; {gamma.note}"
    for code in ("D1", "D2", "D3", "D4"):
        if code in report.findings:
            finding = report.findings[code]
            told = [f"{value(finding)}, fires {limit(finding.limit)}: {finding.status}"]
            told += [f"per layer {_layers(finding.per_layer)}"] if finding.per_layer else []
            told += [f"per seed {_layers(finding.per_seed)}"] if finding.per_seed else []
            told += [part for part in (interval(finding), finding.note) if part]
            yield f"{code} {finding.title.lower()}", "; ".join(told)
    firing = (finding for finding in report.findings.values() if finding.status == "fires")
    yield "Flags", ", ".join(f"{finding.code} {finding.title.lower()}" for finding in firing) or "none"
    yield "Verdict", f"{report.verdict} under protocol {report.protocol}. {report.verdict.why}"


def _layers(values: tuple[float, ...]) -> str:
    return " ".join(number(value) for value in values)


def _accuracy(shares: tuple[float, ...] | None, images: int) -> str:
    """Mean ± standard deviation with the 95 % t-interval; one seed has only its test images to go by."""
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
