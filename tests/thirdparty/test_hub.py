"""huggingface_hub reads our model-index and our .eval_results files as its own."""

from __future__ import annotations

from typing import Any

import pytest
from tests.report.test_hub import report as audited
from tests.report.test_hub import with_nan

from creditscope.records.report import Report

pytestmark = [pytest.mark.thirdparty, pytest.mark.filterwarnings("ignore")]
report = audited


def hub() -> Any:
    return pytest.importorskip("huggingface_hub")


def test_the_hub_reads_the_model_index_from_a_card_and_writes_the_same(report: Report) -> None:
    yaml = pytest.importorskip("yaml")
    front = report.to("model-index")
    card = hub().ModelCard(f"---\n{front}---\n\n# A network\n")
    (entry,) = report.to_model_index()
    results = {result.metric_type: result for result in card.data.eval_results}
    assert card.data.model_name == entry["name"]
    assert results["accuracy"].metric_value == 0.9
    assert results["creditscope-D2"].metric_value == report.findings["D2"].value
    assert results["creditscope-verdict"].metric_args["content_hash"] == report.content_hash
    again = hub().repocard_data.eval_results_to_model_index(card.data.model_name, card.data.eval_results)
    assert again == [entry]
    assert yaml.safe_load(front) == {"model-index": [entry]}
    assert hub().ModelCard(f"---\n{with_nan(report).to('model-index')}---\n").data.eval_results


def test_the_hub_reads_eval_results_and_writes_the_same(report: Report) -> None:
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load(report.to_eval_results("owner/name", "test", url="https://example.org"))
    (entry,) = hub().parse_eval_result_entries(content)
    assert (entry.dataset_id, entry.task_id, entry.value) == ("owner/name", "test", 0.9)
    assert report.content_hash[:16] in entry.notes
    assert hub().eval_result_entries_to_yaml([entry]) == content
