"""A monitor's numbers, alarms and report reach whatever a user logs with."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.foreign_models import CLASSES, FEATURES, WIDTH, batches
from torch import nn

import creditscope.monitoring.lightning
import creditscope.monitoring.transformers
from creditscope import Monitor
from creditscope.errors import BadFile, InvalidInput
from creditscope.monitoring.adapters import TensorBoardLogger, TrainerLogger, as_logger, as_loggers
from creditscope.monitoring.loggers import CsvLogger, FunctionLogger, Logger
from creditscope.networks.build import build
from creditscope.records.report import Report
from creditscope.verdict import Finding


def network() -> nn.Module:
    return build("resmlp", FEATURES, CLASSES, 0, d=WIDTH, depth=2)


class Kept(Logger):
    """A logger that keeps everything."""

    def __init__(self) -> None:
        self.said: list[tuple[dict[str, float], int]] = []
        self.events: list[tuple[str, int, int]] = []
        self.reports: list[Report] = []

    def log(self, scalars: dict[str, float], step: int) -> None:
        self.said.append((scalars, step))

    def event(self, finding: Finding, epoch: int, step: int) -> None:
        self.events.append((finding.code, epoch, step))

    def report(self, report: Report) -> None:
        self.reports.append(report)


def quiet(finding: Finding, epoch: int) -> None:
    """Instead of a printed line."""


def watched(logger: Any, **options: Any) -> Monitor:
    return Monitor(network(), batches(2, 16), thresholds={"D1": 0.5}, on_firing=quiet, logger=logger, **options)


def test_a_logger_gets_every_number_every_first_alarm_and_the_report() -> None:
    kept = Kept()
    monitor = watched(kept)
    rows = [monitor.step(epoch) for epoch in range(2)]
    first, second = (row.scalars() for row in rows if row is not None)
    assert kept.said == [(first | {"creditscope/alarm/D1": 1.0}, 0), (second, 1)]
    assert {"creditscope/D1", "creditscope/accuracy", "creditscope/hidden_norm/2"} <= first.keys()
    assert kept.events == [("D1", 0, 0)]
    report = monitor.report()
    assert kept.reports == [report]


def test_a_monitor_logs_at_the_step_that_it_is_told() -> None:
    kept = Kept()
    watched(kept).step(3, log_step=400)
    assert [step for _, step in kept.said] == [400]
    assert kept.events == [("D1", 3, 400)]


def test_a_function_an_object_with_log_and_several_of_them_are_taken() -> None:
    heard: list[tuple[dict[str, float], int]] = []

    class Own:
        def log(self, scalars: dict[str, float], step: int) -> None:
            heard.append((scalars, step))

    monitor = watched([Own(), lambda scalars, step: heard.append((scalars, step)), Own().log])
    monitor.step(5)
    assert len(heard) == 3
    assert heard[0] == heard[1] == heard[2]
    assert heard[0][1] == 5
    monitor.report()
    assert as_loggers(None) == ()
    kept = Kept()
    assert as_loggers((kept, kept)) == (kept, kept)


class Board:
    """What TensorBoard's writer is asked for."""

    def __init__(self) -> None:
        self.said: dict[tuple[str, int], float] = {}
        self.texts: dict[str, str] = {}

    def add_scalar(self, tag: str, number: float, step: int) -> None:
        self.said[tag, step] = number

    def add_text(self, tag: str, text: str, step: int | None = None) -> None:
        self.texts[tag] = text

    def flush(self) -> None:
        pass


def test_a_writer_of_tensorboard_gets_numbers_under_tags_that_it_can_take() -> None:
    board = Board()
    monitor = watched(board)
    row = monitor.step(0)
    assert row is not None
    assert board.said["creditscope/D1_stream", 0] == row.findings["D1:stream"].value
    assert board.texts["creditscope/alarms"].startswith("creditscope: D1 Scale stability fires at epoch 0: 1.0")
    monitor.report()
    assert "D1" in board.texts["creditscope/report"]


