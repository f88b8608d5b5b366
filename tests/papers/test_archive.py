"""Runs are selected by their settings, and every record is read once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.papers.made import EXPLODED, MADE, MadeStore, archive, planned, run

from creditscope.errors import BadFile
from creditscope.papers.archive import RunArchive, own_records_first
from creditscope.study.store import Store


def test_settings_select_runs_and_options_that_were_not_given_have_their_default():
    made = archive(MADE, run, "speed")
    assert len(made.select("speed", {"method": "dfa"}).records) == 6
    assert len(made.select("speed", {"method": "dfa", "method.index": "output"}).records) == 3
    assert len(made.select("speed", {"method": ["bp", "fa"]}).records) == 3


def test_controls_are_selected_only_if_they_are_asked_for():
    made = archive(MADE, run, "speed")
    assert {spec.control for spec in made.select("speed", {"method": "bp"}).specs.values()} == {"none"}
    assert {spec.control for spec in made.select("speed", {"control": "frozen"}).specs.values()} == {"frozen"}


def test_seeds_without_a_record_are_named():
    runs = archive(MADE, lambda spec: run(spec) if spec.seed == 2 else None, "speed").select("speed", {"method": "bp"})
    assert (runs.seeds, runs.missing) == ((2,), (1, 3))


def test_every_record_is_read_once_however_many_tables_are_made():
    made = archive(MADE, run, "speed")
    assert isinstance(made.store, MadeStore)
    made.audit_rows("speed")
    made.audit_rows_under("speed", {"D1": 5.0})
    made.audit_row("speed", {"method": "bp"})
    assert made.store.reads == len(planned(MADE, "speed"))


def test_other_limits_give_another_table_and_leave_the_usual_one():
    made = archive(MADE, lambda spec: run(spec, values=EXPLODED), "speed")
    moved, usual = made.audit_rows_under("speed", {"D1": 1e9})[0], made.audit_rows("speed")[0]
    assert (moved.findings["D1"].status, usual.findings["D1"].status) == ("pass", "fires")


def test_a_table_may_be_judged_by_another_protocol():
    made = archive(MADE, lambda spec: run(spec, 0.3 + 0.3 * (spec.control == "none")), "speed")
    assert str(made.audit_rows("speed")[0].verdict) == "PASS"
    assert str(made.audit_rows_under("speed", {}, "four")[0].verdict) == "trustworthy"


def test_a_refreshed_archive_sees_what_was_run_meanwhile():
    made = archive(MADE)
    key, spec = next(iter(planned(MADE, "speed").items()))
    assert made.record(key) is None
    made.store.made[key] = run(spec)
    assert made.record(key) is None
    assert made.refreshed().record(key) is not None


def test_a_row_of_the_audit_table_is_found_by_settings():
    made = archive(MADE, run, "speed")
    row = made.audit_row("speed", {"method": "dfa", "method.index": "input"})
    assert row.spec.method_options == {"index": "input"}
    assert archive(MADE).audit_row("speed", {"method": "bp"}) is None


def test_the_budget_as_published_has_other_runs_and_other_files():
    made = archive(MADE)
    assert not set(made.plan("speed")) & set(made.as_published.plan("speed"))
    assert (made.stem("speed"), made.as_published.stem("speed")) == ("speed", "speed-paper")


def test_a_study_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(BadFile, match=r"speed.toml does not exist.\nIts runs are unknown. Reinstall the paper 'made'."):
        RunArchive(replace(MADE, studies=tmp_path), Store("nowhere"), "laptop").plan("speed")


def test_of_a_run_with_two_committed_records_the_one_that_tables_link_to_is_read(tmp_path):
    key = "0" * 16
    for folder in ("field", "records"):
        (tmp_path / "results" / folder).mkdir(parents=True)
        (tmp_path / "results" / folder / f"{key}.json").write_text("{}")
    store = own_records_first(Store(tmp_path / "runs", [tmp_path / "results"]))
    assert store._layered == {key: tmp_path / "results" / "records" / f"{key}.json"}
    assert own_records_first(Store(tmp_path / "runs")).beneath == ()
