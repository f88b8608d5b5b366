"""Text: the page that a terminal shows."""

from __future__ import annotations

from creditscope.report.formats import report_format
from creditscope.report.text import page
from creditscope.report.views import AuditView
from creditscope.terminal import printable


def screen(view: AuditView, width: int, colour: bool) -> str:
    """The page in the width of a terminal, with colours if it wants them."""
    return page(view.report, width, colour) if view.report is not None else printable(f"{view.title}: {view.verdict}")


@report_format("text", title="Plain text, as a terminal shows it", suffixes=(".txt",), screen=screen)
def text(view: AuditView) -> str:
    """The page in 80 columns without colours."""
    return screen(view, 80, False) + "\n"
