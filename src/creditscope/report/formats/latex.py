"""LaTeX: the audit for an appendix."""

from __future__ import annotations

from creditscope.report.formats import report_format
from creditscope.report.latex.document import document
from creditscope.report.views import AuditView


@report_format("latex", title="LaTeX fragment with booktabs tables and the reporting form", suffixes=(".tex",))
def latex(view: AuditView) -> str:
    """A fragment for another document; it needs booktabs."""
    return document(view)
