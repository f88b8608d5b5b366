"""An experiment as text and LaTeX: its variants over seeds, then the report over all of them."""

from __future__ import annotations

from creditscope.records.experiment import ExperimentReport
from creditscope.report.latex.document import document, floating, tabular
from creditscope.report.latex.escaping import escaped
from creditscope.report.numbers import ABSENT, interval, per_cent, value
from creditscope.report.views import from_report
from creditscope.verdict import Status

HEADS = ("variant", "accuracy in %", "trained minus this")


def text(experiment: ExperimentReport) -> str:
    """The page over seeds, and one line per variant with its accuracies and what the trained networks add to it."""
    rows = [HEADS, *_variants(experiment)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    seeds = ", ".join(map(str, experiment.seeds))
    notes = [f"Seeds {seeds}; every network answered the same {experiment.runs[0].images:,} images."]
    if experiment.settle is not None:
        notes.append(f"About {experiment.settle} seeds per arm would settle D3, if margin and spread stay the same.")
    return "\n".join([str(experiment.report), "", *lines, *notes])


def latex(experiment: ExperimentReport) -> str:
    """A table of the variants with a label, then the document of the report."""
    body = [[escaped(cell) for cell in row] for row in _variants(experiment)]
    heads = tuple(escaped(head[0].upper() + head[1:]) for head in HEADS)
    images = experiment.runs[0].images
    caption = (
        f"{escaped(experiment.name)}: {escaped(str(experiment.verdict))}. {len(experiment.seeds)} "
        f"{'seed' if len(experiment.seeds) == 1 else 'seeds'}; mean $\\pm$ standard deviation; margins in percentage "
        f"points with 95\\,\\% intervals, paired over the same {images:,} images."
    )
    label = "tab:" + "".join(letter if letter.isalnum() else "-" for letter in experiment.name.lower())
    return f"{floating(caption, tabular('lll', heads, body), label)}\n\n{document(from_report(experiment.report))}"


def _variants(experiment: ExperimentReport) -> list[tuple[str, str, str]]:
    """Name, accuracies and margin of every variant."""
    rows = []
    for variant in experiment.variants:
        margin = experiment.margins.get(variant)
        cell = ABSENT
        if margin is not None and margin.value is not None:
            judged = "" if margin.status is Status.PASS else f", {margin.status.value}"
            cell = f"{value(margin)}, {interval(margin)}{judged}"
        rows.append((variant, per_cent(experiment.accuracy(variant)), cell))
    return rows
