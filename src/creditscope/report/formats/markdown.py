"""Markdown: the audit for a README or a rebuttal on GitHub."""

from __future__ import annotations

from creditscope.report.formats import report_format
from creditscope.report.markdown import document
from creditscope.report.views import AuditView


@report_format("markdown", title="GitHub Markdown: claim card, findings, layers, form", suffixes=(".md", ".markdown"))
def markdown(view: AuditView) -> str:
    """Claim card, findings, layers and the reporting form."""
    return document(view)
