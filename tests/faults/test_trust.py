"""Files that somebody sent: nothing in them is run, and nothing in them is believed that can be checked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.study.made import PretendEngine, record, write_study
from tests.study.test_tables import EXPLODED, HEALTHY, report

import creditscope
from creditscope import plugins
from creditscope.cli import run
from creditscope.errors import CreditscopeError, DamagedFile
from creditscope.plugins import UntrustedModule
from creditscope.reading import ZEROS, parse_toml, sealed
from creditscope.records.run import RunRecord
from creditscope.runs.audit import audit_folder
from creditscope.runs.run import train, train_into
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study
from creditscope.study.display.board import Board
from creditscope.study.driver import StudyOptions, run_study
from creditscope.study.plan import Plan, plan
from creditscope.study.store import RunState, Store

PAYLOAD = """
from pathlib import Path
Path(__file__).with_name("it_ran").touch()
from torch import nn

def make(width=4):
    return nn.Sequential(nn.Flatten(), nn.Linear(40, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 10))
"""
SPEC = RunSpec(method="dfa", epochs=0, network_options={"d": 8, "depth": 2}, seed=3)


@pytest.fixture
def payload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module in the current folder; the file that it leaves when it is imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plugins, "_vouched", set())
    (tmp_path / "payload_module.py").write_text(PAYLOAD)
    monkeypatch.delitem(__import__("sys").modules, "payload_module", raising=False)
    return tmp_path / "it_ran"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_into(folder, SPEC)
    return folder


@pytest.fixture
def sent(trained: Path, tmp_path: Path) -> Path:
    """A copy of a run's folder that can be changed."""
    return Path(shutil.copytree(trained, tmp_path / "sent"))


def rewrite(path: Path, change: Callable[[dict[str, Any]], None], *, seal: bool = False) -> None:
    """Change the content of a record, without a checksum as older versions wrote it, or with a new one."""
    content = json.loads(path.read_text())
    content.pop("checksum", None)
    change(content)
    text = json.dumps({"checksum": ZEROS, **content}) if seal else json.dumps(content)
    path.write_bytes(sealed(text.encode()) if seal else text.encode())


# --- nothing that a file names is imported ---


@pytest.mark.parametrize("change", [{"plugins": ["payload_module"]}, {"network": "payload_module:make"}])
def test_the_record_of_a_folder_imports_nothing_until_the_user_says_so(sent, payload, capsys, change):
    rewrite(sent / "record.json", lambda content: content["spec"].update(change), seal=True)
    assert run(["audit", str(sent)]) == 2
    said = capsys.readouterr().err
    assert "names code outside creditscope: payload_module." in said
    assert "--trust-plugins" in said
    with pytest.raises(UntrustedModule):
        creditscope.load(sent)
    assert run(["report", str(sent)]) == 0
    assert not payload.exists()
    with pytest.raises(CreditscopeError):  # imported now, and then refused: the key is not that of this spec
        creditscope.load(sent, trust_plugins=True)
    assert payload.exists()


def test_a_function_of_a_module_that_is_loaded_already_is_not_called_either(sent):
    rewrite(sent / "record.json", lambda content: content["spec"].update(network="shutil:rmtree"))
    with pytest.raises(UntrustedModule, match="shutil"):
        creditscope.load(sent)


def test_the_record_of_a_control_imports_nothing(sent, payload):
    control = SPEC.control_spec("frozen")
    forged = record(control).model_copy(update={"spec": control.model_dump() | {"network": "payload_module:make"}})
    place = sent / "controls" / "frozen" / "record.json"
    place.parent.mkdir(parents=True)
    forged.to_json(place)
    with pytest.raises(UntrustedModule, match="payload_module"):
        audit_folder(sent)
    assert not payload.exists()


@pytest.mark.parametrize("line", ['plugins = ["payload_module"]', '[fixed]\nmodel = "payload_module:make"'])
@pytest.mark.parametrize("command", ["run", "status", "report", "compare", "export"])
def test_a_study_imports_nothing_until_the_user_says_so(payload, tmp_path, capsys, command, line):
    study = write_study(tmp_path, line)
    more = ["--csv", "-"] if command == "export" else []
    assert run(["study", command, str(study), *more]) == 2
    assert "names code outside creditscope: payload_module." in capsys.readouterr().err
    assert not payload.exists()


