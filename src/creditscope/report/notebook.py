"""A report or a monitor in a notebook: a small table, escaped, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from creditscope.records.labels import counted
from creditscope.records.report import Report
from creditscope.report.headline import headline
from creditscope.report.history import Epoch, measured_codes
from creditscope.report.numbers import firing_side, value
from creditscope.verdict import Finding, Status

TONES = {"pass": "#1a7f37", "fail": "#b42318", "inconclusive": "#8a6d00", "control": "#57606a"}
STATUS = {Status.FIRES: "#b42318", Status.PASS: "#1a7f37"}


def fragment(report: Report) -> str:
    """The verdict of a report and one line per diagnostic that was measured."""
    rows = [
        (finding.code, finding.title, _status(finding), escape(value(finding)), escape(firing_side(finding)))
        for finding in report.findings.values()
        if finding.status is not Status.SKIPPED
    ]
    body = _table(("", "diagnostic", "status", "value", "fires"), [tuple(map(str, row)) for row in rows], escaped=2)
    skipped = ", ".join(f.code for f in report.findings.values() if f.status is Status.SKIPPED)
    return (
        f"<div>{_heading(report.subject.name, str(report.verdict), TONES[report.verdict.outcome])}"
        f"<p>{escape(headline(report))}</p>{body}"
        f"{f'<p>Not measured: {escape(skipped)}.</p>' if skipped else ''}</div>"
    )


def history(title: str, rows: Sequence[Epoch], stop: bool) -> str:
    """One line per epoch, with the diagnostics that were measured in any of them."""
    codes = measured_codes(rows)
    lines = [
        (
            str(epoch),
            "-" if accuracy is None else f"{100 * accuracy:.1f} %",
            *(_coloured(value(findings[code]), STATUS.get(findings[code].status, "")) for code in codes),
        )
        for epoch, accuracy, findings in rows
    ]
    summary = "stop: a failure mode is shown" if stop else counted(len(rows), "epoch")
    tone = TONES["fail" if stop else "pass"]
    return f"<div>{_heading(title, summary, tone)}{_table(('epoch', 'accuracy', *codes), lines, escaped=2)}</div>"


def _heading(title: str, summary: str, tone: str) -> str:
    return f"<p><b>{escape(title)}</b> &nbsp; {_coloured(summary, tone)}</p>"


def _status(finding: Finding) -> str:
    return _coloured(str(finding.status), STATUS.get(finding.status, ""))


def _coloured(text: str, colour: str) -> str:
    return f'<span style="color: {colour}; font-weight: bold">{escape(text)}</span>' if colour else escape(text)


def _table(headings: Iterable[str], rows: Iterable[Sequence[str]], escaped: int) -> str:
    """A table; cells before column `escaped` are text, the others are made here."""
    head = "".join(f"<th>{escape(text)}</th>" for text in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell if at >= escaped else escape(cell)}</td>" for at, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
