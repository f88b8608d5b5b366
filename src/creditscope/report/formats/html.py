"""HTML: one page for an audit, a folder of pages for several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from creditscope.report.formats import report_format
from creditscope.report.views import AuditView


def pages(views: Sequence[AuditView], folder: Path, title: str) -> Path:
    """A page with the tables and charts of all audits, and a page for each."""
    from creditscope.report.html.study import write_study

    return write_study(folder, views, title=title)


@report_format("html", title="Page with charts that needs no network", suffixes=(".html", ".htm"), folder=pages)
def html(view: AuditView) -> str:
    """One file with everything inside."""
    from creditscope.report.html.audit import page

    return page(view)
