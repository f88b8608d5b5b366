"""Report formats: one file and one decorator add one; commands choose a format by its name or by a file's suffix.

The files here import their renderers when they are called: neither altair nor jinja2 is needed to print a text page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from creditscope.errors import InvalidInput
from creditscope.files import write_text
from creditscope.registry import Registry
from creditscope.report.views import AuditView
from creditscope.terminal import printable

Render = Callable[[AuditView], str]
RenderAll = Callable[[Sequence[AuditView]], str]
WriteFolder = Callable[[Sequence[AuditView], Path, str], Path]  # the views, the folder, a title -> the file to open
RenderScreen = Callable[[AuditView, int, bool], str]  # the view, the width in columns, whether colours are wanted


@dataclass(frozen=True, slots=True)
class ReportFormat:
    """One way to write audits.

    render    one audit as the text of a file
    several   a list of audits as one text; without it, their texts one after another
    folder    a list of audits as a folder of files; a format with it keeps one audit per file
    screen    one audit for a terminal of some width, where that differs from the file
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    render: Render
    several: RenderAll | None = None
    folder: WriteFolder | None = None
    screen: RenderScreen | None = None

    @property
    def summary(self) -> str:
        """Title and file endings in one line."""
        return f"{self.title} ({', '.join(self.suffixes)})" if self.suffixes else self.title

    def text(self, views: Sequence[AuditView]) -> str:
        """The audits as one text."""
        if len(views) == 1:
            return self.render(views[0])
        if self.several is not None:
            return self.several(views)
        if self.folder is not None:
            raise InvalidInput(
                f"There are {len(views)} audits, and format {self.name} puts each on a page of its own.\n"
                f"One file cannot hold them. Give a folder: --out pages --format {self.name}."
            )
        return "\n".join(self.render(view) for view in views)

    def on_screen(self, views: Sequence[AuditView], width: int, *, colour: bool) -> str:
        """The audits as a terminal shows them."""
        if self.screen is None:
            return printable(self.text(views))
        return "\n\n".join(self.screen(view, width, colour) for view in views)

    def write(self, views: Sequence[AuditView], path: Path | str, title: str = "Audits") -> Path:
        """Write the audits to a file, or into a folder where the format has one; the path of the file to open."""
        path = Path(path)
        if self.folder is not None and path.suffix.lower() not in self.suffixes:
            return self.folder(views, path, title)
        return write_text(path, self.text(views))


formats: Registry[ReportFormat] = Registry("format", __name__)


def report_format(
    name: str,
    *,
    title: str,
    suffixes: tuple[str, ...],
    several: RenderAll | None = None,
    folder: WriteFolder | None = None,
    screen: RenderScreen | None = None,
) -> Callable[[Render], Render]:
    """Register a function AuditView -> text as the format `name` for files that end in one of `suffixes`."""

    def enter(render: Render) -> Render:
        formats.add(name, ReportFormat(name, title, suffixes, render, several, folder, screen))
        return render

    return enter


def format_of(path: Path | str, name: str | None = None) -> ReportFormat:
    """The format of that name; without a name, the one that owns the suffix of the path."""
    if name is not None:
        return formats[name]
    suffix = Path(path).suffix.lower()
    owners = [entry for entry in formats.values() if suffix in entry.suffixes]
    if len(owners) == 1:
        return owners[0]
    if owners:
        raise InvalidInput(
            f"{path} could be written in more than one format: {', '.join(entry.name for entry in owners)}.\n"
            "The suffix does not decide between them. Give --format."
        )
    known = ", ".join(f"{entry.name} ({' '.join(entry.suffixes)})" for entry in formats.values() if entry.suffixes)
    raise InvalidInput(
        f"{path} has no suffix that belongs to a report format.\n"
        f"Nothing was written. Give --format or one of these suffixes: {known}."
    )
