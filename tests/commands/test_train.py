"""`creditscope train` writes a checkpoint that `creditscope audit` needs nothing else for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from creditscope.cli import run
from creditscope.records.report import Report
from creditscope.records.run import Divergence, RunRecord

SMALL = ["--option", "d=16", "--option", "depth=2", "--epochs", "2", "--threads", "1"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DFA run with its two controls."""
    folder = tmp_path_factory.mktemp("runs") / "dfa"
    assert run(["train", "--method", "dfa", *SMALL, "--controls", "frozen,shallow", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """The same run in a folder of the test's own, not audited yet."""
    folder = Path(shutil.copytree(trained, tmp_path / "run"))
    record = RunRecord.from_json(folder / "record.json")
    record.model_copy(update={"report": None}).to_json(folder / "record.json")
    return folder


def saved(folder: Path) -> Report | None:
    return RunRecord.from_json(folder / "record.json").report


def test_train_writes_weights_and_record_and_nothing_else(trained: Path) -> None:
    assert sorted(path.name for path in trained.iterdir()) == ["controls", "record.json", "weights.safetensors"]
    assert sorted(path.name for path in (trained / "controls").iterdir()) == ["frozen", "shallow"]


def test_the_record_says_what_was_run(trained: Path) -> None:
    record = RunRecord.from_json(trained / "record.json")
    assert record.spec["method"] == "dfa"
    assert [row.epoch for row in record.history] == [0, 1]
    assert len(record.history[0].gamma) == 3
    assert RunRecord.from_json(trained / "controls" / "frozen" / "record.json").spec["control"] == "frozen"


def test_the_same_run_is_not_done_twice(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (trained / "record.json").read_bytes()
    assert run(["train", "--method", "dfa", *SMALL, "--out", str(trained)]) == 0
    assert "already trained" in capsys.readouterr().out
    assert (trained / "record.json").read_bytes() == before


def test_another_run_never_overwrites_a_folder(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (trained / "record.json").read_bytes()
    assert run(["train", "--method", "bp", *SMALL, "--out", str(trained)]) == 2
    assert "holds another run" in capsys.readouterr().err
    assert (trained / "record.json").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "dfx"], "Did you mean 'dfa'?"),
        (["--method", "dfa", "--method-option", "indx=input"], "Did you mean 'index'?"),
        (["--method", "dfa", "--method-option", "index=sideways"], "index must be 'output' or 'input'"),
        (["--option", "depht=2"], "Did you mean 'depth'?"),
        (["--data", "minst1d"], "Did you mean 'mnist1d'?"),
        (["--control", "frozn"], "no control called 'frozn'"),
        (["--control", "ladder-²"], "invalid value 'ladder-²': There is no control called 'ladder-²'. Did you mean"),
        (["--control", "ladder-²"], "ladder-0, ladder-1 and so on.\nNothing was trained. Correct the value."),
        (["--method", "state_bridge", "--network", "small_cnn"], "does not support the network 'small_cnn'"),
        (["--controls", "frozn"], "no control called 'frozn'"),
        (["--penalty", "-1"], "penalty must be a finite number of at least 0, got -1.\nNothing was trained"),
        (["--batch-size", "5000"], "No step would be taken"),
        (["--learning-rate", "0"], "learning_rate must be a finite number above 0, got 0.\n"),
        (["--learning-rate", "nan"], "learning_rate must be a finite number above 0, got nan.\n"),
        (["--epochs", "-1"], "epochs must be a whole number of at least 0, got -1.\n"),
        (["--epochs", "1.5"], "epochs must be a whole number of at least 0, got 1.5.\n"),
        (["--epochs", "true"], "epochs must be a whole number of at least 0, got 'true'.\n"),
        (["--lr", "0"], "creditscope train has no option --lr."),
        (["--epoch", "3"], "has no option --epoch. Did you mean '--epochs'?"),
        (["--option", "depth=2", "--controls", "frozen,ladder-9"], "The ladder has rungs 0 to 2"),
        (["--controls", "none"], "--controls cannot include 'none'"),
        (["--control", "frozen", "--controls", "frozen"], "--controls cannot be combined with --control frozen"),
    ],
)
def test_a_wrong_word_is_refused_and_leaves_nothing(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", *words, "--out", str(tmp_path / "new")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_audit_of_a_folder_finds_the_frozen_control_in_its_controls(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    assert run(["audit", str(trained), "--out", str(out)]) in (0, 1, 3)
    report = Report.from_json(out)
    frozen = RunRecord.from_json(trained / "controls" / "frozen" / "record.json")
    assert report.control_accuracy == (frozen.accuracy,)
    assert report.accuracy == (RunRecord.from_json(trained / "record.json").accuracy,)
    assert report.provenance.images == 1000


def test_audit_of_a_folder_finds_the_frozen_control_among_its_siblings(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("controls"))
    shutil.copytree(trained / "controls" / "shallow", tmp_path / "other")
    shutil.copytree(trained / "controls" / "frozen", tmp_path / "control")
    out = tmp_path / "report.json"
    run(["audit", str(tmp_path / "run"), "--out", str(out)])
    assert Report.from_json(out).control_accuracy == (
        RunRecord.from_json(tmp_path / "control" / "record.json").accuracy,
    )


def test_without_a_frozen_control_depth_stays_open(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("controls"))
    out = tmp_path / "report.json"
    run(["audit", str(tmp_path / "run"), "--out", str(out)])
    assert Report.from_json(out).findings["D3"].status == "skipped"


def test_a_control_accuracy_given_by_hand_wins(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    run(["audit", str(trained), "--control-accuracy", "0.5", "--out", str(out)])
    assert Report.from_json(out).control_accuracy == (0.5,)


def test_a_checkpoint_takes_no_other_network(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(trained), "--network", "resmlp"]) == 2
    assert "its record already decides --network" in capsys.readouterr().err


def test_a_folder_without_a_record_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(tmp_path)]) == 2
    assert "a folder without record.json" in capsys.readouterr().err


