"""A run is in the store whole or not at all, and one process at a time works on it."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.study.made import record
from tests.study.test_tables import HEALTHY, report

from creditscope import machine
from creditscope.errors import BadFile, DamagedFile, UnknownName
from creditscope.records.run import RunRecord
from creditscope.records.summary import RunSummary
from creditscope.runs.spec import RunSpec
from creditscope.study import checked, cleaning
from creditscope.study import lock as lock_module
from creditscope.study import store as module
from creditscope.study.checked import Checked
from creditscope.study.cleaning import clean, litter
from creditscope.study.failure import Failure
from creditscope.study.lock import RunLock
from creditscope.study.store import RunState, Store, open_store

SPEC = RunSpec(epochs=1)
KEY = "0123456789abcdef"
HOLD = """
import sys, time
from pathlib import Path
from creditscope.study.lock import RunLock
lock = RunLock.acquire(Path(sys.argv[1]))
lock.write_progress(3, 10)
print("held", flush=True)
time.sleep(60)
"""


def committed(store: Store, key: str = KEY) -> None:
    store.prepare()
    store.commit(key, b"weights", record(SPEC, key=key))


def failure(key: str = KEY) -> Failure:
    return Failure(key=key, spec=SPEC.model_dump(), error="ValueError: no", traceback="Traceback")


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "store")
    found.prepare()
    return found


def test_a_committed_run_is_one_folder_with_two_files_and_nothing_else(store):
    store.snapshot(KEY).write_bytes(b"state")
    store.fail(failure())
    committed(store)
    assert [path.name for path in store.folder.iterdir()] == [KEY]
    assert sorted(path.name for path in (store.folder / KEY).iterdir()) == ["record.json", "weights.safetensors"]
    assert store.state(KEY) is RunState.DONE
    assert store.record(KEY).model_copy(update={"weights_checksum": ""}) == record(SPEC, key=KEY)
    assert store.trained(KEY) == store.folder / KEY


def test_without_its_record_a_run_is_not_done(store):
    (store.folder / KEY).mkdir()
    (store.folder / KEY / "weights.safetensors").write_bytes(b"old")
    assert store.state(KEY) is RunState.MISSING
    assert store.trained(KEY) is None
    committed(store)
    assert store.state(KEY) is RunState.DONE
    assert (store.folder / KEY / "weights.safetensors").read_bytes() == b"weights"


def test_a_commit_that_fails_half_way_leaves_nothing(store, monkeypatch):
    def no_room(*anything, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.RunRecord, "to_json", no_room)
    with pytest.raises(
        BadFile, match="cannot be written: No space left on device.\nThe run was not saved. Check disk space"
    ):
        committed(store)
    assert list(store.folder.iterdir()) == []


def test_a_failure_is_kept_with_its_traceback_and_counted(store):
    store.fail(failure())
    store.fail(failure())
    assert store.state(KEY) is RunState.FAILED
    assert store.failure(KEY).attempts == 2
    assert store.failure(KEY).traceback == "Traceback"


def test_a_missing_run_is_named(store):
    with pytest.raises(UnknownName, match="no finished run"):
        store.record(KEY)


def test_committed_records_beneath_a_store_count_as_done_and_are_never_written(tmp_path):
    results = tmp_path / "results" / "main"
    results.mkdir(parents=True)
    record(SPEC, key=KEY).to_json(results / f"{KEY}.json")
    committed(Store(results), "fedcba9876543210")
    (results / "table.json").write_text("{}")
    store = Store(tmp_path / "store", [tmp_path / "results"])
    assert store.state(KEY) is store.state("fedcba9876543210") is RunState.DONE
    assert store.trained(KEY) is None
    assert not store.unaudited(KEY)
    assert store.keys() == [KEY, "fedcba9876543210"]
    committed(store)
    assert store.record_path(KEY) == store.folder / KEY / "record.json"  # the own one wins


def test_a_run_without_a_report_is_known_from_the_end_of_its_record(store):
    committed(store)
    assert store.unaudited(KEY)
    path = store.folder / KEY / "record.json"
    path.write_text(record(SPEC, key=KEY).model_dump_json())
    assert store.unaudited(KEY)
    path.write_text(path.read_text().replace("null}", '{"findings": {}}}'))
    assert not store.unaudited(KEY)


def test_only_one_process_gets_a_lock_and_the_others_see_its_progress(store):
    path = store.folder / f"{KEY}.lock"
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    try:
        assert store.lock(KEY) is None
        assert store.state(KEY) is RunState.RUNNING
        progress = store.progress(KEY)
        assert (progress.process, progress.epoch, progress.epochs) == (other.pid, 3, 10)
        assert list(litter(store)) == []
    finally:
        other.kill()
        other.communicate()
    assert store.state(KEY) is RunState.MISSING
    assert list(litter(store)) == [path]
    taken = store.lock(KEY)
    assert taken is not None  # the lock of a dead process is free
    assert store.lock(KEY) is None  # and holds within one process too
    taken.release()
    assert not path.exists()


def test_litter_is_what_nobody_will_read_again(store):
    committed(store)
    dead = 2**22 + 1  # above the largest process id
    other = "00000000000000aa"
    (store.folder / "!").touch()  # before all others
    names = [
        f"{KEY}.snapshot",
        f"{other}.snapshot",
        f"{other}.failed.json",
        f"{other}.snapshot.{dead}.part",
        f"{other}.{os.getpid()}.part",
        "notes.txt",
    ]
    for name in names:
        (store.folder / name).write_text("{}")
    assert {path.name for path in litter(store)} == {names[0], names[3]}
    everything = {path.name for path in litter(store, failed=True, snapshots=True)}
    assert everything == {names[0], names[1], names[2], names[3]}
    clean(store, list(litter(store)))
    assert not (store.folder / names[0]).exists()
    assert store.state(KEY) is RunState.DONE


def test_a_store_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "store")
    with pytest.raises(BadFile, match="cannot be made: Not a directory.\nNo run could be kept. Choose another folder"):
        store.prepare()
    with pytest.raises(BadFile, match="The store cannot be written"):
        store.lock(KEY)


def test_the_report_is_the_last_field_of_a_record_since_a_store_reads_only_its_end():
    assert list(RunRecord.model_fields)[-1] == "report"


def test_the_first_layer_wins_and_the_store_itself_before_all_layers(tmp_path):
    layers = [tmp_path / "first", tmp_path / "second"]
    for layer, accuracy in zip(layers, (0.1, 0.2), strict=True):
        layer.mkdir()
        record(SPEC, accuracy).to_json(layer / f"{SPEC.key}.json")
    store = Store(tmp_path / "store", layers)
    assert store.record(SPEC.key).accuracy == 0.1
    assert Store(tmp_path / "store", layers[::-1]).record(SPEC.key).accuracy == 0.2
    store.prepare()
    store.commit(SPEC.key, b"weights", record(SPEC, 0.3))
    assert store.record(SPEC.key).accuracy == 0.3
    assert store.record_path(SPEC.key) == store.folder / SPEC.key / "record.json"


OTHERS = [f"{number:016x}" for number in range(1, 6)]


def test_the_states_of_many_runs_are_those_of_each(store, tmp_path):
    done, failed, running, layered, missing = OTHERS
    layer = tmp_path / "layer"
    layer.mkdir()
    record(SPEC, key=layered).to_json(layer / f"{layered}.json")
    store = Store(store.folder, [layer])
    committed(store, done)
    store.fail(failure(failed))
    lock = store.lock(running)
    expected = dict(zip(OTHERS, ("done", "failed", "running", "done", "missing"), strict=True))
    assert store.states(OTHERS) == {key: store.state(key) for key in OTHERS} == expected
    at_rest = expected | {running: "missing"}
    assert store.ended_states(OTHERS) == {key: store.ended(key) for key in OTHERS} == at_rest
    assert store.keys() == sorted(OTHERS[:4])
    again = store.lock(done)  # whoever works on a run that is done only audits it
    assert store.state(done) is store.states([done])[done] is RunState.DONE
    for held in (lock, again):
        held.release()
    (store.folder / missing).mkdir()  # without a record in it
    assert store.ended_states([missing]) == {missing: store.ended(missing)} == {missing: "missing"}
    empty = Store(tmp_path / "none")
    assert (empty.keys(), empty.states([missing]), list(litter(empty))) == ([], {missing: "missing"}, [])


def test_a_failure_says_how_often_when_and_of_which_run(store):
    assert failure().attempts == 1
    assert store.failure(KEY) is None
    for attempt in (1, 2, 3):
        store.fail(failure())
        assert store.failure(KEY).attempts == attempt
    assert store.failure(KEY).schema_version == 1
    assert store.failure(KEY).when.startswith("20")
    with pytest.raises(ValueError, match="network"):
        Failure(key=KEY, spec={"network": 3}, error="", traceback="")
    (store.folder / f"{KEY}.failed.json").write_text("{}")
    assert re.search(r"is not a valid failure: \d validation errors", store.failure(KEY).error)


def test_the_record_of_another_run_is_neither_read_nor_summed_up(store):
    committed(store, OTHERS[0])
    (store.folder / OTHERS[0]).rename(store.folder / OTHERS[1])
    assert store.record_path(OTHERS[1]) is None
    assert store.summary(OTHERS[1]) is None
    assert f"its key is {OTHERS[0]}" in store.damage(OTHERS[1])
    with pytest.raises(UnknownName, match=f"Its record cannot be trusted: .* its key is {OTHERS[0]}"):
        store.record(OTHERS[1])
    with pytest.raises(UnknownName, match=r"There is no finished run \w+ in [^ ]+\.\nRun its study first"):
        store.record(OTHERS[2])
    assert store.damage(OTHERS[2]) == ""
    store._checked.check = lambda *_, **__: Checked((0, 0, 0, 0), "", audited=True)  # as if its key had been right
    with pytest.raises(DamagedFile, match=f"is the record of another run, {OTHERS[0]}"):
        store.record(OTHERS[1])


def test_a_summary_holds_the_report_unless_it_is_that_of_a_control(store):
    store.commit(SPEC.key, b"weights", record(SPEC, report=report(HEALTHY)))
    found = store.summary(SPEC.key)
    assert isinstance(found, RunSummary)
    assert found.report is not None
    assert store.summary(SPEC.key, control=True).report is None


def test_a_committed_record_that_is_a_link_to_nothing_is_told(tmp_path):
    (tmp_path / f"{KEY}.json").symlink_to("nowhere")
    store = Store(tmp_path / "store", [tmp_path])
    assert "cannot be read" in store.damage(KEY)
    assert store.ended(KEY) is RunState.MISSING


def test_many_records_are_hashed_once(store, monkeypatch):
    monkeypatch.setattr(checked, "WORTH", 1)
    committed(store)
    assert not (store.folder / checked.CHECKED).exists()
    store.ended_states([KEY])
    assert (store.folder / checked.CHECKED).exists()


def test_a_store_is_made_with_the_folders_above_it_and_only_once(tmp_path):
    store = Store(tmp_path / "a" / "b" / "c")
    store.prepare()
    store.prepare()
    assert store.folder.is_dir()


def test_a_process_is_asked_for_and_not_disturbed(monkeypatch):
    asked = []
    monkeypatch.setattr(machine.os, "kill", lambda *call: asked.append(call))
    assert cleaning._in_use(".snapshot.123.part")
    assert asked == [(123, 0)]
    assert not cleaning._in_use(".snapshot.part")


def test_the_file_of_a_process_of_another_user_is_in_use(store, monkeypatch):
    def not_ours(process: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(machine.os, "kill", not_ours)
    (store.folder / f"{KEY}.snapshot.123.part").touch()
    assert list(litter(store)) == []


def test_a_record_that_is_amended_ends_the_failure_of_its_audit(store):
    committed(store)
    store.fail(failure())
    store.snapshot(KEY).write_bytes(b"state")
    store.amend(KEY, record(SPEC, 0.75, key=KEY))
    assert [path.name for path in store.folder.iterdir()] == [KEY]
    assert store.record(KEY).accuracy == 0.75
    assert store.summary(KEY).accuracy == 0.75


def test_weights_that_are_about_to_be_used_are_compared(store):
    committed(store, SPEC.key)
    weights = store.folder / SPEC.key / "weights.safetensors"
    assert store.recover(SPEC.key) == []
    store.snapshot(SPEC.key).write_bytes(b"damaged")
    assert "The run starts again from its first epoch" in store.recover(SPEC.key)[0]
    weights.write_bytes(b"others")
    assert store.state(SPEC.key) is RunState.DONE
    (notice,) = store.recover(SPEC.key)
    assert "not the weights" in notice
    assert "damaged-1, and the run is run again" in notice
    assert store.state(SPEC.key) is RunState.MISSING
    committed(store, SPEC.key)
    weights.unlink()
    assert store.recover(SPEC.key) == []
    assert store.trained(SPEC.key) is None
    assert not store.unaudited(SPEC.key)


def test_cleaning_removes_files_folders_and_links_and_minds_nothing_that_is_gone(store, tmp_path):
    paths = [store.folder / f"{KEY}.{name}" for name in ("1.part", "gone", "lock", "snapshot")]
    paths[0].mkdir()
    paths[2].symlink_to(tmp_path / "file")
    (tmp_path / "file").touch()
    paths[3].touch()
    assert clean(store, [paths[2], *paths]) == [paths[2], *paths]
    assert list(store.folder.iterdir()) == []
    assert (tmp_path / "file").exists()


def test_cleaning_leaves_the_files_of_a_run_that_was_taken_up_after_they_were_listed(store):
    for name in (f"{KEY}.lock", f"{KEY}.snapshot", f"{OTHERS[0]}.lock"):
        (store.folder / name).touch()
    paths = list(litter(store, snapshots=True))
    taken = store.lock(KEY)
    assert clean(store, paths) == [store.folder / f"{OTHERS[0]}.lock"]
    assert store.snapshot(KEY).exists()
    assert store.lock(KEY) is None  # its lock is still that of the other process
    taken.release()


def test_a_store_opens_over_the_results_of_the_current_folder_or_those_that_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_store(tmp_path / "runs").beneath == ()
    (tmp_path / "results").mkdir()
    assert open_store(tmp_path / "runs").beneath == (Path("results"),)
    assert open_store(tmp_path / "runs", []).beneath == ()
    assert open_store(tmp_path / "runs", [tmp_path]).beneath == (tmp_path,)
    with pytest.raises(BadFile, match="--results nowhere is not a folder"):
        open_store(tmp_path / "runs", [Path("nowhere")])
    with pytest.raises(BadFile, match="cannot be read: File name too long"):
        open_store(tmp_path / ("x" * 300))


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused_and_no_descriptor_stays_open(store, monkeypatch, number):
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    (store.folder / f"{KEY}.lock").touch()
    monkeypatch.setattr(lock_module.fcntl, "flock", no_locks)
    before = len(list(Path("/dev/fd").iterdir()))
    for ask in (store.lock, store.progress):
        with pytest.raises(BadFile, match=f"{KEY}.lock cannot be locked: {os.strerror(number)}"):
            ask(KEY)
    assert len(list(Path("/dev/fd").iterdir())) == before


@pytest.mark.parametrize("again", [False, True], ids=["gone", "another file"])
def test_a_lock_on_a_file_that_its_last_owner_removed_is_taken_again(tmp_path, monkeypatch, again):
    path, locked = tmp_path / "KEY.lock", []
    flock = lock_module.fcntl.flock

    def removed_meanwhile(descriptor: int, operation: int) -> None:
        if not locked:
            path.unlink()
            if again:
                path.touch()
        locked.append(descriptor)
        flock(descriptor, operation)

    monkeypatch.setattr(lock_module.fcntl, "flock", removed_meanwhile)
    lock = RunLock.acquire(path)
    assert len(locked) == 2  # the first one was a lock on a file that nobody finds
    assert os.fstat(lock._descriptor).st_ino == path.stat().st_ino
    monkeypatch.undo()
    assert RunLock.acquire(path) is None
    lock.release()
