"""model-index: the metadata of a model card on the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Sequence

from creditscope.report.formats import report_format
from creditscope.report.views import AuditView


def several(views: Sequence[AuditView]) -> str:
    """All audits in one model-index; a run that was not audited has no entry."""
    from creditscope.report.hub import model_index, yaml_text

    entries = [
        entry
        for view in views
        if view.report is not None
        for entry in model_index(view.report, "" if view.run is None else str(view.run.spec.get("data", "")))
    ]
    return yaml_text({"model-index": entries})


@report_format(
    "model-index", title="YAML for a model card on the Hugging Face hub", suffixes=(".yaml", ".yml"), several=several
)
def model_index_yaml(view: AuditView) -> str:
    """The model-index of one audit."""
    return several([view])
