"""Full text: the page of a terminal with every finding, every column and every other number."""

from __future__ import annotations

from creditscope.report.formats import report_format
from creditscope.report.text import page
from creditscope.report.views import AuditView
from creditscope.terminal import printable


def screen(view: AuditView, width: int, colour: bool) -> str:
    """The whole page in the width of a terminal."""
    return (
        page(view.report, width, colour, full=True)
        if view.report is not None
        else printable(f"{view.title}: {view.verdict}")
    )


@report_format("full", title="Plain text with every finding, column and number", suffixes=(), screen=screen)
def full(view: AuditView) -> str:
    """The whole page in 80 columns without colours."""
    return screen(view, 80, False) + "\n"