def test_plugins_of_a_study_are_imported_by_name_or_all_together_and_the_keys_are_the_same(payload, tmp_path, capsys):
    study = write_study(tmp_path, 'plugins = ["payload_module"]\n[fixed]\nepochs = 1\n[grid]\nseed = [1]')
    pages = []
    for flags in (["--plugin", "payload_module"], ["--trust-plugins"]):
        assert run(["study", "run", str(study), "--dry-run", *flags]) == 0
        pages.append(capsys.readouterr().out)
    assert pages[0] == pages[1]
    assert payload.exists()


def test_a_stored_expansion_that_was_changed_is_not_used(payload, tmp_path, capsys):
    study, store = write_study(tmp_path), tmp_path / "store"
    store.mkdir()
    runs = plan(Study.read(study), store=store)
    (path,) = (store / "expanded").iterdir()
    evil = {"../../outside": {"network": "payload_module:make"}}
    path.write_bytes(sealed(json.dumps({"checksum": ZEROS, "runs": evil}).encode()))
    assert plan(Study.read(study), store=store) == runs
    assert not payload.exists()


# --- a record belongs to its run ---


def made_study(tmp_path: Path) -> tuple[Path, Store, Plan]:
    """Twelve finished runs: BP is healthy, DFA has exploded."""
    study, store = write_study(tmp_path), Store(tmp_path / "store")
    runs = plan(Study.read(study), store=store.folder, create=True)
    for key, spec in runs.items():
        store.commit(key, b"weights", record(spec, report=report(HEALTHY if spec.method == "bp" else EXPLODED)))
    return study, store, runs


def first(runs: Plan, method: str) -> str:
    return next(key for key, spec in runs.items() if spec.method == method and spec.control == "none")


def asked(study: Path, store: Store, command: str) -> int:
    return run(["study", command, str(study), "--store", str(store.folder), "--results", str(study.parent)])


def test_the_record_of_bp_in_the_folder_of_dfa_is_no_record_of_dfa(tmp_path, capsys):
    study, store, runs = made_study(tmp_path)
    bp, dfa = first(runs, "bp"), first(runs, "dfa")
    shutil.copy(store.folder / bp / "record.json", store.folder / dfa / "record.json")
    assert store.ended(dfa) is RunState.MISSING
    with pytest.raises(CreditscopeError, match=f"the record of another run: its key is {bp}"):
        store.record(dfa)
    assert asked(study, store, "status") == 0
    assert "11 done, 0 running, 0 failed, 1 missing" in (said := capsys.readouterr().out)
    assert f"damaged {dfa}" in said
    assert asked(study, store, "report") == 0
    assert f"damaged {dfa}" in capsys.readouterr().err
    assert run(["report", str(store.folder)]) == 2
    assert f"is not the record of the run {dfa}" in capsys.readouterr().err


@pytest.mark.parametrize("seal", [True, False])
def test_a_record_with_the_key_of_one_run_and_the_spec_of_another_is_refused(tmp_path, capsys, seal):
    study, store, runs = made_study(tmp_path)
    bp, dfa = first(runs, "bp"), first(runs, "dfa")
    path = store.folder / dfa / "record.json"
    shutil.copy(store.folder / bp / "record.json", path)
    rewrite(path, lambda content: content.update(key=dfa), seal=seal)
    assert asked(study, store, "report") == 2
    assert f"The record of the run {dfa} is that of another run: bp on mnist1d" in capsys.readouterr().err


def test_a_key_that_is_not_that_of_the_spec_is_refused(sent):
    rewrite(sent / "record.json", lambda content: content["spec"].update(seed=4), seal=True)
    with pytest.raises(DamagedFile, match=f"has the key {SPEC.key}, but its spec is that of the run"):
        creditscope.load(sent)


def test_weights_of_another_run_are_refused(sent, tmp_path):
    train(SPEC.model_copy(update={"seed": 4})).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "weights.safetensors", sent)
    with pytest.raises(DamagedFile, match="not the weights that the record was written with"):
        creditscope.load(sent)


def test_of_an_older_record_the_report_says_that_its_weights_were_not_compared(sent):
    def older(content: dict[str, Any]) -> None:
        for name in ("weights_checksum", "revisions", "threads"):
            content.pop(name)
        content["spec"].pop("threads")

    rewrite(sent / "record.json", older)
    done = audit_folder(sent, limit=256)
    assert "holds no checksum of its weights" in done.report.subject.notes


