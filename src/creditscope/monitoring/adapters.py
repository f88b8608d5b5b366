"""Adapters of what people log with already; each is recognised by what it can do, and its package is not imported.

Pass the run, not the module: `wandb.init()`, `trackio.init()`, `mlflow.start_run()`, a SummaryWriter, a Lightning
logger, a transformers Trainer, an Accelerator, a function, or a path.
"""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from creditscope.arguments import as_path, as_text
from creditscope.errors import BadFile, InvalidInput
from creditscope.monitoring.loggers import (
    REPORT,
    CsvLogger,
    FunctionLogger,
    Logger,
    event_text,
    event_title,
    report_files,
)
from creditscope.records.report import Report
from creditscope.terminal import one_line
from creditscope.verdict import Finding

EPOCH = "creditscope/epoch"
PER_REQUEST = 1000  # metrics that MLflow takes at once


class RunLogger(Logger):
    """A run of W&B or of trackio: alarms are alerts, the report is an artifact.

    W&B refuses steps that go back, so that our epochs would clash with a loop that logs its own steps. There the epoch
    is a number of its own, declared as the axis of all numbers of creditscope.
    """

    def __init__(self, run: Any) -> None:
        self._run, self._axis_declared = run, False
        self._is_wandb = hasattr(run, "define_metric")

    def log(self, scalars: dict[str, float], step: int) -> None:
        """Send the numbers."""
        if not self._is_wandb:
            self._run.log(scalars, step=step)
            return
        if not self._axis_declared:
            self._run.define_metric(EPOCH)
            self._run.define_metric("creditscope/*", step_metric=EPOCH)
            self._axis_declared = True
        self._run.log({EPOCH: step, **scalars})

    def event(self, finding: Finding, epoch: int, step: int) -> None:
        """Send an alert."""
        level = {"level": "WARN"} if self._is_wandb else {}  # the default of trackio
        self._run.alert(title=event_title(finding)[:63], text=f"epoch {epoch}: {event_text(finding)}", **level)

    def report(self, report: Report) -> None:
        """Store the report, and on W&B the verdict in the summary."""
        if self._is_wandb:
            self._run.summary["creditscope/verdict"] = str(report.verdict)
        with report_files(report) as folder:
            self._run.log_artifact(str(folder), name=REPORT, type=REPORT)


class MlflowLogger(Logger):
    """A run of MLflow: alarms are tags, the report is an artifact."""

    def __init__(self, client: Any, run: str) -> None:
        self._client, self._run = client, run

    @classmethod
    def of_run(cls, run: Any) -> MlflowLogger:
        """The adapter of what `mlflow.start_run()` returns."""
        return cls(importlib.import_module("mlflow").MlflowClient(), run.info.run_id)

    def log(self, scalars: dict[str, float], step: int) -> None:
        """Send the numbers in as few requests as possible."""
        entities, now = importlib.import_module("mlflow.entities"), time.time_ns() // 1_000_000
        metrics = [entities.Metric(name, number, now, step) for name, number in scalars.items()]
        for start in range(0, len(metrics), PER_REQUEST):
            self._client.log_batch(self._run, metrics=metrics[start : start + PER_REQUEST])

    def event(self, finding: Finding, epoch: int, step: int) -> None:
        """Set a tag."""
        self._client.set_tag(self._run, f"creditscope.alarm.{finding.code}", f"epoch {epoch}: {event_text(finding)}")

    def report(self, report: Report) -> None:
        """Store the report under creditscope/, and the verdict as a tag."""
        self._client.set_tag(self._run, "creditscope.verdict", str(report.verdict))
        with report_files(report) as folder:
            self._client.log_artifacts(self._run, str(folder), "creditscope")


class TensorBoardLogger(Logger):
    """A SummaryWriter: alarms and the report are texts."""

    def __init__(self, writer: Any) -> None:
        self._writer, self._step = writer, 0

    def log(self, scalars: dict[str, float], step: int) -> None:
        """Write the numbers at once, so that a run that is killed has them."""
        self._step = step
        for name, number in scalars.items():
            self._writer.add_scalar(name.replace(":", "_"), number, step)  # its tags have no colon
        self._writer.flush()

    def event(self, finding: Finding, epoch: int, step: int) -> None:
        """Write a text."""
        self._writer.add_text(
            "creditscope/alarms", f"{event_title(finding)} at epoch {epoch}: {event_text(finding)}", step
        )
        self._writer.flush()

    def report(self, report: Report) -> None:
        """Write the report as a text, at the last step."""
        self._writer.add_text("creditscope/report", report.to_markdown(), self._step)
        self._writer.flush()


