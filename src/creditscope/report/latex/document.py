"""A report for an appendix: findings, layers and the reporting form as booktabs tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from creditscope.records.report import Report
from creditscope.report.claim_card import claim_card
from creditscope.report.form.reporting_form import form
from creditscope.report.headline import headline
from creditscope.report.latex.escaping import escaped
from creditscope.report.layers import WHY_GATED, Column, columns
from creditscope.report.numbers import distance, firing_side, number, value
from creditscope.report.reading import advisory
from creditscope.report.views import AuditView

NEEDS = "% Needs \\usepackage{booktabs} and, with older LaTeX, \\usepackage[utf8]{inputenc}."
WIDE = 6  # columns of layers beside each other; more make a second table


def document(view: AuditView) -> str:
    """An audit and the facts of its run."""
    parts = [NEEDS]
    if view.report is not None:
        parts += [card(view.report), findings(view.report), *layers(view.report)]
    return "\n\n".join([*parts, reporting_form(view)]) + "\n"


def card(report: Report) -> str:
    """The claim card: one line."""
    claim = claim_card(report)
    return (
        f"\\noindent\\fbox{{\\parbox{{0.97\\linewidth}}{{\\textbf{{{escaped(claim.name)}}}: claimed "
        f"{escaped(claim.claimed)}. Audited: \\textbf{{{escaped(claim.audited)}}}.}}}}"
    )


def findings(report: Report) -> str:
    """One line per diagnostic."""
    body = [
        (
            f"{escaped(finding.code)}{'*' if advisory(report, finding.code) else ''}",
            escaped(finding.title),
            escaped(value(finding)),
            escaped(firing_side(finding)),
            f"\\textbf{{{finding.status}}}" if finding.status == "fires" else str(finding.status),
            escaped(distance(finding)),
        )
        for finding in report.findings.values()
    ]
    caption = f"{escaped(report.subject.name)}: {escaped(str(report.verdict))}. {escaped(headline(report))}"
    stars = " *~advisory." if any(advisory(report, code) for code in report.findings) else ""
    heads = ("", "Diagnostic", "Value", "Fires", "Status", "Margin")
    return floating(caption + stars, tabular("llrlll", heads, body))


def layers(report: Report) -> Iterator[str]:
    """Every number per layer, in as many tables as fit the page."""
    layered = columns(report)
    for start in range(0, len(layered), WIDE):
        some = layered[start : start + WIDE]
        body = [(str(layer), *(_cell(column, layer) for column in some)) for layer in range(report.subject.depth + 1)]
        grey = f" In brackets: {WHY_GATED}." if any(c.gated for c in some) else ""
        heads = ("Layer", *(escaped(column.heading) for column in some))
        caption = f"{escaped(report.subject.name)}, layer by layer.{grey}"
        yield floating(caption, tabular("r" * len(heads), heads, body))


def _cell(column: Column, layer: int) -> str:
    cell = column.cells[layer]
    text = escaped("" if cell is None else number(cell))
    if column.gated and text:
        return f"({text})"
    return f"\\textbf{{{text}}}" if column.past[layer] else text


def reporting_form(view: AuditView) -> str:
    """The filled form and the checklist."""
    filled = form(view)
    lines = [(f"\\textbf{{{escaped(head)}}}", escaped(text)) for head, text in filled.lines]
    ticks = [
        (escaped(line.name), f"{'avoided' if line.avoided else 'not avoided'}: {escaped(line.how)}")
        for line in filled.pitfalls
    ]
    columns_ = "p{0.28\\linewidth}p{0.66\\linewidth}"
    parts = [floating(f"Reporting form: {escaped(view.title)}.", tabular(columns_, (), lines))]
    if ticks:
        parts.append(floating(f"Pitfalls: {escaped(view.title)}.", tabular(columns_, (), ticks)))
    return "\n\n".join(parts)


def tabular(kinds: str, heads: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A booktabs table; its cells are LaTeX already."""
    lines = [" & ".join(cells) + r" \\" for cells in body]
    top = [" & ".join(heads) + r" \\", r"\midrule"] if heads else []
    return "\n".join(
        [f"\\begin{{tabular}}{{@{{}}{kinds}@{{}}}}", r"\toprule", *top, *lines, r"\bottomrule", r"\end{tabular}"]
    )


def floating(caption: str, inside: str, label: str = "") -> str:
    """A table that LaTeX places, with its caption and, where one is given, its label."""
    mark = f"\\label{{{label}}}" if label else ""
    return f"\\begin{{table}}[htbp]\n\\centering\\small\n\\caption{{{caption}}}{mark}\n{inside}\n\\end{{table}}"
