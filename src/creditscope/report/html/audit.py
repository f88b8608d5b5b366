"""A report as a page: one file, no network, readable on a phone, on paper and by a screen reader."""

from __future__ import annotations

from collections.abc import Mapping

from creditscope.records.report import Report
from creditscope.report.charts.figures import figures
from creditscope.report.charts.inputs import ChartInputs
from creditscope.report.charts.series import Look
from creditscope.report.charts.theme import PAGE
from creditscope.report.claim_card import claim_card
from creditscope.report.form.reporting_form import form
from creditscope.report.headline import headline
from creditscope.report.html.page import Place, download, render
from creditscope.report.html.tables import OUTCOMES, facts, finding_views, layer_tables, measure_table, tensor_table
from creditscope.report.json_ld import claim_review
from creditscope.report.latex.document import document as latex_document
from creditscope.report.markdown import document as markdown_document
from creditscope.report.reading import left_open, not_meant, remedies, telling, the_rest
from creditscope.report.updates import own_reference
from creditscope.report.views import AuditView

ALONE = Place()
UNGIVEN: Mapping[str, Look] = {}


def page(view: AuditView, place: Place = ALONE, looks: Mapping[str, Look] = UNGIVEN) -> str:
    """The page of an audit, a run, or both; `looks` are the colours and marks of the study that it belongs to."""
    report = view.report
    inputs = ChartInputs([view], looks=looks)
    record = report if view.run is None else view.run.model_copy(update={"report": report})
    audited = {} if report is None else _audited(report)
    return render(
        "audit.html",
        place,
        view=view,
        report=report,
        figures=figures(inputs, PAGE),
        facts=list(facts(view)),
        form=form(view),
        latex=latex_document(view),
        markdown=markdown_document(view),
        download=download(record.to_json()) if record is not None else "",
        file=f"{view.key or 'report'}.json",
        **audited,
    )


def _audited(report: Report) -> dict[str, object]:
    """What only an audit has."""
    icon, tone = OUTCOMES[report.verdict.outcome]
    told = telling(report)
    codes = {finding.code for finding in told}
    others = [finding for code, finding in report.findings.items() if code not in codes]
    layers, all_layers = layer_tables(report)
    return {
        "icon": icon,
        "tone": tone,
        "claim": claim_card(report),
        "linked": claim_review(report),
        "findings": finding_views(report, told),
        "others": finding_views(report, others),
        "the_rest": the_rest(report),
        "remedies": remedies(report),
        "unsaid": not_meant(report),
        "left_open": left_open(report),
        "headline": headline(report),
        "layers": layers,
        "all_layers": all_layers,
        "tensors": tensor_table(report),
        "own_reference": own_reference(report),
        "measures": measure_table(report),
    }
