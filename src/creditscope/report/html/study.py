"""A study as pages: one with the tables and charts of all runs, and one per run; all share one chart library."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from creditscope.files import write_text
from creditscope.report.charts.figures import figures
from creditscope.report.charts.inputs import ChartInputs
from creditscope.report.charts.margins import Decision
from creditscope.report.charts.series import looks
from creditscope.report.charts.theme import PAGE
from creditscope.report.html.audit import page as audit_page
from creditscope.report.html.page import LIBRARY, SCRIPT, STYLE, Place, library, render, script, style
from creditscope.report.html.study_tables import method_table, run_table
from creditscope.report.html.tables import OUTCOMES, PageTable
from creditscope.report.reading import judged
from creditscope.report.study_views import JudgedMethod, JudgedRun
from creditscope.report.views import AuditView
from creditscope.verdict import Measurement

INDEX = "index.html"
FILE = re.compile(r"[0-9A-Za-z]{1,64}")
ORDER = ("pass", "fail", "inconclusive")


def write_study(
    folder: Path,
    views: Sequence[AuditView],
    *,
    title: str,
    rows: Sequence[JudgedMethod] = (),
    tables: Sequence[PageTable] = (),
    decisions: Sequence[Decision] = (),
) -> Path:
    """Write the pages of a study into a folder; return the path of the one to open.

    rows        every method over its seeds, as the study has judged it
    tables      further tables, set as they are
    decisions   which way of reporting rejects which method

    Runs of the rows that no view shows are counted, and have no page of their own.
    """
    known = {view.key for view in views}
    left_out = [(seed, row) for row in rows for seed in row.seeds if seed.key not in known]
    for name, text in ((LIBRARY, library()), (STYLE, style()), (SCRIPT, script())):
        write_text(folder / "assets" / name, text)
    links = [f"runs/{_file(view, index)}" for index, view in enumerate(views)]
    labels = {view.label for view in views}
    inputs = ChartInputs(views, _margins([row for row in rows if row.label in labels]), decisions, looks(views))
    for view, link in zip(views, links, strict=True):
        write_text(folder / link, audit_page(view, Place("../assets", f"../{INDEX}"), inputs.looks))
    by_key = {view.key: link for view, link in zip(views, links, strict=True)}
    tables = [run_table(views, links), *tables]
    if rows:
        protocols = [view.report for view in views if view.report is not None]
        tables = [method_table(rows, by_key, judged(protocols[0]) if protocols else ()), *tables]
    page = render(
        "study.html",
        Place("assets"),
        title=title,
        tally=_tally(views, left_out),
        shown=(len(views), len(views) + len(left_out)),
        tables=tables,
        figures=figures(inputs, PAGE),
        series=inputs.series,
        hidden_at_first=inputs.hidden_at_first,
    )
    return write_text(folder / INDEX, page)


def _file(view: AuditView, index: int) -> str:
    """A file name from the key of a run; anything else is not used as a path."""
    return f"{view.key if FILE.fullmatch(view.key) else f'report-{index + 1}'}.html"


def _margins(rows: Sequence[JudgedMethod]) -> Mapping[str, Measurement]:
    """Depth utility of methods with several seeds."""
    margins = {row.label: row.findings["D3"].measurement for row in rows if "D3" in row.findings and len(row.seeds) > 1}
    return {label: margin for label, margin in margins.items() if margin is not None}


def _tally(
    views: Sequence[AuditView], left_out: Sequence[tuple[JudgedRun, JudgedMethod]]
) -> list[tuple[str, str, str, int]]:
    """How many runs have which outcome, with its mark and tone."""
    controls = sum(view.is_control for view in views) + sum(row.verdict is None for _, row in left_out)
    trained = len(views) + len(left_out) - controls
    verdicts = [view.report.verdict for view in views if not view.is_control and view.report is not None]
    verdicts += [seed.verdict for seed, row in left_out if row.verdict is not None and seed.audited]
    counts: Counter[str] = Counter(verdict.outcome for verdict in verdicts)
    outcomes = [(*OUTCOMES[outcome], outcome, counts[outcome]) for outcome in ORDER if counts[outcome]]
    rest = (
        ("–", "not audited", trained - counts.total()),
        ("·", "control" if controls == 1 else "controls", controls),
    )
    return outcomes + [(mark, "grey", word, number) for mark, word, number in rest if number]
