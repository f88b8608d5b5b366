"""A store of many runs is hashed once, judged from the parts of its records that count, and shown by some of them."""

from __future__ import annotations

import json
import os

import pytest
from tests.faults.test_trust import rewrite
from tests.study.made import record
from tests.study.test_tables import EXPLODED, HEALTHY, deep, filled, report

from creditscope.errors import CreditscopeError
from creditscope.reading import ZEROS, sealed
from creditscope.records.summary import ControlSummary, RunSummary, summary_of
from creditscope.runs.spec import RunSpec
from creditscope.study import checked
from creditscope.study.display import pages
from creditscope.study.display.pages import shown_keys, study_pages
from creditscope.study.store import RunState, Store
from creditscope.study.tables import audit_table, table_of
from creditscope.verdict import Status


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store of twelve runs that remembers what it hashed, with its keys."""
    monkeypatch.setattr(checked, "WORTH", 1)
    monkeypatch.setattr(checked, "SETTLED", -(10**12))
    runs, made = filled(tmp_path / "store", deep)
    assert set(made.ended_states(runs).values()) == {RunState.DONE}
    return made, list(runs)


def hashed(folder, keys, monkeypatch) -> list[str]:
    """The keys that a new process hashes, to say that all of them are done."""
    seen = []
    monkeypatch.setattr(checked, "record_damage", lambda path, key: seen.append(key) or "")
    Store(folder).ended_states(keys)
    return seen


def test_a_record_is_hashed_once_and_again_when_its_file_has_changed(store, monkeypatch):
    made, keys = store
    assert hashed(made.folder, keys, monkeypatch) == []
    path = made.folder / keys[3] / "record.json"
    before = path.stat()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"mnist1d", b"mnist1e"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # size and time of writing as before
    assert hashed(made.folder, keys, monkeypatch) == [keys[3]]


def test_a_changed_record_is_not_done_although_it_was_once_sound(store):
    made, keys = store
    path = made.folder / keys[3] / "record.json"
    path.write_bytes(path.read_bytes().replace(b"mnist1d", b"mnist1e"))
    assert Store(made.folder).ended_states(keys)[keys[3]] is RunState.MISSING


@pytest.mark.parametrize("content", ["", "[]", '{"records": {}}', '{"records": 7}', '{"records": {"a": [1]}}'])
def test_a_list_of_checked_records_of_another_form_is_not_used(store, monkeypatch, content):
    made, keys = store
    (made.folder / "checked.json").write_text(content)
    assert hashed(made.folder, keys, monkeypatch) == keys


def test_a_list_that_came_with_a_copied_store_says_nothing_about_its_files(store, monkeypatch):
    made, keys = store
    listed = json.loads((made.folder / "checked.json").read_text())["records"]
    forged = {key: [inode + 1, *others] for key, (inode, *others) in listed.items()}
    text = json.dumps({"checksum": ZEROS, "records": forged})
    (made.folder / "checked.json").write_bytes(sealed(text.encode()))
    assert hashed(made.folder, keys, monkeypatch) == keys


def test_a_record_written_a_moment_ago_is_not_remembered_since_a_second_change_could_have_the_same_time(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(checked, "WORTH", 1)
    runs, made = filled(tmp_path, deep)
    made.ended_states(runs)
    assert json.loads((tmp_path / "checked.json").read_text())["records"] == {}


def test_few_records_are_hashed_every_time(tmp_path):
    runs, made = filled(tmp_path, deep)
    made.ended_states(runs)
    assert not (tmp_path / "checked.json").exists()


def test_whether_a_run_is_audited_is_remembered_too(store):
    made, keys = store
    spec = RunSpec(epochs=7)
    made.commit(spec.key, b"weights", record(spec))
    made.ended_states([*keys, spec.key])
    again = Store(made.folder)
    assert [again.unaudited(key) for key in (keys[0], spec.key)] == [False, True]


def test_a_table_from_summaries_is_that_from_whole_records(tmp_path):
    runs, made = filled(tmp_path, deep, lambda spec: report(HEALTHY if spec.method == "bp" else EXPLODED))
    summaries = {key: made.summary(key, control=spec.control != "none") for key, spec in runs.items()}
    assert {type(one) for one in summaries.values()} == {RunSummary, ControlSummary}
    whole = table_of(runs, {key: made.record(key) for key in runs}, "strict")
    assert audit_table(runs, made) == whole


def test_a_summary_is_judged_again_and_bound_to_checksum_and_key(tmp_path):
    runs, made = filled(tmp_path, deep, lambda spec: report(EXPLODED))
    key = next(iter(runs))
    path = tmp_path / key / "record.json"
    rewrite(path, lambda content: content["report"]["findings"]["D1"].update(status="pass"), seal=True)
    assert made.summary(key).report.findings["D1"].status is Status.FIRES
    content = path.read_bytes()
    assert summary_of(content, "0123456789abcdef") is None
    assert summary_of(content.replace(b"mnist1d", b"mnist1e"), key) is None
    rewrite(path, lambda content: content["history"][0].update(accuracy=1.5), seal=True)
    with pytest.raises(CreditscopeError, match=r"between 0 and 1, not at 1\.5"):
        Store(tmp_path).summary(key)


def test_a_large_study_shows_some_runs_of_every_method_and_counts_all(tmp_path, monkeypatch):
    runs, made = filled(tmp_path / "store", deep)
    rows = audit_table(runs, made)
    assert shown_keys(rows, 100) == set(runs)
    assert shown_keys(rows, 4) == {row.seeds[0].key for row in rows}
    assert shown_keys(rows, 2) == {rows[0].seeds[0].key, rows[2].seeds[0].key}
    assert len(shown_keys(rows, 7)) == 7
    monkeypatch.setattr(pages, "MOST_SHOWN", 4)
    page = study_pages(runs, made, rows, "A study", tmp_path / "pages").read_text(encoding="utf-8")
    assert len(list((tmp_path / "pages" / "runs").iterdir())) == 4
    assert "4 of 12 runs have marks, a line and a page here" in page
    assert "</span> 6</strong> inconclusive" in page
    assert "</span> 6</strong> controls" in page
