"""JSON: the report itself, as `Report.from_json` reads it."""

from __future__ import annotations

import json as standard_json
from collections.abc import Sequence

from creditscope.report.formats import report_format
from creditscope.report.views import AuditView


def several(views: Sequence[AuditView]) -> str:
    """A list of reports and, for runs that were not audited, records."""
    return standard_json.dumps([standard_json.loads(json(view)) for view in views], indent=1, ensure_ascii=False) + "\n"


@report_format("json", title="JSON of the report, with a published schema", suffixes=(".json",), several=several)
def json(view: AuditView) -> str:
    """The report; the record of a run that was not audited."""
    record = view.report if view.report is not None else view.run
    return record.to_json() if record is not None else "null\n"
