"""A Lightning run is measured after every epoch, logged, stopped where asked, and otherwise left as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.test_guides import ran
from tests.test_public_page import runs_its_example
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from creditscope.networks.build import build

pytestmark = [pytest.mark.thirdparty, pytest.mark.filterwarnings("ignore")]

FEATURES, CLASSES = 12, 5


def lightning() -> Any:
    return pytest.importorskip("lightning.pytorch")


def watching(**options: Any) -> Any:
    from creditscope import CreditscopeCallback

    return CreditscopeCallback(list(data(1)), **options)


def module(w2_std: float = 0.01, rate: float = 0.01) -> Any:
    class Classifier(lightning().LightningModule):  # type: ignore[misc]
        """A network inside a LightningModule, with dropout that a careless look would move."""

        def __init__(self) -> None:
            super().__init__()
            self.net = build("resmlp", FEATURES, CLASSES, 0, d=16, depth=2, w2_std=w2_std)
            self.drop = nn.Dropout(0.2)

        def forward(self, x: Tensor) -> Tensor:
            return self.net(self.drop(x))

        def training_step(self, batch: Any, index: int) -> Tensor:
            x, y = batch
            return F.cross_entropy(self(x), y)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), rate)

    return Classifier()


def data(seed: int) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(64, FEATURES, generator=generator), torch.randint(CLASSES, (64,), generator=generator)
    return DataLoader(TensorDataset(x, y), batch_size=32, shuffle=seed == 0)


class Log:
    """A logger that keeps what it is told."""

    def __new__(cls) -> Any:
        from lightning.pytorch.loggers.logger import DummyLogger

        class Kept(DummyLogger):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.said: list[dict[str, float]] = []

            def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
                self.said.append(metrics)

        return Kept()


def fitted(model: Any, callbacks: list[Any], folder: Path, epochs: int = 3, logger: Any = False) -> Any:
    torch.manual_seed(0)
    trainer = lightning().Trainer(
        max_epochs=epochs, callbacks=callbacks, logger=logger, accelerator="cpu", default_root_dir=folder,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, data(0))
    return trainer


@pytest.mark.parametrize("path", ["", "net"])
def test_every_epoch_is_measured_and_the_weights_are_bit_identical(path: str, tmp_path: Path) -> None:
    alone, watched = module(), module()
    fitted(alone, [], tmp_path)
    callback = watching(module=path, on_firing=lambda finding, epoch: None)
    fitted(watched, [callback], tmp_path)
    assert [row.epoch for row in callback.monitor.history] == [0, 1, 2]
    assert len(callback.monitor.history[0].hidden_norms) == 3
    after = watched.state_dict()
    assert all(torch.equal(after[name], value) for name, value in alone.state_dict().items())


def test_the_numbers_reach_the_logger(tmp_path: Path) -> None:
    log = Log()
    fitted(module(), [watching(module="net", every=2)], tmp_path, logger=log)
    rows = [row for row in log.said if "creditscope/D1" in row]
    assert len(rows) == 2
    assert {"creditscope/D2", "creditscope/accuracy", "creditscope/hidden_norm/2"} <= rows[0].keys()


@pytest.mark.parametrize("stop", [True, False])
def test_a_run_whose_stream_has_exploded_is_stopped_if_asked(stop: bool, tmp_path: Path) -> None:
    heard: list[str] = []
    callback = watching(module="net", stop=stop, on_firing=lambda finding, epoch: heard.append(finding.code))
    trainer = fitted(module(w2_std=1e9, rate=0.0), [callback], tmp_path)
    assert {"D1", "D2"} <= set(heard)
    assert trainer.current_epoch == (1 if stop else 3)
    assert str(callback.monitor.report().verdict).startswith("FAIL(D1+D1:stream+D2:tail")


def test_loggers_that_have_events_and_artifacts_get_them(tmp_path: Path) -> None:
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board, table = TensorBoardLogger(tmp_path, "board", version="0"), CSVLogger(tmp_path, "table", version="0")
    callback = watching(module="net", thresholds={"D1": 0.5}, on_firing=lambda finding, epoch: None)
    trainer = fitted(module(), [callback], tmp_path, logger=[board, table])
    report = callback.monitor.report()
    events = EventAccumulator(str(tmp_path / "board" / "0")).Reload()
    steps = trainer.global_step // 3
    assert [event.step for event in events.Scalars("creditscope/D1")] == [steps, 2 * steps, 3 * steps]
    assert [event.step for event in events.Scalars("creditscope/alarm/D1")] == [steps]
    assert b"fires at epoch 0" in events.Tensors("creditscope/alarms/text_summary")[0].tensor_proto.string_val[0]
    assert (
        str(report.verdict).encode() in events.Tensors("creditscope/report/text_summary")[0].tensor_proto.string_val[0]
    )
    assert "creditscope/D1" in (tmp_path / "table" / "0" / "metrics.csv").read_text(encoding="utf-8")


def test_the_guide_runs_as_it_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    found = ran("monitor-a-lightning-run.md", monkeypatch)
    assert [row.epoch for row in found["callback"].monitor.history] == [0, 1, 2]
    assert len(found["monitor"].history) == 3


def test_the_example_of_the_callback_runs() -> None:
    runs_its_example("CreditscopeCallback")
