"""Loggers: where a Monitor sends its numbers, its alarms and its final report. `Logger` is the whole protocol."""

from __future__ import annotations

import csv
import io
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from creditscope.arguments import calling
from creditscope.errors import BadFile
from creditscope.files import check_folder, write_text
from creditscope.reading import read_text
from creditscope.records.report import Report
from creditscope.report.csv_text import csv_text
from creditscope.report.numbers import limit, value
from creditscope.verdict import Finding

Log = Callable[[dict[str, float], int], object]
REPORT = "creditscope-report"
STEP = "step"


class Logger(ABC):
    """A place for numbers. Only `log` has to be written.

    log     every number of one measured epoch, by name: "creditscope/D1", "creditscope/hidden_norm/2"; where a
            diagnostic first fires also "creditscope/alarm/D1" = 1
    event   the same first firing in words, with its epoch
    report  the final report
    """

    @abstractmethod
    def log(self, scalars: dict[str, float], step: int) -> None:
        """Take the numbers of one step."""

    def event(self, finding: Finding, epoch: int, step: int) -> None:  # noqa: B027  (some places take numbers only)
        """Take the first firing of a diagnostic as an event."""

    def report(self, report: Report) -> None:  # noqa: B027
        """Take the final report as an artifact."""


def event_title(finding: Finding) -> str:
    """The first firing of a diagnostic in a few words."""
    return f"creditscope: {finding.code} {finding.title} fires"


def event_text(finding: Finding) -> str:
    """The measured value and its limit."""
    note = f"; {finding.note}" if finding.note else ""
    return f"{value(finding)} (limit {limit(finding.limit)}){note}"


@contextmanager
def report_files(report: Report) -> Iterator[Path]:
    """A temporary folder with the report as JSON and as a page."""
    with tempfile.TemporaryDirectory() as folder:
        write_report(report, Path(folder) / REPORT)
        yield Path(folder)


def write_report(report: Report, stem: Path) -> None:
    """Write the report as JSON and as a page, under a path without its suffix."""
    report.to("json", stem.with_name(f"{stem.name}.json"))
    report.to("html", stem.with_name(f"{stem.name}.html"))


class FunctionLogger(Logger):
    """A function (scalars, step), or the `log` of any object."""

    def __init__(self, function: Log) -> None:
        self._function = function

    def log(self, scalars: dict[str, float], step: int) -> None:
        """Call the function."""
        with calling("logger", "a function (scalars, step)"):
            self._function(scalars, step)


class CsvLogger(Logger):
    """A CSV file with one row per step and one column per number; the report is written beside it.

    The file is complete after every step. A run that resumes keeps the rows of the steps before it.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        check_folder(self._path.parent)
        self._before = _rows_of(self._path) if self._path.exists() else {}
        self._rows: dict[int, dict[str, str]] = {}

    def log(self, scalars: dict[str, float], step: int) -> None:
        """Add the numbers to the row of this step and write the file."""
        if not self._rows:
            self._rows = {old: row for old, row in self._before.items() if old < step}
        self._rows.setdefault(step, {}).update({name: repr(number) for name, number in scalars.items()})
        columns = dict.fromkeys(name for row in self._rows.values() for name in row)
        rows = ({STEP: str(number), **row} for number, row in sorted(self._rows.items()))
        write_text(self._path, csv_text([STEP, *columns], rows))

    def report(self, report: Report) -> None:
        """Write the report beside the file, as JSON and as a page."""
        write_report(report, self._path.with_name(f"{self._path.stem}-report"))


def _rows_of(path: Path) -> dict[int, dict[str, str]]:
    """The rows of an earlier run by their steps; a file of anything else is refused, for it would be lost."""
    rows = csv.DictReader(io.StringIO(read_text(path, "CSV file")))
    try:
        return {int(row.pop(STEP)): {name: number for name, number in row.items() if number} for row in rows}
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(
            f"{path} exists and is not the CSV file of a monitor: it has no whole number under {STEP!r} in every row.\n"
            "It would be overwritten. Choose another file."
        ) from error