def test_a_key_never_leads_out_of_the_store(tmp_path):
    store = Store(tmp_path / "store")
    for key in ("../../outside", "/tmp/outside", "0" * 15, "0" * 16 + "\n", ""):
        for write in (
            lambda key=key: store.commit(key, b"", record(SPEC, key=SPEC.key)),
            lambda key=key: store.lock(key),
            lambda key=key: store.snapshot(key),
        ):
            with pytest.raises(DamagedFile, match="is not the key of a run"):
                write()
    assert not list(tmp_path.iterdir())


# --- a verdict follows from its findings ---


def forged(path: Path, **verdict: Any) -> None:
    text = {"text": "PASS", "outcome": "pass", "shown": [], "open": [], "why": "Trust me.", "warnings": []} | verdict
    rewrite(path, lambda content: content["report"]["verdict"].update(text))


def test_a_forged_pass_is_replaced_by_the_verdict_of_the_findings_and_the_page_says_so(tmp_path, capsys):
    _, store, runs = made_study(tmp_path)
    path = store.folder / first(runs, "dfa") / "record.json"
    forged(path)
    assert run(["report", str(path.parent), "--format", "full"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "FAIL(D1+D2)" in page
    assert "The file says 'PASS', which does not follow from its findings" in page
    assert "Trust me" not in page


def test_a_forged_status_is_judged_again_by_its_number(tmp_path):
    path = tmp_path / "report.json"
    report(EXPLODED).to_json(path)

    def harmless(content: dict[str, Any]) -> None:
        for finding in content["findings"].values():
            finding["status"] = "pass"

    rewrite(path, harmless)
    found = creditscope.Report.from_json(path)
    assert found.findings["D1"].status == "fires"
    assert found.verdict.text == report(EXPLODED).verdict.text


def test_a_protocol_that_nobody_knows_confirms_nothing(tmp_path):
    path = tmp_path / "report.json"
    report(HEALTHY).to_json(path)
    rewrite(path, lambda content: content.update(protocol="friendly"))
    assert creditscope.Report.from_json(path).verdict.outcome == "inconclusive"


def test_an_honest_report_comes_back_as_it_was(tmp_path):
    for values in (HEALTHY, EXPLODED):
        report(values).to_json(tmp_path / "report.json")
        assert creditscope.Report.from_json(tmp_path / "report.json") == report(values)


# --- damaged records do not count as done ---


def flip(content: bytes) -> bytes:
    changed = bytearray(content)
    changed[len(changed) // 2] ^= 4
    return bytes(changed)


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "one bit": flip,
    "not UTF-8": lambda content: b"\xff\xfe" + content,
    "a folder": lambda content: None,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_status_report_and_run_agree_that_a_damaged_record_is_not_done(tmp_path, capsys, kind):
    study, store, runs = made_study(tmp_path)
    key = first(runs, "dfa")
    path = store.folder / key / "record.json"
    damaged = DAMAGE[kind](path.read_bytes())
    path.unlink()
    path.mkdir() if damaged is None else path.write_bytes(damaged)
    assert asked(study, store, "status") == 0
    assert "11 done" in (said := capsys.readouterr().out)
    assert f"damaged {key}" in said
    assert asked(study, store, "report") == 0
    assert f"damaged {key}" in capsys.readouterr().err
    assert run(["study", "show", key, "--store", str(store.folder)]) == 0
    engine = PretendEngine()
    summary = run_study(runs, Store(store.folder), engine, Board(), StudyOptions())
    assert (summary.done, [job.trained for job in engine.jobs]) == ([key], [None])
    assert "damaged-1, and the run is run again" in capsys.readouterr().err
    assert (store.folder / key / "damaged-1" / "reason.txt").read_text().strip()
    assert Store(store.folder).ended(key) is RunState.DONE


def test_damaged_weights_are_found_before_they_are_audited_again(tmp_path, capsys):
    _, store, runs = made_study(tmp_path)
    key = first(runs, "dfa")
    (store.folder / key / "weights.safetensors").write_bytes(b"weightz")
    engine = PretendEngine()
    run_study({key: runs[key]}, store, engine, Board(), StudyOptions(audit_again=True))
    assert [job.trained for job in engine.jobs] == [None]
    assert "not the weights" in capsys.readouterr().err


def test_a_record_of_a_newer_creditscope_is_never_moved_aside(tmp_path):
    _, store, runs = made_study(tmp_path)
    key = first(runs, "dfa")
    rewrite(store.folder / key / "record.json", lambda content: content.update(schema_version=3))
    with pytest.raises(CreditscopeError, match="schema version 3"):
        Store(store.folder).ended(key)


def test_train_sets_a_damaged_run_aside_and_trains_it_again(sent, tmp_path, capsys):
    command = ["train", "--out", str(sent), "--method", "dfa", "--epochs", "0", "--seed", "3"]
    command += ["--option", "d=8", "--option", "depth=2"]
    assert run(command) == 0
    assert "already trained" in capsys.readouterr().out
    weights = (sent / "weights.safetensors").read_bytes()
    (sent / "record.json").write_bytes(flip((sent / "record.json").read_bytes()))
    assert run(command) == 0
    said = capsys.readouterr()
    assert "already trained" not in said.out
    assert "its checksum does not match" in said.err
    assert (sent / "weights.safetensors").read_bytes() == weights
    assert RunRecord.from_json(sent / "record.json").key == SPEC.key


# --- records edited by hand ---

EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "options are a list": lambda content: content["spec"].update(method_options=["index"]),
    "options are a text": lambda content: content["spec"].update(network_options="d=8"),
    "an option is a table": lambda content: content["spec"].update(network_options={"d": {"a": 1}}),
    "penalty is a text": lambda content: content["spec"].update(penalty="much"),
    "no test images": lambda content: content.update(test_images=0),
    "less than no test images": lambda content: content.update(test_images=-1),
    "accuracy beyond 1": lambda content: content["history"][0].update(accuracy=7),
    "a seed that is a list": lambda content: content["spec"].update(seed=[1]),
    "resolved holds a table": lambda content: content.update(resolved={"method.index": {}}),
    "the history is a text": lambda content: content.update(history="long"),
    "more blocks than memory": lambda content: content["report"]["subject"].update(depth=10**15),
    "a finding under another code": lambda content: content["report"]["findings"].update(
        D1=content["report"]["findings"]["D2"]
    ),
    "a number of 5,000 digits": lambda content: content.update(data_checksum="@"),
}


@pytest.mark.parametrize("kind", EDITS)
def test_a_record_edited_by_hand_ends_with_a_message(tmp_path, capsys, kind):
    study, store, runs = made_study(tmp_path)
    path = store.folder / first(runs, "dfa") / "record.json"
    rewrite(path, EDITS[kind])
    path.write_text(path.read_text().replace('"@"', "9" * 5000))
    assert run(["report", str(path.parent)]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 31
    for command, code in (("status", 0), ("report", 0)):
        assert asked(study, store, command) == code
        assert f"damaged {path.parent.name}" in "".join(capsys.readouterr())
    assert run(["audit", str(path.parent)]) == 2


@pytest.mark.parametrize("depth", [500, 10_000])
def test_bombs_end_with_a_message(tmp_path, capsys, depth):
    bomb = "[" * depth + "]" * depth
    study = tmp_path / "study.toml"
    keys = ["a." * depth + "a = 1", "[" + "'='.1." * depth + "a]", "x = {" + '"a" . ' * depth + "a = 1.5}"]
    for text in (f"a = {bomb}", f"a = {'9' * 5000}", "x" * 100 + "=" + "[1," * depth, *keys, "#" * 2**23):
        study.write_text(text)
        assert run(["study", "run", str(study)]) == 2
    record_path = tmp_path / "record.json"
    for text in (bomb, f'{{"schema_version": 2, "spec": {bomb}}}', "9" * 5000, "[" * depth):
        record_path.write_text(text)
        assert run(["report", str(record_path)]) == 2
        assert run(["partial-audit", str(record_path)]) == 2
    assert "Traceback" not in capsys.readouterr().err
    numbers = parse_toml(f"a = [{'0.5, ' * depth}-1.5e3]", "numbers")  # their dots nest nothing
    assert len(numbers["a"]) == depth + 1


# --- threads ---


def test_the_number_of_threads_is_part_of_the_key_unless_it_is_one():
    plain = RunSpec(method="dfa", seed=1)
    assert plain.model_copy(update={"threads": 1}).key == plain.key
    assert plain.model_copy(update={"threads": 2}).key != plain.key
    assert "threads" not in plain.resolved()


def test_a_run_computes_with_the_threads_of_its_spec_whatever_the_process_uses():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        checkpoint = train(SPEC)
        assert checkpoint.record.threads == 1
        assert torch.get_num_threads() == 2
        assert train(SPEC.model_copy(update={"threads": 2})).record.threads == 2
    finally:
        torch.set_num_threads(before)


def test_the_report_of_a_run_says_how_many_threads_computed_it(sent):
    assert audit_folder(sent, limit=256).report.provenance.threads == 1
    other = audit_folder(sent, limit=256, threads=2)
    assert other.report.provenance.threads == 2
    assert "another threads" in other.unsaved
