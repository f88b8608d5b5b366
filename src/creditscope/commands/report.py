"""`creditscope report`: audits again, in any format, and their charts for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from creditscope.commands import Plugins, coloured, command, parsing, say, width
from creditscope.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from creditscope.report.formats import ReportFormat
    from creditscope.report.views import AuditView

Source = Annotated[
    Path, typer.Argument(metavar="FOLDER|FILE", help="The JSON of a report or run, the folder of a run, or a store.")
]
Out = Annotated[
    list[Path] | None,
    typer.Option("--out", metavar="PATH", help="Write to PATH; its suffix is the format (.html, .tex). Repeatable."),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="The format, whatever the suffix: see `creditscope list formats`."),
]
Full = Annotated[bool, typer.Option("--full", help="Print every finding, column and number (--format full).")]
Brief = Annotated[bool, typer.Option("--brief", help="Print three lines per audit (--format brief).")]
Figures = Annotated[Path | None, typer.Option("--figures", metavar="FOLDER", help="Write every chart as a file.")]
FigureFormat = Annotated[str, typer.Option("--figure-format", metavar="pdf|svg|png", help="Format of the charts.")]


@command("report")
def report(
    source: Source,
    out: Out = None,
    format: Format = None,
    full: Full = False,
    brief: Brief = False,
    figures: Figures = None,
    figure_format: FigureFormat = "pdf",
    plugin: Plugins = None,
) -> int:
    """Show saved audits; nothing is measured or trained, and torch is not needed.

    Without --out and --figures the audits are printed, as text pages unless --format says otherwise.

    Example: `creditscope report runs/dfa --out dfa.html --out dfa.tex`
    """
    from creditscope.study.saved_runs import saved_views

    printed = printed_format(format, full=full, brief=brief)
    chosen = output_formats(out, format)
    views = saved_views(source)
    for path, entry in chosen.items():
        say(f"wrote {entry.write(views, path, source.resolve().name)}")
    if figures is not None:
        from creditscope.report.charts.figures import write_figures
        from creditscope.report.charts.inputs import ChartInputs

        for path in write_figures(ChartInputs(views), figures, figure_format):
            say(f"wrote {path}")
    if not chosen and figures is None:
        print_views(views, printed)
    return 0


def output_formats(out: Sequence[Path] | None, name: str | None = None) -> dict[Path, ReportFormat]:
    """The format of every file that was asked for; one that cannot be written is refused before any work."""
    from creditscope.report.formats import format_of

    chosen = {path: format_of(path, name) for path in out or ()}
    for path, entry in chosen.items():
        if entry.folder is None or path.suffix.lower() in entry.suffixes:
            parsing.writable(path)
    return chosen


def printed_format(name: str | None, *, full: bool, brief: bool) -> str | None:
    """The format to print; --full and --brief are formats of their own."""
    wanted = [word for word, given in ((name, name is not None), ("full", full), ("brief", brief)) if given]
    if len(wanted) > 1:
        raise InvalidInput(
            f"Only one of --format, --full and --brief can be printed, got {len(wanted)} of them.\n"
            "Nothing was shown. Leave one of them."
        )
    return wanted[0] if wanted else None


def print_views(views: Sequence[AuditView], name: str | None) -> None:
    """Print audits in the format of that name, text pages without one."""
    from creditscope.report.formats import formats

    say(formats[name or "text"].on_screen(views, width(), colour=coloured()).rstrip("\n"), painted=True)
