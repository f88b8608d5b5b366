"""The frozen control of a run is found in its own folder or beside it."""

from __future__ import annotations

from tests.study.made import record

from creditscope.runs import controls
from creditscope.runs.controls import find_frozen_control
from creditscope.runs.spec import RunSpec

SPEC = RunSpec(epochs=1)
FROZEN = SPEC.control_spec("frozen")


def test_of_the_folders_beside_a_run_the_one_named_by_the_key_of_its_control_is_read_first(tmp_path, monkeypatch):
    for seed in range(5):
        other = SPEC.model_copy(update={"seed": seed})
        record(other).to_json(tmp_path / other.key / "record.json")
    record(FROZEN, 0.25).to_json(tmp_path / FROZEN.key / "record.json")
    read, whole = [], controls.read_record
    monkeypatch.setattr(controls, "read_record", lambda path: read.append(path.parent.name) or whole(path))
    found, why = find_frozen_control(tmp_path / SPEC.key, SPEC)
    assert (found.accuracy, why, read) == (0.25, "", [FROZEN.key])


def test_a_control_in_a_folder_of_any_other_name_is_found_too(tmp_path):
    (tmp_path / FROZEN.key).mkdir()
    (tmp_path / FROZEN.key / "record.json").write_text("not a record")
    record(FROZEN, 0.25).to_json(tmp_path / "mine" / "record.json")
    found, why = find_frozen_control(tmp_path / "run", SPEC)
    assert (found.accuracy, why) == (0.25, "")
