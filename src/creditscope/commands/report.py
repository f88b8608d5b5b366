"""Look at audits again: as a page, as figures for a paper, as LaTeX, as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from creditscope.commands import coloured, command, say, width
from creditscope.commands import options as words
from creditscope.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from creditscope.report.charts.margins import Decision
    from creditscope.report.views import AuditView
    from creditscope.study.plan import Plan
    from creditscope.study.store import Store
    from creditscope.study.tables import AuditRow

Source = Annotated[
    Path, typer.Argument(metavar="FOLDER|FILE", help="The JSON of a report or run, the folder of a run, or a store.")
]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="PATH", help="One page for one audit, a folder of pages for several.")
]
Figures = Annotated[Path | None, typer.Option("--figures", metavar="FOLDER", help="Every chart as a file.")]
Form = Annotated[str, typer.Option("--format", metavar="pdf|svg|png", help="Of the figures.")]
Latex = Annotated[str | None, typer.Option("--latex", metavar="FILE", help="Tables and reporting form; - prints.")]
Markdown = Annotated[str | None, typer.Option("--markdown", metavar="FILE", help="The same for GitHub; - prints.")]


@command("report")
def report(
    source: Source,
    html: Html = None,
    figures: Figures = None,
    format: Form = "pdf",
    latex: Latex = None,
    markdown: Markdown = None,
) -> int:
    """Show audits that are there already; nothing is measured or trained, and torch is not needed.

    Without an option the text page of every audit is printed.

    Example: `creditscope report runs/dfa --html dfa.html --latex dfa.tex`
    """
    from creditscope.report.views import gather

    shown = gather(source)
    if html is not None:
        say(f"wrote {_pages(shown, html, source)}")
    if figures is not None:
        from creditscope.report.charts.figures import write_figures
        from creditscope.report.charts.inputs import ChartInputs

        for path in write_figures(ChartInputs(shown), figures, format):
            say(f"wrote {path}")
    write_texts(shown, latex, markdown)
    if all(given is None for given in (html, figures, latex, markdown)):
        _texts(shown)
    return 0


def _pages(shown: Sequence[AuditView], path: Path, source: Path) -> Path:
    """One page for one view, unless a folder was asked for; a folder of pages for several."""
    if len(shown) == 1 and not path.is_dir() and path.suffix.lower() in (".html", ".htm"):
        from creditscope.report.html.audit import write_page

        return write_page(shown[0], words.writable(path))
    if path.suffix.lower() in (".html", ".htm"):
        raise InvalidInput(
            f"{source} holds {len(shown)} audits, {path} is one file.\n"
            "Each audit has a page of its own. Give a folder: --html pages."
        )
    from creditscope.report.html.study import write_study

    return write_study(path, shown, title=source.resolve().name)


def write_texts(shown: Sequence[AuditView], latex: str | None, markdown: str | None) -> None:
    """LaTeX and Markdown of every view, into files or, for -, to standard output."""
    from creditscope.files import write_text
    from creditscope.report.latex.document import document as as_latex
    from creditscope.report.markdown import document as as_markdown

    for target, document in ((latex, as_latex), (markdown, as_markdown)):
        if target is None:
            continue
        text = "\n".join(document(view) for view in shown)
        say(text.rstrip("\n") if target == "-" else f"wrote {write_text(target, text)}")


def _texts(shown: Sequence[AuditView]) -> None:
    from creditscope.report.text import page

    for view in shown:
        told = f"{view.title}: not audited" if view.report is None else page(view.report, width(), coloured())
        say(told if len(shown) == 1 else f"{told}\n")


def study_pages(
    runs: Plan,
    store: Store,
    rows: Sequence[AuditRow],
    title: str,
    folder: Path,
    *,
    decisions: Sequence[Decision] = (),
) -> Path:
    """The pages of a study: every finished run, judged beside its twin."""
    from creditscope.report.html.study import write_study
    from creditscope.report.study_views import joined

    records = {key: store.record(key) for key in runs if store.record_path(key) is not None}
    finished = [row for row in rows if row.seeds]
    return write_study(folder, joined(records, finished), title=title, rows=finished, decisions=decisions)
