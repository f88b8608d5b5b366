"""A run is in the store whole or not at all, and one process at a time works on it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.study.made import record

from creditscope.errors import BadFile, UnknownName
from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.study import lock as lock_module
from creditscope.study import store as module
from creditscope.study.lock import RunLock
from creditscope.study.store import Failure, RunState, Store

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
        assert list(store.litter()) == []
    finally:
        other.kill()
        other.communicate()
    assert store.state(KEY) is RunState.MISSING
    assert list(store.litter()) == [path]
    taken = store.lock(KEY)
    assert taken is not None  # the lock of a dead process is free
    assert store.lock(KEY) is None  # and holds within one process too
    taken.release()
    assert not path.exists()


def test_litter_is_what_nobody_will_read_again(store):
    committed(store)
    dead = 2**22 + 1  # above the largest process id
    other = "00000000000000aa"
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
    assert {path.name for path in store.litter()} == {names[0], names[3]}
    everything = {path.name for path in store.litter(failed=True, snapshots=True)}
    assert everything == {names[0], names[1], names[2], names[3]}
    store.clean(list(store.litter()))
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