class LightningLogger(Logger):
    """A logger of Lightning: numbers by itself, alarms and the report by what it wraps."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def log(self, scalars: dict[str, float], step: int) -> None:
        """Send the numbers."""
        self._logger.log_metrics(scalars, step=step)

    def event(self, finding: Finding, epoch: int, step: int) -> None:
        """Send the event where what it wraps has events."""
        inner = self._inner()
        if inner is not None:
            inner.event(finding, epoch, step)

    def report(self, report: Report) -> None:
        """Store the report where what it wraps has artifacts."""
        inner = self._inner()
        if inner is not None:
            inner.report(report)

    def _inner(self) -> Logger | None:
        experiment, run = getattr(self._logger, "experiment", None), getattr(self._logger, "run_id", None)
        if isinstance(run, str) and hasattr(experiment, "log_batch"):
            return MlflowLogger(experiment, run)
        return _recognised(experiment)


class TrainerLogger(Logger):
    """A Trainer of transformers: whatever it reports to gets the numbers, and they stand in its log history."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def log(self, scalars: dict[str, float], step: int) -> None:
        """Send the numbers at the trainer's own step; a log that is due stays due."""
        due = self._trainer.control.should_log
        self._trainer.log(dict(scalars))
        self._trainer.control.should_log = due


def as_loggers(given: Any) -> tuple[Logger, ...]:
    """The adapters of what the user logs with: nothing, one thing, or a list of them."""
    if given is None:
        return ()
    return tuple(map(as_logger, given)) if isinstance(given, list | tuple) else (as_logger(given),)


def as_logger(given: Any) -> Logger:
    """The adapter of one thing that the user logs with."""
    if isinstance(given, Logger):
        return given
    if isinstance(given, str | Path):
        given = as_path(as_text("logger", str(given)))
        return CsvLogger(given) if Path(given).suffix.lower() == ".csv" else TensorBoardLogger(_writer(given))
    adapter = None if isinstance(given, ModuleType | type) else _recognised(given)
    if adapter is not None:
        return adapter
    found = f"the module {given.__name__}" if isinstance(given, ModuleType) else f"a {type(given).__name__}"
    raise InvalidInput(
        f"logger is {found}, which has no log(scalars, step).\n"
        "The numbers could not be written. Pass a run (wandb.init(), trackio.init(), mlflow.start_run()), a "
        "SummaryWriter, a Lightning logger, a transformers Trainer, a function (scalars, step), a .csv file or the "
        "folder for TensorBoard."
    )


def _recognised(given: Any) -> Logger | None:
    """The adapter of an object, by what it can do; None if it takes no numbers."""
    if _has(given, "log", "alert", "log_artifact"):
        return RunLogger(given)
    if _has(getattr(given, "info", None), "run_id"):
        return MlflowLogger.of_run(given)
    if _has(given, "add_scalar", "add_text"):
        return TensorBoardLogger(given)
    if _has(given, "log", "callback_handler", "control"):
        return TrainerLogger(given)
    if _has(given, "log_metrics"):
        return LightningLogger(given)
    if _has(given, "log"):
        return FunctionLogger(given.log)
    return FunctionLogger(given) if callable(given) else None


def _has(given: Any, *names: str) -> bool:
    return all(hasattr(given, name) for name in names)


def _writer(folder: Path | str) -> Any:
    """A TensorBoard writer into a folder."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InvalidInput(
            "TensorBoard is not installed.\n"
            "The numbers could not be written. Install the extra: pip install 'creditscope[tensorboard]'."
        ) from error
    try:
        return SummaryWriter(str(folder))
    except OSError as error:
        raise BadFile(
            f"{one_line(str(folder))} cannot be written: {error.strerror}.\n"
            "The numbers would be lost. Choose another folder."
        ) from error
