"""Brief text: three lines for an audit."""

from __future__ import annotations

from creditscope.report.formats import report_format
from creditscope.report.text import brief as three_lines
from creditscope.report.views import AuditView
from creditscope.terminal import printable


@report_format("brief", title="Three lines: verdict, sentence, codes", suffixes=())
def brief(view: AuditView) -> str:
    """Name and verdict, the verdict in words, the diagnostics by their status."""
    text = three_lines(view.report) if view.report is not None else f"{view.title}: {view.verdict}"
    return printable(text) + "\n"