class Stopped:
    should_log = True


class Trainer:
    """What transformers' Trainer does when it logs: the log that was due counts as done."""

    def __init__(self) -> None:
        self.control, self.callback_handler = Stopped(), None
        self.said: list[dict[str, float]] = []

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        logs["epoch"] = 0.5
        self.said.append(logs)
        self.control.should_log = False


def test_a_log_of_the_trainer_that_is_due_stays_due() -> None:
    trainer, scalars = Trainer(), {"creditscope/D1": 1.0}
    adapter = as_logger(trainer)
    assert isinstance(adapter, TrainerLogger)
    adapter.log(scalars, 7)
    assert trainer.control.should_log
    assert trainer.said == [{"creditscope/D1": 1.0, "epoch": 0.5}]
    assert scalars == {"creditscope/D1": 1.0}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_csv_file_has_a_row_per_step_and_the_report_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "run.csv"
    monitor = watched(path)
    first, second = monitor.step(0), monitor.step(1)
    assert first is not None
    assert second is not None
    zero, one = rows(path)
    assert (zero["step"], one["step"]) == ("0", "1")
    assert (zero["creditscope/alarm/D1"], one["creditscope/alarm/D1"]) == ("1.0", "")
    assert all(float(one[name]) == number for name, number in second.scalars().items())
    report = monitor.report()
    assert Report.from_json(path.with_name("run-report.json")) == report
    assert str(report.verdict) in path.with_name("run-report.html").read_text(encoding="utf-8")


def test_a_resumed_run_keeps_the_rows_before_it_and_a_new_one_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    first = CsvLogger(path)
    for step in range(3):
        first.log({"a": step}, step)
    resumed = CsvLogger(path)
    resumed.log({"b": 0.5}, 2)
    assert rows(path) == [
        {"step": "0", "a": "0", "b": ""},
        {"step": "1", "a": "1", "b": ""},
        {"step": "2", "a": "", "b": "0.5"},
    ]
    CsvLogger(path).log({"b": float("nan")}, 0)
    assert rows(path) == [{"step": "0", "b": "nan"}]


@pytest.mark.parametrize("text", ["name,age\nAda,36\n", "step,a\nx,1\n", "step,a\n,1\n"])
def test_a_csv_file_of_something_else_is_not_overwritten(text: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadFile, match=r"(?s)exists and is not the CSV file of a monitor.*Choose another file"):
        watched(path)
    assert path.read_text(encoding="utf-8") == text


def test_a_csv_file_that_cannot_be_written_is_refused_before_the_training_begins(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(BadFile, match="file is not a folder"):
        watched(tmp_path / "file" / "run.csv")


@pytest.mark.parametrize("given", [3, torch, Kept, object()])
def test_what_takes_no_numbers_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"(?s)logger is .*, which has no log\(scalars, step\).*wandb.init\(\)"):
        as_logger(given)


def test_an_adapter_is_taken_as_it_is() -> None:
    for adapter in (FunctionLogger(print), TensorBoardLogger(Board())):
        assert as_logger(adapter) is adapter


def test_without_tensorboard_a_folder_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InvalidInput, match=r"(?s)TensorBoard is not installed.*creditscope\[tensorboard\]"):
        watched(tmp_path)


def test_without_lightning_its_callback_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creditscope.monitoring.lightning, "Callback", object)
    with pytest.raises(InvalidInput, match=r"(?s)Lightning is not installed.*creditscope\[lightning\]"):
        creditscope.CreditscopeCallback(batches(1, 8))


def test_without_transformers_its_callback_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creditscope.monitoring.transformers, "TrainerCallback", object)
    with pytest.raises(InvalidInput, match=r"(?s)transformers is not installed.*creditscope\[transformers\]"):
        creditscope.monitoring.transformers.CreditscopeCallback(batches(1, 8))
