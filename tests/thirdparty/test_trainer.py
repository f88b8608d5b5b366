"""A run of transformers' Trainer is measured after every epoch, logged, stopped if asked, and otherwise untouched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.test_guides import ran
from tests.test_public_page import examples_run

from creditscope.verdict import Finding

pytestmark = [pytest.mark.thirdparty, pytest.mark.filterwarnings("ignore")]

WORDS, CLASSES, LENGTH = 50, 3, 7


@pytest.fixture(autouse=True)
def needed() -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")


def bert(spread: float = 0.3) -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, num_labels=CLASSES, initializer_range=spread,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def sentences(count: int, seed: int) -> list[dict[str, Any]]:
    ids = torch.randint(3, WORDS, (count, LENGTH), generator=torch.Generator().manual_seed(seed))
    return [{"input_ids": row, "labels": int(row[0]) % CLASSES} for row in ids]


def held_out() -> list[dict[str, Any]]:
    from transformers import default_data_collator

    rows = sentences(32, 1)
    return [default_data_collator(rows[:16]), default_data_collator(rows[16:])]


def trainer(model: Any, folder: Path, **options: Any) -> Any:
    import transformers

    arguments = transformers.TrainingArguments(
        output_dir=str(folder), num_train_epochs=3, per_device_train_batch_size=8, report_to=[], save_strategy="no",
        disable_tqdm=True, use_cpu=True, seed=0, **{"logging_strategy": "epoch", **options},
    )  # fmt: skip
    return transformers.Trainer(model=model, args=arguments, train_dataset=sentences(24, 0))


def watching(**options: Any) -> Any:
    from creditscope.monitoring.transformers import CreditscopeCallback

    return CreditscopeCallback(held_out(), **{"on_firing": lambda finding, epoch: None, **options})


def test_every_epoch_is_measured_and_the_weights_are_bit_identical(tmp_path: Path) -> None:
    alone, watched = bert(), bert()
    trainer(alone, tmp_path).train()
    run, callback = trainer(watched, tmp_path), watching()
    run.add_callback(callback)
    run.train()
    assert [row.epoch for row in callback.monitor.history] == [0, 1, 2]
    after = watched.state_dict()
    assert all(torch.equal(after[name], value) for name, value in alone.state_dict().items())


def test_the_numbers_reach_what_the_trainer_reports_to_and_its_own_logs_stay(tmp_path: Path) -> None:
    import transformers

    class Kept(transformers.TrainerCallback):  # type: ignore[misc]
        said: list[dict[str, float]] = []  # noqa: RUF012

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
            self.said.append(dict(logs))

    run = trainer(bert(), tmp_path)
    callback = watching(logger=run, every=2)
    run.add_callback(callback)
    run.add_callback(Kept())
    run.train()
    ours = [row for row in Kept.said if "creditscope/D1" in row]
    assert [row["epoch"] for row in ours] == [1.0, 3.0]
    assert [row["creditscope/D1"] for row in ours] == [row.findings["D1"].value for row in callback.monitor.history]
    assert len([row for row in Kept.said if "loss" in row]) == 3  # the losses of every epoch are logged as before
    assert sum("creditscope/D1" in row for row in run.state.log_history) == 2


@pytest.mark.parametrize("stop", [True, False])
def test_a_run_whose_numbers_are_no_longer_finite_is_stopped_if_asked(stop: bool, tmp_path: Path) -> None:
    model, heard = bert(), list[str]()

    def heed(finding: Finding, epoch: int) -> None:
        heard.append(finding.code)

    with torch.no_grad():
        model.classifier.weight.fill_(torch.nan)
    run, callback = trainer(model, tmp_path, logging_strategy="no"), watching(stop=stop, on_firing=heed)
    run.add_callback(callback)
    run.train()
    assert "D0" in heard
    assert len(callback.monitor.history) == (1 if stop else 3)


def test_the_guide_runs_as_it_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    found = ran("monitor-a-transformers-run.md", monkeypatch)
    assert [row.epoch for row in found["callback"].monitor.history] == [0, 1, 2]
    assert len(found["monitor"].history) == 2


def test_the_example_of_the_callback_runs() -> None:
    from creditscope.monitoring.transformers import CreditscopeCallback

    examples_run(CreditscopeCallback, "CreditscopeCallback")
