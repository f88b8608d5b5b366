"""A run that did not end is neither passed nor a control."""

from __future__ import annotations

import math

import pytest
from tests.report.made import HEALTHY, report
from tests.study.made import record

from creditscope.diagnostics.seeds import _median
from creditscope.records.run import Divergence, after_divergence
from creditscope.runs.controls import matching_controls
from creditscope.runs.spec import RunSpec
from creditscope.study.store import Store
from creditscope.study.tables import audit_table

STOPPED = Divergence(epoch=3, why="more than half of the steps were taken back")


def test_a_diverged_run_never_passes_and_the_reader_is_told() -> None:
    verdict = after_divergence(report(HEALTHY).verdict, STOPPED)
    assert (str(verdict), verdict.outcome, verdict.exit_code) == ("INCONCLUSIVE(diverged)", "inconclusive", 3)
    assert verdict.warnings == ("The run diverged in epoch 4: more than half of the steps were taken back.",)


def test_a_failed_verdict_stays_failed() -> None:
    from tests.report.made import EXPLODED

    before = report(EXPLODED).verdict
    assert str(after_divergence(before, STOPPED)) == str(before)
    assert after_divergence(before, None) == before


@pytest.mark.parametrize(("diverged", "status"), [(None, "pass"), (STOPPED, "skipped")])
def test_a_diverged_twin_is_no_control(tmp_path, diverged, status) -> None:
    spec = RunSpec(method="dfa", epochs=1)
    runs = {run.key: run for run in (spec, spec.control_spec("frozen"))}
    record(spec, 0.5, report=report(HEALTHY)).to_json(tmp_path / spec.key / "record.json")
    twin = record(spec.control_spec("frozen"), 0.1, diverged=diverged)
    twin.to_json(tmp_path / spec.control_spec("frozen").key / "record.json")
    row = next(row for row in audit_table(runs, Store(tmp_path)) if row.spec.control == "none")
    assert row.seeds[0].findings["D3"].status == status
    assert matching_controls(spec, [twin]) == (twin,)


def test_a_row_over_seeds_says_which_of_them_diverged(tmp_path) -> None:
    runs = {spec.key: spec for spec in (RunSpec(epochs=1, seed=seed) for seed in (1, 2))}
    for key, spec in runs.items():
        made = record(spec, 0.5, report=report(HEALTHY), diverged=STOPPED if spec.seed == 2 else None)
        made.to_json(tmp_path / key / "record.json")
    (row,) = audit_table(runs, Store(tmp_path))
    assert row.verdict is not None
    assert row.verdict.warnings == (
        "The run of seed 2 diverged in epoch 4: more than half of the steps were taken back.",
    )


def test_a_median_with_nan_is_nan_in_any_order() -> None:
    assert all(math.isnan(_median(values)) for values in ([math.nan, 1, 2], [1, math.nan, 2], [1, 2, math.nan]))
    assert _median([3.0, 1.0, 2.0]) == 2.0
