"""The commands of a study: they list the runs, refuse invalid input, and change nothing else."""

from __future__ import annotations

import csv
import io
import json

import pytest
from tests.study.made import record, write_study
from tests.study.test_tables import HEALTHY, report

from creditscope.cli import run
from creditscope.reading import ZEROS, sealed
from creditscope.study.declaration import Study
from creditscope.study.failure import Failure
from creditscope.study.plan import plan
from creditscope.study.store import Store


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_study(tmp_path)


@pytest.fixture
def store(study):
    """A store in which all but the last run is done, and that one has failed."""
    runs, store = plan(Study.read(study)), Store("runs")
    *done, last = runs
    for key in done:
        accuracy = 0.7 if runs[key].method == "bp" and runs[key].control == "none" else 0.5
        store.commit(key, b"weights", record(runs[key], accuracy, report=report(HEALTHY)))
    store.fail(Failure(key=last, spec=runs[last].model_dump(), error="ValueError: no", traceback="Traceback: here"))
    return store


def test_a_dry_run_lists_what_would_be_run_and_makes_no_store(study, capsys):
    assert run(["study", "run", str(study), "--dry-run", "--only", "method=dfa", "--only", "seed=1,2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 runs: 0 done, 4 to run"
    assert lines[1].endswith("  dfa, seed 1")
    assert not (study.parent / "runs").exists()


def test_a_dry_run_lists_the_runs_that_the_same_options_would_run(study, store, capsys):
    runs = plan(Study.read(study))
    first, *_, last = runs

    def listed(*options):
        assert run(["study", "run", str(study), "--dry-run", *options]) == 0
        return capsys.readouterr().out.splitlines()

    assert listed() == ["12 runs: 11 done, 1 failed, 0 to run"]
    heading, failed = listed("--retry-failed")
    assert heading == "12 runs: 11 done, 1 to run"
    assert failed.startswith(f"  {last}  ")
    store.amend(first, record(runs[first], 0.7))
    heading, unaudited = listed()
    assert heading == "12 runs: 10 done, 1 failed, 1 to run"
    assert unaudited == f"  {first}  bp, seed 1: audit only"
    heading, *again = listed("--audit-again")
    assert heading == "12 runs: 0 done, 1 failed, 11 to run"
    assert len(again) == 11


def test_status_counts_and_names_what_failed(study, store, capsys):
    assert run(["study", "status", str(study)]) == 0
    shown = capsys.readouterr().out
    assert "12 runs: 11 done, 0 running, 1 failed, 0 missing" in shown
    assert "ValueError: no" in shown
    assert run(["study", "status", str(study), "--runs"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 + 12


def test_a_study_with_nothing_left_but_failures_says_so_and_exits_with_1(study, store, capsys):
    assert run(["study", "run", str(study)]) == 1
    shown = capsys.readouterr()
    assert "12 runs: 11 done, 1 failed, 0 to run, " in shown.err
    assert "12 runs: 0 executed, 11 done before, 1 failed." in shown.out
    assert "--retry-failed" in shown.out


def test_show_gives_the_audit_of_a_run_or_the_traceback_of_a_failure(study, store, capsys):
    *done, last = plan(Study.read(study))
    assert run(["study", "show", done[0][:12]]) == 0
    assert "accuracy 0.7000 on 1,000 test images" in (shown := capsys.readouterr().out)
    assert "─ PASS\n" in shown
    assert run(["study", "show", done[0], "--full"]) == 0
    assert "Verdict: PASS" in (full := capsys.readouterr().out)
    assert len(full) > len(shown)
    assert run(["study", "show", done[0], "--json"]) == 0
    assert f'"key": "{done[0]}"' in capsys.readouterr().out
    assert run(["study", "show", last]) == 0
    assert "Traceback: here" in capsys.readouterr().out
    assert run(["study", "show", last, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["error"] == "ValueError: no"
    store.snapshot("00000000000000aa").write_bytes(b"state")  # a run with neither a record nor a failure
    assert run(["study", "show", "00000000000000aa", "--json"]) == 2
    assert "There is no finished run 00000000000000aa" in capsys.readouterr().err
    assert run(["study", "show", "zz"]) == 2
    assert "There is no run 'zz' in runs" in capsys.readouterr().err


def test_only_the_record_that_is_shown_is_read_in_full_and_one_that_cannot_be_read_is_skipped(
    study, store, capsys, monkeypatch
):
    key, *_, other, _ = plan(Study.read(study))
    content = json.dumps({"checksum": ZEROS, "key": other, "schema_version": 99})
    (store.place(other) / "record.json").write_bytes(sealed(content.encode()))
    read, whole = [], Store.record
    monkeypatch.setattr(Store, "record", lambda self, key: read.append(key) or whole(self, key))
    assert run(["study", "show", key]) == 0
    assert "no frozen-block control was supplied" not in capsys.readouterr().out
    assert read == [key, other]  # the second one has no summary


def test_a_comparison_reads_no_record_in_full(study, store, capsys, monkeypatch):
    assert run(["study", "compare", str(study)]) == 0
    before = capsys.readouterr().out
    monkeypatch.setattr(Store, "record", lambda self, key: pytest.fail("a whole record was read"))
    assert run(["study", "compare", str(study)]) == 0
    assert capsys.readouterr().out == before


def test_export_is_tidy_and_its_records_can_be_layered(study, store, capsys):
    assert run(["study", "export", str(study), "--csv", "-"]) == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(found) == 11
    assert {(row["method"], row["network.d"], row["epoch"], row["hidden_norms_1"]) for row in found} == {
        ("bp", "16", "0", "2.0"),
        ("dfa", "16", "0", "2.0"),
    }
    assert run(["study", "export", str(study), "--csv", "out.csv", "--records", "results"]) == 0
    assert "wrote 11 records to results" in capsys.readouterr().out
    assert run(["study", "status", str(study), "--store", "elsewhere"]) == 0
    assert "11 done" in capsys.readouterr().out  # the folder results counts by itself
    assert run(["study", "export", str(study)]) == 2
    assert "Neither --csv nor --records" in capsys.readouterr().err


def test_report_prints_the_table_over_seeds(study, store, capsys):
    assert run(["study", "report", str(study), "--protocol", "three"]) == 0
    shown = capsys.readouterr().out
    assert "bp, frozen" in shown
    assert "PASS" in shown
    assert "FAIL(D3)" in shown


def test_clean_removes_litter_only(study, store, capsys):
    litter = store.folder / "00000000000000aa.lock"
    litter.write_text("")
    assert run(["study", "clean", "--dry-run"]) == 0
    assert "would remove 1 file\n" in capsys.readouterr().out
    assert litter.exists()
    assert run(["study", "clean", "--failed"]) == 0
    assert "removed 2 files" in capsys.readouterr().out
    assert len(list(store.folder.glob("*/record.json"))) == 11


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["run", "study.toml", "--budget", "laptop"], "no budget called 'laptop'"),
        (["run", "study.toml", "--only", "method"], "not of the form key=value"),
        (["run", "study.toml", "--store", "study.toml/x"], "cannot be made: Not a directory"),
        (["status", "study.toml", "--results", "nowhere"], "--results nowhere is not a folder"),
        (["report", "study.toml", "--protocol", "thre"], "Did you mean 'three'?"),
        (["report", "study.toml", "--protocol", "april"], "in a form that records do not hold"),
    ],
)
def test_bad_input_is_refused_with_2(study, capsys, arguments, told):
    assert run(["study", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_device_that_cannot_be_used_is_refused_before_anything_is_run(study, capsys):
    assert run(["study", "run", str(study), "--device", "nonsense"]) == 2
    assert "The device 'nonsense' cannot be used" in capsys.readouterr().err
    assert not (study.parent / "runs").exists()
