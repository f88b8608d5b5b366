"""W&B, MLflow, trackio, TensorBoard and accelerate, offline: the numbers, the alarms and the report are found again."""

from __future__ import annotations

import json
import math
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.test_guides import ran

from creditscope import Monitor
from creditscope.networks.build import build
from creditscope.verdict import Finding

pytestmark = [pytest.mark.thirdparty, pytest.mark.filterwarnings("ignore")]

FEATURES, CLASSES = 12, 5
ALARM = "creditscope/alarm/D1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, to which every package is confined, without a network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a database needs more than mlflow-skinny
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    return tmp_path


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(32, FEATURES, generator=generator), torch.randint(CLASSES, (32,), generator=generator))
        for _ in range(2)
    ]


def quiet(finding: Finding, epoch: int) -> None:
    """Instead of a printed line."""


def monitored(logger: Any, epochs: int = 3) -> Monitor:
    """Three epochs of a network whose D1 fires from the first one on, and whose weights are lost before the last."""
    network = build("resmlp", FEATURES, CLASSES, 0, d=16, depth=2)
    monitor = Monitor(network, batches(), thresholds={"D1": 0.5}, on_firing=quiet, logger=logger)
    for epoch in range(epochs):
        if epoch == epochs - 1:
            with torch.no_grad():
                network.blocks[0].w1.weight.fill_(math.nan)  # type: ignore[index,union-attr]
        monitor.step(epoch)
    assert set(monitor.first) >= {"D0", "D1"}
    return monitor


def expected(monitor: Monitor, name: str) -> list[float]:
    return [row.scalars()[name] for row in monitor.history]


def test_wandb_stores_numbers_on_our_own_axis_alerts_and_the_report(folder: Path) -> None:
    wandb = pytest.importorskip("wandb")
    with wandb.init(project="creditscope", dir=folder) as run:
        for step in range(50):
            run.log({"loss": 1.0 / (1 + step)})  # a loop that is far beyond our epochs
        monitor = monitored(run)
        report = monitor.report()
        assert run.summary["creditscope/verdict"] == str(report.verdict)
    wandb.teardown()  # waits until everything is in the file
    (stored,) = folder.glob("wandb/offline-run-*/*.wandb")
    records = list(wandb_records(stored))
    rows = [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]
    ours = [row for row in rows if "creditscope/D1" in row]
    assert [row["creditscope/epoch"] for row in ours] == [0, 1, 2]
    assert [row["creditscope/D1"] for row in ours[:2]] == expected(monitor, "creditscope/D1")[:2]
    assert math.isnan(ours[2]["creditscope/hidden_norm/2"])
    assert [row.get(ALARM) for row in ours] == [1.0, None, None]
    alerts = [record.alert.title for record in records if record.WhichOneof("record_type") == "alert"]
    assert alerts[0] == "creditscope: D1 Scale stability fires"
    axes = {record.metric.glob_name: record.metric.step_metric for record in records if record.metric.glob_name}
    assert axes == {"creditscope/*": "creditscope/epoch"}
    artifacts = [record for record in records if record.WhichOneof("record_type") == "artifact"]
    files = {file.path for record in artifacts for file in record.artifact.manifest.contents}
    files |= {entry.path for record in records for entry in record.request.log_artifact.artifact.manifest.contents}
    assert files == {"creditscope-report.json", "creditscope-report.html"}


def wandb_records(path: Path) -> Iterator[Any]:
    """The records of an offline run: LevelDB's log format, in blocks of 32 KiB, after a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    data, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # too little room for the next header
            at += 32768 - at % 32768
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def test_mlflow_stores_numbers_tags_and_the_report(folder: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    with mlflow.start_run() as run:
        monitor = monitored(run)
        report = monitor.report()
    client = mlflow.MlflowClient()
    stored = client.get_metric_history(run.info.run_id, "creditscope/D1")
    assert [metric.step for metric in stored] == [0, 1, 2]
    assert [metric.value for metric in stored][:2] == expected(monitor, "creditscope/D1")[:2]
    assert [metric.step for metric in client.get_metric_history(run.info.run_id, ALARM)] == [0]
    assert math.isnan(client.get_metric_history(run.info.run_id, "creditscope/hidden_norm/2")[-1].value)
    tags = client.get_run(run.info.run_id).data.tags
    assert tags["creditscope.alarm.D1"].startswith("epoch 0: ")
    assert tags["creditscope.verdict"] == str(report.verdict)
    files = {file.path for file in client.list_artifacts(run.info.run_id, "creditscope")}
    assert files == {"creditscope/creditscope-report.json", "creditscope/creditscope-report.html"}


def test_trackio_stores_numbers_alerts_and_the_report(folder: Path) -> None:
    trackio = pytest.importorskip("trackio")
    run = trackio.init(project="creditscope", auto_log_cpu=False, auto_log_gpu=False)
    monitor = monitored(run)
    monitor.report()
    trackio.finish()
    from trackio.sqlite_storage import SQLiteStorage

    rows = SQLiteStorage.get_logs("creditscope", run.name)
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert [row["creditscope/D1"] for row in rows][:2] == expected(monitor, "creditscope/D1")[:2]
    assert [row.get(ALARM) for row in rows] == [1.0, None, None]
    titles = [alert["title"] for alert in SQLiteStorage.get_alerts("creditscope")]
    assert "creditscope: D1 Scale stability fires" in titles
    with sqlite3.connect(folder / "trackio" / "creditscope.db") as stored:
        ((manifest,),) = stored.execute("select manifest from artifact_versions").fetchall()
    assert all(f"creditscope-report.{kind}" in manifest for kind in ("json", "html"))


def test_tensorboard_stores_numbers_and_texts(folder: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monitor = monitored(folder / "board")
    report = monitor.report()
    events = EventAccumulator(str(folder / "board")).Reload()
    stored = events.Scalars("creditscope/D1")
    assert [event.step for event in stored] == [0, 1, 2]
    assert [event.value for event in stored][:2] == pytest.approx(expected(monitor, "creditscope/D1")[:2])
    assert [event.step for event in events.Scalars(ALARM)] == [0]
    alarms = events.Tensors("creditscope/alarms/text_summary")
    assert b"D1 Scale stability fires at epoch 0" in alarms[0].tensor_proto.string_val[0]
    (text,) = events.Tensors("creditscope/report/text_summary")
    assert str(report.verdict).encode() in text.tensor_proto.string_val[0]


def test_an_accelerator_passes_the_numbers_on_to_its_trackers(folder: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    from accelerate.tracking import GeneralTracker

    class Kept(GeneralTracker):  # type: ignore[misc]
        name, requires_logging_directory, tracker = "kept", False, None
        said: list[tuple[int, dict[str, float]]] = []  # noqa: RUF012

        def log(self, values: dict[str, float], step: int | None = None, **options: Any) -> None:
            self.said.append((step or 0, values))

        def store_init_configuration(self, values: dict[str, Any]) -> None:
            pass

    accelerator = accelerate.Accelerator(cpu=True, log_with=Kept())
    accelerator.init_trackers("creditscope")
    monitor = monitored(accelerator)
    assert [step for step, _ in Kept.said] == [0, 1, 2]
    assert [values["creditscope/D1"] for _, values in Kept.said][:2] == expected(monitor, "creditscope/D1")[:2]


def test_the_guide_runs_as_it_stands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("wandb", "mlflow", "trackio"):
        pytest.importorskip(package)
    found = ran("log-a-run.md", monkeypatch)
    assert (folder / "run.csv").exists()
    assert (folder / "run-report.html").exists()
    assert len(found["monitor"].history) == 3
