"""Tables of the page of a study: one line per method over its seeds, and one line per run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from creditscope.registry import natural_key
from creditscope.report.html.tables import ICONS, OUTCOMES, TONES, Cell, PageTable, verdict_cell
from creditscope.report.numbers import ABSENT, accuracy, number, value
from creditscope.report.reading import advisory
from creditscope.report.study_views import Accuracies, JudgedMethod
from creditscope.report.views import AuditView
from creditscope.verdict import Finding, Verdict

NOTHING = Cell(ABSENT)
MARGIN = "D3"  # accuracy above the frozen control


def method_table(rows: Sequence[JudgedMethod], links: Mapping[str, str], judged: Sequence[str]) -> PageTable:
    """One line per method: accuracies, margin and verdict over all seeds, then every other number.

    judged   the codes that can fail a network; any other one that fires is not shown as a failure
    """
    others = sorted({code for row in rows for code in row.findings} - {MARGIN}, key=natural_key)
    lines = []
    for row in rows:
        runs = [seed.key for seed in row.seeds]
        first = links.get(runs[0], "") if len(runs) == 1 else ""
        margin, *numbers = (_over_seeds(row.findings.get(code), soft=code not in judged) for code in (MARGIN, *others))
        arms = (_accuracy(row.accuracy), _accuracy(row.control))
        lines.append((Cell(row.label, link=first), *arms, margin, _verdict(row.verdict), *numbers))
    heads = ("method", "accuracy", "frozen control", f"margin ({MARGIN})", "verdict", *others)
    caption = "Every method over its seeds: medians, with ▲ where a diagnostic fires; D3 with its 95 % interval."
    return PageTable("methods", "Methods", caption, heads, tuple(lines))


def run_table(views: Sequence[AuditView], links: Sequence[str]) -> PageTable:
    """One line per run; its name opens the page of the run."""
    reports = [view.report for view in views if view.report is not None]
    codes = sorted({code for report in reports for code in report.findings}, key=natural_key)
    lines = tuple((Cell(view.label, link=link), *_run(view, codes)) for view, link in zip(views, links, strict=True))
    heads = ("run", "seed", "verdict", "accuracy", "frozen control", *codes, "Γ layer 0", "Γ deep", "key")
    caption = (
        "Every run. Click a heading to sort by its column, a name to open the page of the run. "
        "▲ fires, ◐ undecided, – skipped."
    )
    return PageTable("runs", "Runs", caption, heads, lines)


def _run(view: AuditView, codes: Sequence[str]) -> list[Cell]:
    report = view.report
    seed = NOTHING if view.seed is None else Cell(str(view.seed), view.seed)
    own = view.run.accuracy if view.run is not None else None
    trained = report.accuracy if report is not None and report.accuracy else None if own is None else (own,)
    cells = [seed, verdict_cell(view), _share(trained), _share(report.control_accuracy if report else None)]
    findings = report.findings if report is not None else {}
    soft = {code for code in codes if report is not None and advisory(report, code)}
    cells += [_finding(findings.get(code), soft=code in soft) for code in codes]
    return [*cells, *_gamma(view), Cell(view.key or ABSENT)]


def _gamma(view: AuditView) -> tuple[Cell, Cell]:
    """Exact Γ at layer 0 and over the deep layers."""
    report = view.report
    gamma = report.measures.get("gamma") if report is not None else None
    if report is None or gamma is None or not gamma.per_layer:
        return NOTHING, NOTHING
    return Cell(number(gamma.per_layer[0]), gamma.per_layer[0]), Cell(number(gamma.value), gamma.value)


def _finding(finding: Finding | None, *, soft: bool = False) -> Cell:
    """A number with the mark of its status; an advisory diagnostic is not shown as a failure."""
    if finding is None:
        return NOTHING
    mark = "" if finding.status == "pass" else ICONS[finding.status]
    tone = "" if not mark else "open" if soft else TONES.get(finding.status, "open")
    return Cell(value(finding) if finding.value is not None else str(finding.status), finding.value, tone, mark)


def _over_seeds(finding: Finding | None, *, soft: bool) -> Cell:
    """A number over seeds; depth utility brings its interval."""
    cell = _finding(finding, soft=soft)
    if finding is None or finding.interval is None:
        return cell
    low, high = (number(end) for end in finding.interval)
    return Cell(f"{cell.text} ({low} to {high})", cell.order, cell.tone, cell.mark)


def _verdict(verdict: Verdict | None) -> Cell:
    if verdict is None:
        return Cell("control")
    mark, tone = OUTCOMES[verdict.outcome]
    return Cell(str(verdict), tone=tone, mark=mark)


def _accuracy(accuracies: Accuracies | None) -> Cell:
    return _share(accuracies.values if accuracies is not None else None)


def _share(shares: Sequence[float] | None) -> Cell:
    if not shares:
        return NOTHING
    return Cell(accuracy(tuple(shares)).replace(" over ", ", "), fmean(shares))
