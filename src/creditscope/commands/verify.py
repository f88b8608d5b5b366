"""`creditscope verify`: check that a report is what an audit wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from creditscope.commands import command, say, width

MEANING = {
    "holds": "The report is consistent with its hash.",
    "differs": "The report was changed after the audit, or was not written by creditscope. Do not rely on it.",
    "not known": "The report could not be verified completely. What could be checked is consistent.",
}


@command("verify")
def verify(
    report: Annotated[
        Path,
        typer.Argument(
            metavar="REPORT", help="A report as JSON or HTML, or the record or folder of a run.", show_default=False
        ),
    ],
    published: Annotated[
        str | None,
        typer.Option("--hash", metavar="DIGITS", help="The hash that was published, its first 8 digits or more."),
    ] = None,
) -> int:
    """Check that a report is what an audit wrote: its content hash, its findings, its verdict.

    Exit code 0 everything holds, 1 something differs, 3 something could not be checked, 2 for bad input.

    Example: `creditscope verify report.json --hash 3f9a1c20b4d7e6f1`
    """
    from creditscope.auditing.verification import verify as checked
    from creditscope.report.layout import wrapped

    result = checked(report, published)
    columns = width()
    lines = [f"{result.report.subject.name}: {result.report.verdict}", ""]
    for check in result.checks:
        first, *rest = wrapped(check.text, max(columns - 28, 20))
        lines += [f"{check.name:<15} {check.outcome:<10} {first}", *(" " * 27 + line for line in rest)]
    closing = [MEANING[result.outcome]]
    if published is None and result.outcome == "holds":
        closing.append(
            "Whoever edits a file can compute its hash again: compare it with the one that the author published "
            f"(--hash). This report has {result.content_hash}."
        )
    lines += ["", *(line for text in closing for line in wrapped(text, columns))]
    say("\n".join(lines))
    return result.exit_code
