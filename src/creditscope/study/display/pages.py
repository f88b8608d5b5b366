"""The HTML pages of a study: every finished run, judged beside its frozen control."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from creditscope.protocols import DEFAULT
from creditscope.report.charts.margins import Decision
from creditscope.report.html.study import write_study
from creditscope.report.study_views import judged_views
from creditscope.study.plan import Plan
from creditscope.study.store import Store
from creditscope.study.tables import AuditRow

MOST_SHOWN = 200  # runs with a page, a line and marks of their own; more make a page that nobody waits for


def study_pages(
    runs: Plan,
    store: Store,
    rows: Sequence[AuditRow],
    title: str,
    folder: Path,
    *,
    protocol: str = DEFAULT,
    decisions: Sequence[Decision] = (),
) -> Path:
    """Write the pages into a folder, and return that of the whole study; rows without a finished run are left out.

    Of a large study some runs of every method are shown; its methods, margins and counts are still those of all runs.
    """
    finished = [row for row in rows if row.seeds]
    shown = shown_keys(finished, MOST_SHOWN)
    records = {key: store.record(key) for key in runs if key in shown}
    views = judged_views(records, finished, protocol)
    return write_study(folder, views, title=title, rows=finished, decisions=decisions)


def shown_keys(rows: Sequence[AuditRow], most: int) -> set[str]:
    """The runs of a page: all, or the first seeds of every method and control, or of methods at equal distances."""
    shown: set[str] = set()
    for place in range(max((len(row.seeds) for row in rows), default=0)):
        keys = [row.seeds[place].key for row in rows if place < len(row.seeds)]
        room = most - len(shown)
        shown.update(keys if len(keys) <= room else (keys[index * len(keys) // room] for index in range(room)))
    return shown
