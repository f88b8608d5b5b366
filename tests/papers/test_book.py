"""Runs are found by their settings, and every record is read once."""

from __future__ import annotations

import pytest
from tests.papers.made import EXPLODED, MadeStore, book, planned, run

from creditscope.errors import BadFile
from creditscope.papers.book import Book, study_file
from creditscope.study.store import Store


def test_settings_choose_runs_and_options_that_were_not_given_have_their_default():
    made = book(run, "main_audit")
    assert len(made.find("main_audit", {"method": "dfa"}).records) == 6
    assert len(made.find("main_audit", {"method": "dfa", "method.index": "output"}).records) == 3
    assert len(made.find("main_audit", {"method": ["bp", "fa"]}).records) == 6


def test_controls_are_found_only_if_they_are_asked_for():
    made = book(run, "main_audit")
    assert {spec.control for spec in made.find("main_audit", {"method": "bp"}).specs.values()} == {"none"}
    assert {spec.control for spec in made.find("main_audit", {"control": "shallow"}).specs.values()} == {"shallow"}


def test_seeds_without_a_record_are_named():
    found = book(lambda spec: run(spec) if spec.seed == 123 else None, "main_audit").find(
        "main_audit", {"method": "bp"}
    )
    assert [found.specs[key].seed for key in found.records] == [123]
    assert found.missing == (42, 456)


def test_every_record_is_read_once_however_many_tables_are_made():
    made = book(run, "threshold_sensitivity")
    assert isinstance(made.store, MadeStore)
    made.table("threshold_sensitivity")
    made.table_under("threshold_sensitivity", {"D1": 5.0})
    made.audited("threshold_sensitivity", {"method": "bp"})
    assert made.store.reads == len(planned("threshold_sensitivity"))


def test_other_limits_give_another_table_and_leave_the_usual_one():
    made = book(lambda spec: run(spec, values=EXPLODED), "threshold_sensitivity")
    (moved, *_), (usual, *_) = (
        made.table_under("threshold_sensitivity", {"D1": 1e9}),
        made.table("threshold_sensitivity"),
    )
    assert moved.findings["D1"].status == "pass"
    assert usual.findings["D1"].status == "fires"


def test_a_table_may_be_judged_by_another_protocol():
    made = book(lambda spec: run(spec, 0.3 + 0.3 * (spec.control == "none")), "threshold_sensitivity")
    assert str(made.table("threshold_sensitivity")[0].verdict) == "PASS"
    assert str(made.table_under("threshold_sensitivity", {}, "four")[0].verdict) == "trustworthy"


def test_a_book_that_is_opened_again_sees_what_was_run_meanwhile():
    made = book()
    key = next(iter(planned("wide")))
    assert made.record(key) is None
    made.store.made[key] = run(planned("wide")[key])
    assert made.record(key) is None
    assert made.again().record(key) is not None


def test_a_row_of_the_audit_table_is_found_by_settings():
    made = book(run, "main_audit")
    row = made.audited("main_audit", {"method": "dfa", "method.index": "input"})
    assert row.spec.method_options == {"index": "input"}
    assert book().audited("main_audit", {"method": "bp"}) is None


def test_a_study_that_is_not_there_is_said():
    with pytest.raises(BadFile, match="no_such.toml is not there"):
        study_file("no_such")
    with pytest.raises(BadFile, match="no_such.toml is not there"):
        Book(Store("nowhere")).plan("no_such")
