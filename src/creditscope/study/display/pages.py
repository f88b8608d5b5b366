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
    """Write the pages into a folder, and return that of the whole study; rows without a finished run are left out."""
    records = {key: store.record(key) for key in runs if store.record_path(key) is not None}
    finished = [row for row in rows if row.seeds]
    views = judged_views(records, finished, protocol)
    return write_study(folder, views, title=title, rows=finished, decisions=decisions)
