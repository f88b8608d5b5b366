"""A report for a README or a rebuttal: claim card, findings, layers and the reporting form as GitHub Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from creditscope.records.report import Report
from creditscope.report.claim_card import claim_card
from creditscope.report.form.reporting_form import form
from creditscope.report.headline import headline
from creditscope.report.layers import WHY_GATED, Column, columns
from creditscope.report.numbers import distance, firing_side, interval, number, value
from creditscope.report.reading import advisory, not_meant, remedies
from creditscope.report.updates import own_reference
from creditscope.report.views import AuditView
from creditscope.terminal import printable
from creditscope.verdict import Finding

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
MARKS = {"pass": "✅", "fail": "❌", "inconclusive": "❔", "control": "⚖️"}


def escaped(text: str) -> str:
    """Text that Markdown shows as it is: nothing in it is markup, a link, HTML or the end of a cell."""
    return " ".join(SPECIAL.sub(r"\\\1", printable(text)).split())


def prose(text: str) -> str:
    """A sentence as Markdown: what stands between two backticks stays code, everything else is escaped."""
    parts = " ".join(printable(text).split()).split("`")
    if len(parts) % 2 == 0 or "``" in text:
        return escaped(text)
    return "".join(f"`{part}`" if place % 2 else SPECIAL.sub(r"\\\1", part) for place, part in enumerate(parts))


def document(view: AuditView) -> str:
    """An audit and the facts of its run."""
    report = view.report
    filled = form(view)
    parts = [f"## {escaped(view.title)}"]
    if report is not None:
        parts += [
            card(report),
            f"**{escaped(str(report.verdict))}.** {escaped(headline(report))}",
            escaped(own_reference(report)),
            *(f"> ⚠️ {escaped(warning)}" for warning in report.verdict.warnings),
            table(FINDINGS, [_finding(finding, report) for finding in report.findings.values()]),
            *_layers(report),
            _listed("What to do", remedies(report)),
            _listed(f"What {report.verdict} does not mean", not_meant(report)),
        ]
    parts += ["### Reporting form", table(("", ""), [(f"**{escaped(head)}**", escaped(t)) for head, t in filled.lines])]
    ticks = (
        f"- [{'x' if line.avoided else ' '}] {escaped(line.name)}: {escaped(line.how)}" for line in filled.pitfalls
    )
    parts.append("\n".join(ticks))
    return "\n\n".join(part for part in parts if part) + "\n"


def card(report: Report) -> str:
    """The claim card: one line."""
    claim = claim_card(report)
    name, claimed, audited = (escaped(text) for text in (claim.name, claim.claimed, claim.audited))
    return f"> {MARKS[report.verdict.outcome]} **{name}** · claimed: {claimed} · audited: **{audited}**"


FINDINGS = ("", "diagnostic", "status", "value", "fires", "margin", "")


def _finding(finding: Finding, report: Report) -> tuple[str, ...]:
    notes = (interval(finding), finding.note, "advisory" if advisory(report, finding.code) else "")
    status = f"**{finding.status}**" if finding.status == "fires" else str(finding.status)
    plain = (value(finding), firing_side(finding), distance(finding), "; ".join(note for note in notes if note))
    return (escaped(finding.code), escaped(finding.title), status, *(escaped(text) for text in plain))


def _layers(report: Report) -> Iterator[str]:
    layered = columns(report)
    if layered:
        heads = ("layer", *(escaped(column.heading) for column in layered))
        layers = range(report.subject.depth + 1)
        yield table(heads, [(str(layer), *(_cell(column, layer) for column in layered)) for layer in layers])
    if any(column.gated for column in layered):
        yield f"_Struck out: {WHY_GATED}._"


def _cell(column: Column, layer: int) -> str:
    cell = column.cells[layer]
    text = escaped("" if cell is None else number(cell))
    if column.gated and text:
        return f"~~{text}~~"
    return f"**{text}**" if column.past[layer] else text


def _listed(title: str, items: Sequence[tuple[str, str]]) -> str:
    if not items:
        return ""
    lines = (f"- {'' if mark == '-' else f'**{escaped(mark)}** '}{prose(text)}" for mark, text in items)
    return "\n".join([f"### {escaped(title)}", "", *lines])


def table(heads: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table of cells that are escaped already."""
    rule = "|".join("---" for _ in heads)
    lines = ("| " + " | ".join(cells) + " |" for cells in body)
    return "\n".join(["| " + " | ".join(heads) + " |", f"|{rule}|", *lines])