def test_spaces_and_empty_names_among_the_controls_do_not_matter(tmp_path: Path) -> None:
    assert run(["train", "--method", "dfa", *SMALL, "--controls", ", frozen", "--out", str(tmp_path / "run")]) == 0
    assert [path.name for path in (tmp_path / "run" / "controls").iterdir()] == ["frozen"]


def test_the_gradient_check_of_a_checkpoint_can_be_switched_off(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    run(["audit", str(trained), "--no-gradient-check", "--out", str(out)])
    assert Report.from_json(out).provenance.guards["gradient"].status == "switched off"


def test_a_path_that_is_not_there_is_said_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(tmp_path / "daf")]) == 2
    assert "there is no such file or folder" in capsys.readouterr().err


def test_a_checkpoint_is_audited_in_the_batches_that_were_asked_for(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    run(["audit", str(trained), "--batch-size", "500", "--out", str(out)])
    assert Report.from_json(out).provenance.batches == 2


def test_the_weights_file_of_a_checkpoint_can_be_audited_alone(trained: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "alone.json", tmp_path / "whole.json"
    words = ["--network", "resmlp", *SMALL[:4], "--data", "mnist1d"]
    assert run(["audit", str(trained / "weights.safetensors"), *words, "--out", str(out)]) in (0, 1, 3)
    run(["audit", str(trained), "--out", str(whole)])
    alone, with_record = Report.from_json(out), Report.from_json(whole)
    assert [alone.findings[code].value for code in ("D1", "D2")] == [
        with_record.findings[code].value for code in ("D1", "D2")
    ]


def test_a_damaged_control_is_refused_and_a_diverged_one_is_noted(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    control, out = tmp_path / "run" / "controls" / "frozen" / "record.json", tmp_path / "report.json"
    record = RunRecord.from_json(control)
    record.model_copy(update={"diverged": Divergence(epoch=1, why="the loss is not finite")}).to_json(control)
    run(["audit", str(tmp_path / "run"), "--out", str(out)])
    assert "the frozen control diverged in epoch 2" in Report.from_json(out).subject.notes
    control.write_text("{}", encoding="utf-8")
    assert run(["audit", str(tmp_path / "run")]) == 2
    assert "controls/frozen/record.json" in capsys.readouterr().err


def test_a_run_that_diverged_says_so_each_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "--method", "bp", *SMALL, "--learning-rate", "1e38", "--out", str(tmp_path / "run")]
    for _ in range(2):
        assert run(words) == 1
        assert "diverged in epoch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"data_checksum": "0" * 64}, "was trained on other data than mnist1d holds here"),
        ({"spec": {}}, "has no spec"),  # which is no default run
    ],
)
def test_a_record_that_belongs_to_something_else_is_refused(
    field: dict[str, object], said: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    record = RunRecord.from_json(tmp_path / "run" / "record.json")
    record.model_copy(update=field).to_json(tmp_path / "run" / "record.json")
    assert run(["audit", str(tmp_path / "run")]) == 2
    assert said in capsys.readouterr().err


def test_the_audit_of_a_run_is_saved_with_it_and_shown_by_report(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.json"
    assert saved(copied) is None
    code = run(["audit", str(copied), "--out", str(out)])
    page, err = capsys.readouterr()
    assert err == ""
    report = saved(copied)
    assert report is not None
    assert report.to_json() == Report.from_json(out).to_json()
    assert report.control_accuracy is not None
    assert report.verdict.exit_code == code
    assert run(["report", str(copied)]) == 0
    assert capsys.readouterr().out == page
    assert page.splitlines()[0].endswith(f" {report.verdict}")


def test_an_audit_saves_its_report_and_changes_nothing_else(copied: Path) -> None:
    before = RunRecord.from_json(copied / "record.json")
    weights = (copied / "weights.safetensors").read_bytes()
    run(["audit", str(copied)])
    after = RunRecord.from_json(copied / "record.json")
    assert after.model_copy(update={"report": None}).to_json() == before.to_json()
    assert (copied / "weights.safetensors").read_bytes() == weights
    assert sorted(path.name for path in copied.iterdir()) == ["controls", "record.json", "weights.safetensors"]


@pytest.mark.parametrize(
    ("words", "choice"),
    [
        (["--limit", "100"], "limit"),
        (["--protocol", "four"], "protocol"),
        (["--threshold", "D1=5"], "thresholds"),
        (["--batch-size", "500"], "batch_size"),
        (["--accuracy", "0.5"], "accuracy"),
        (["--control-accuracy", "0.5"], "control_accuracy"),
        (["--no-gradient-check"], "check_gradient"),
    ],
)
def test_an_audit_with_other_choices_leaves_the_saved_report_alone_and_says_so(
    words: list[str], choice: str, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["audit", str(copied)])
    before = (copied / "record.json").read_bytes()
    capsys.readouterr()
    run(["audit", str(copied), *words])
    expected = f"The report was not saved with the run: the standard audit has another {choice}, so its numbers differ."
    assert capsys.readouterr().err.strip() == expected
    assert (copied / "record.json").read_bytes() == before


def test_a_name_and_a_note_are_saved_with_the_run(copied: Path) -> None:
    run(["audit", str(copied), "--name", "mine", "--notes", "a remark"])
    report = saved(copied)
    assert report is not None
    assert (report.subject.name, report.subject.notes) == ("mine", "a remark")


def test_the_audit_of_a_folder_that_cannot_be_written_is_shown_with_a_note(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", read_only)
    assert run(["audit", str(copied)]) in (0, 1, 3)
    page, note = capsys.readouterr()
    assert "─ INCONCLUSIVE(D3)\n" in page
    assert "The report was not saved with the run" in note
    assert "record.json cannot be written: Read-only file system." in note
    monkeypatch.undo()
    assert saved(copied) is None


def test_a_run_can_be_trained_into_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert run(["train", "--method", "dfa", *SMALL, "--out", "."]) == 0
    assert sorted(path.name for path in Path().iterdir()) == ["record.json", "weights.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here"]


def test_options_of_a_dataset_reach_it_whatever_their_names(tmp_path: Path) -> None:
    words = ["--data", "teacher", "--data-option", "inputs=6", "--data-option", "classes=3"]
    words += ["--data-option", "samples=200,100", "--data-option", "widths=8,8"]
    assert run(["train", *SMALL, *words, "--out", str(tmp_path / "run")]) == 0
    record = RunRecord.from_json(tmp_path / "run" / "record.json")
    assert record.resolved["data.inputs"] == 6
    assert record.resolved["data.samples"] == [200, 100]
    assert record.test_images == 100
