"""fit: train a network by any rule under one recipe, bit for bit repeatable and resumable."""

from __future__ import annotations

import hashlib
import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from creditscope import __version__
from creditscope.adapters import find_stream
from creditscope.alignment import AlignmentLedger
from creditscope.auditing import source_commit
from creditscope.batch import Batch
from creditscope.checkpoint import Checkpoint
from creditscope.datasets.tensors import Dataset
from creditscope.diagnostics.reference import reference_validity
from creditscope.diagnostics.scale import scale_stability
from creditscope.errors import InvalidInput
from creditscope.evidence import Ledger
from creditscope.methods.rule import CreditRule, Feedback, Moment
from creditscope.networks.staged import StagedNetwork
from creditscope.records import Divergence, HistoryRow, RunRecord
from creditscope.snapshots import Snapshot, read_snapshot, write_snapshot
from creditscope.trace import capture
from creditscope.verdict import Missing

PROBE_BATCHES = 8  # of 128 test images, behind every row of the history
EVALUATION_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a network is trained: AdamW under a cosine schedule that steps once per epoch and ends at 0."""

    epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    augment: bool = True  # crop and mirror as the dataset says
    random_labels: bool = False  # a causal control: every training label drawn anew, once

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < (0 if name == "epochs" else 1):
                raise InvalidInput(f"{name} = {getattr(self, name)} trains nothing.\nChoose a whole number from 1 on.")
        if not self.learning_rate > 0 or not self.weight_decay >= 0:
            raise InvalidInput(
                f"learning_rate = {self.learning_rate:g} with weight_decay = {self.weight_decay:g} does not descend.\n"
                "Choose a positive learning rate and a weight decay from 0 on."
            )

    def rate(self, epoch: int) -> float:
        """lr/2 · (1 + cos(π epoch/epochs))."""
        return self.learning_rate / 2 * (1 + math.cos(math.pi * epoch / self.epochs))


REVISION = 1  # of the recipe: raise it when a change here changes numbers


def run_generator(seed: int) -> torch.Generator:
    """The one generator of a run: feedback, random labels, order of the samples, augmentation, auxiliary noise."""
    digest = hashlib.sha256(f"run {seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))


def fit(
    network: StagedNetwork,
    rule: CreditRule,
    data: Dataset,
    recipe: Recipe,
    *,
    seed: int,
    on_epoch: Callable[[HistoryRow], None] | None = None,
    spec: Mapping[str, Any] | None = None,
    snapshot: Path | None = None,
    snapshot_seconds: float = 30.0,
) -> Checkpoint:
    """Train `network` in place, on the device where it is.

    on_epoch   called with each row of the history
    spec       what to write into the record as the specification of the run
    snapshot   a file for mid-run state: if it is there the run goes on from it, and ends with the same bits
    """
    started = time.perf_counter()
    device = next(network.parameters()).device
    run = _begin(network, rule, data.to(device), recipe, seed)
    if snapshot is not None and snapshot.exists():
        run.restore(read_snapshot(snapshot))
    saved = time.perf_counter()
    while len(run.history) < recipe.epochs and run.diverged is None:
        row = run.epoch(len(run.history))
        if on_epoch is not None:
            on_epoch(row)
        if snapshot is not None and time.perf_counter() - saved > snapshot_seconds:
            write_snapshot(snapshot, run.state())
            saved = time.perf_counter()
    if not run.history:
        run.history.append(run.row(-1, float("nan"), {}))
    record = RunRecord(
        spec=dict(spec or {}),
        versions={"creditscope": __version__, "torch": torch.__version__, "python": platform.python_version()},
        commit=source_commit(),
        device=str(device),
        data_checksum=data.checksum,
        test_images=len(data.test.labels),
        history=tuple(run.history),
        diverged=run.diverged,
        timings={"seconds": round(time.perf_counter() - started, 3)},
    )
    return Checkpoint(run.network, rule, run.feedback, record, run.example)


@dataclass(slots=True)
class _Run:
    """The moving parts of one run."""

    network: StagedNetwork
    rule: CreditRule
    feedback: Feedback
    data: Dataset
    recipe: Recipe
    generator: torch.Generator
    optimiser: torch.optim.Optimizer
    example: Batch
    history: list[HistoryRow]
    diverged: Divergence | None = None

    def epoch(self, epoch: int) -> HistoryRow:
        """One pass over the training set, in an order of its own, and a row of the history."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate(epoch)
        self.network.train()
        learning = self.rule.scope(self.network).parameters(self.network)
        losses, auxiliary = [], []
        steps = len(self.data.train.labels) // self.recipe.batch_size
        for step, batch in enumerate(self._batches()):
            moment = Moment((epoch + step / steps) / self.recipe.epochs, self.generator)
            credit = self.rule.learn(self.network, self.feedback, batch, moment)
            for name, parameter in learning.items():
                parameter.grad = _laid_out(credit.gradients.get(name), parameter)
            self.optimiser.step()
            losses.append(credit.loss)
            auxiliary.append(credit.auxiliary)
        means = {name: torch.stack([row[name] for row in auxiliary]).mean().item() for name in auxiliary[0]}
        history = self.row(epoch, self._mean_loss(torch.stack(losses), epoch), means)
        objection = self.rule.objection(means)
        if objection and self.diverged is None:
            self.diverged = Divergence(epoch=epoch, why=objection)
        self.history.append(history)
        return history

    def _batches(self) -> Iterator[Batch]:
        """The training set in random order; the last partial batch is dropped."""
        size = self.recipe.batch_size
        order = torch.randperm(len(self.data.train.labels), generator=self.generator)
        for start in range(0, len(order) - size + 1, size):
            yield self.data.training_batch(order[start : start + size], self.generator)

    def _mean_loss(self, losses: Tensor, epoch: int) -> float:
        """The epoch's mean loss; the first step at which it was not finite ends the run."""
        bad = (~losses.isfinite()).nonzero()
        if len(bad):
            step = int(bad[0])
            self.diverged = Divergence(epoch=epoch, step=step, why=f"the training loss was {losses[step].item()}")
        return losses.mean().item()

    def row(self, epoch: int, loss: float, auxiliary: dict[str, float]) -> HistoryRow:
        """What is measured after an epoch, in evaluation mode."""
        self.network.eval()
        stream = find_stream(self.network)
        ledger, aligned = Ledger(stream), AlignmentLedger()
        for batch in islice(self.data.test_batches(128), PROBE_BATCHES):
            trace = capture(stream, batch)
            signals = self.rule.credit(self.network, self.feedback, batch).signals
            ledger.add(trace)
            pairs = [[stream.vectors(tensor) for tensor in side] for side in (signals, trace.gradients)]
            aligned.add(*pairs, batch_size=len(batch.labels))
        evidence, alignment = ledger.evidence(), aligned.alignment()
        growth, floor = scale_stability(evidence), reference_validity(evidence)
        return HistoryRow(
            epoch=epoch,
            loss=loss,
            accuracy=self.accuracy(),
            hidden_norms=tuple(evidence.hidden_norms.median(dim=1).values.tolist()),
            gradient_norms=tuple(evidence.gradient_norms.median(dim=1).values.tolist()),
            d1=float("nan") if isinstance(growth, Missing) else growth.value,
            d2=floor.value,
            gamma=alignment.exact,
            gamma_clamped=alignment.clamped,
            auxiliary=auxiliary,
        )

    @torch.no_grad()
    def accuracy(self) -> float:
        """Share of the whole test set that is right."""
        batches = self.data.test_batches(EVALUATION_BATCH)
        right = [(self.network(batch.inputs).argmax(1) == batch.labels).sum() for batch in batches]
        return int(torch.stack(right).sum()) / len(self.data.test.labels)

    def state(self) -> Snapshot:
        """Everything that decides how the run goes on."""
        return Snapshot.of(self.network, self.feedback, self.optimiser, self.generator, self.history)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot."""
        self.history = list(snapshot.history)
        self.feedback = snapshot.restore(self.network, self.feedback, self.optimiser, self.generator)


def _laid_out(gradient: Tensor | None, parameter: Tensor) -> Tensor | None:
    """The gradient in its parameter's memory layout.

    Fused AdamW walks both by address: the channels-last gradient of a convolution would meet the wrong weights.
    """
    if gradient is None or gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def _begin(network: StagedNetwork, rule: CreditRule, data: Dataset, recipe: Recipe, seed: int) -> _Run:
    """Draw the feedback and set up the optimiser."""
    if len(data.train.labels) < recipe.batch_size:
        raise InvalidInput(
            f"A batch of {recipe.batch_size} does not fit into {len(data.train.labels)} training samples of {data.name}.\n"
            "No step would be taken. Choose a smaller batch size."
        )
    generator = run_generator(seed)
    if not recipe.augment:
        data = replace(data, crop=0, flip=False)
    if recipe.random_labels:
        drawn = torch.randint(data.classes, data.train.labels.shape, generator=generator)
        data = replace(data, train=Batch(data.train.inputs, drawn.to(data.train.labels.device)))
    example = Batch(data.prepare(data.train.inputs[:2]), data.train.labels[:2])
    network = rule.prepare(network, example)
    feedback = rule.feedback(network, example, generator).to(example.labels.device)
    optimiser = torch.optim.AdamW(
        rule.scope(network).parameters(network).values(),
        lr=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        fused=True,
    )
    return _Run(network, rule, feedback, data, recipe, generator, optimiser, example, [])
