"""One run: its moving parts, an epoch of training, and its state between two epochs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.datasets.tensors import Dataset
from creditscope.errors import DamagedFile, InvalidInput
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.descent import Descent, laid_out
from creditscope.methods.rule import CreditRule, Diverged, Feedback, Moment, run_generator
from creditscope.networks.staged import StagedNetwork
from creditscope.randomness import forked_rng
from creditscope.records.run import Divergence, HistoryRow
from creditscope.terminal import one_line
from creditscope.training.history import Done, measured
from creditscope.training.recipe import Recipe
from creditscope.training.snapshots import Snapshot, gathered


@dataclass(slots=True)
class Run:
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
    seed: int
    diverged: Divergence | None = None

    @property
    def credit(self) -> BoundRule:
        """The rule with its feedback, as the audit of the finished run will ask it."""
        return BoundRule(self.rule, self.network, self.feedback, self.example)

    def epoch(self) -> HistoryRow:
        """One pass over the training set, in an order of its own, and a row of the history."""
        epoch = self.open()
        losses: list[Tensor] = []
        auxiliary: list[dict[str, Tensor]] = []
        try:
            with forked_rng():  # dropout in a model of the user's own draws from it
                torch.manual_seed(_epoch_seed(self.seed, epoch))
                for credit in self._steps(epoch):
                    losses.append(credit.loss)
                    auxiliary.append(credit.auxiliary)
        except Diverged as stop:
            self.diverged = Divergence(epoch=epoch, step=len(losses), why=str(stop))
        return self.close(losses, auxiliary)

    def open(self) -> int:
        """Set the rate of the next epoch and the mode of the network; the number of the epoch."""
        epoch = len(self.history)
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate(epoch)
        self.network.train()
        return epoch

    def close(self, losses: list[Tensor], auxiliary: list[dict[str, Tensor]]) -> HistoryRow:
        """Judge the epoch whose steps had these losses, and add its row to the history."""
        epoch, named = len(self.history), auxiliary[0] if auxiliary else ()
        means = {name: torch.stack([row[name] for row in auxiliary]).mean().item() for name in named}
        self.diverged = self.diverged or self._divergence(epoch, losses, means)
        done = Done(epoch, torch.stack(losses).mean().item() if losses else math.nan, means)
        self.history.append(measured(self.credit, self.data, done))
        return self.history[-1]

    def _steps(self, epoch: int) -> Iterator[Credit]:
        """One update per batch, and the credit behind it."""
        learning = self.rule.scope(self.network).parameters(self.network)
        steps = len(self.data.train.labels) // self.recipe.batch_size
        descent = Descent.of(self.optimiser)
        for step, batch in enumerate(self._batches()):
            progress = (epoch + step / steps) / self.recipe.epochs
            moment = Moment(progress, self.generator, step == 0, descent)
            credit = self.rule.learn(self.network, self.feedback, batch, moment)
            for name, parameter in learning.items():
                parameter.grad = laid_out(credit.gradients.get(name), parameter)
            self.optimiser.step()
            yield credit

    def _batches(self) -> Iterator[Batch]:
        """The training set in random order; the last partial batch is dropped."""
        size = self.recipe.batch_size
        order = torch.randperm(len(self.data.train.labels), generator=self.generator)
        for start in range(0, len(order) - size + 1, size):
            yield self.data.training_batch(order[start : start + size], self.generator)

    def _divergence(self, epoch: int, losses: list[Tensor], auxiliary: dict[str, float]) -> Divergence | None:
        """Why the run stops here: a loss or weights that are not finite, or an objection of the rule."""
        for step, finite in enumerate(torch.stack(losses).isfinite().tolist() if losses else []):
            if not finite:
                return Divergence(epoch=epoch, step=step, why=f"the training loss was {losses[step].item()}")
        objection = self.rule.objection(auxiliary)
        if objection:
            return Divergence(epoch=epoch, why=objection)
        state = self.network.state_dict()
        sound = torch.stack([tensor.isfinite().all() for tensor in state.values()]).tolist()  # one wait for the device
        for name, finite in zip(state, sound, strict=True):
            if not finite:
                return Divergence(epoch=epoch, why=f"not every number in {name} was finite after the last step")
        return None

    def state(self, identity: str) -> Snapshot:
        """The whole state of the run."""
        tensors = gathered(self.network, self.feedback, self.optimiser, self.generator)
        return Snapshot(identity, tensors, tuple(self.history))

    def restore(self, snapshot: Snapshot, path: Path) -> None:
        """Resume from the snapshot in a file; one whose tensors or rows are not those of this run is refused."""
        try:
            if [row.epoch for row in snapshot.history] != list(range(min(len(snapshot.history), self.recipe.epochs))):
                raise ValueError("its history is not that of the run's first epochs")
            self.feedback = snapshot.restore(self.network, self.feedback, self.optimiser, self.generator)
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            reason = one_line(f"{type(error).__name__}: {error}", 200)
            raise DamagedFile(
                f"The snapshot {path} does not fit its run: {reason}.\n"
                "Resuming from it would end elsewhere. Remove it to start the run again."
            ) from error
        self.history = list(snapshot.history)


def _epoch_seed(seed: int, epoch: int) -> int:
    """The seed of PyTorch's global generator in one epoch: a resumed run draws what an uninterrupted one draws."""
    return int.from_bytes(hashlib.sha256(f"epoch {epoch} of run {seed}".encode()).digest()[:4], "big")


def begin(network: StagedNetwork, rule: CreditRule, data: Dataset, recipe: Recipe, seed: int) -> Run:
    """Draw the feedback and set up the optimiser."""
    if len(data.train.labels) < recipe.batch_size:
        raise InvalidInput(
            f"A batch size of {recipe.batch_size} exceeds the {len(data.train.labels)} training samples of "
            f"{data.name}.\nNo step would be taken. Choose a smaller batch size."
        )
    generator = run_generator(seed)
    if not recipe.augment:
        data = replace(data, crop=0, flip=False)
    if recipe.random_labels:
        drawn = torch.randint(data.classes, data.train.labels.shape, generator=generator)
        data = replace(data, train=Batch(data.train.inputs, drawn.to(data.train.labels.device)))
    example = data.example
    network = rule.prepare(network, example)
    feedback = rule.feedback(network, example, generator).to(example.labels.device)
    optimiser = recipe.descent(rule.scope(network).parameters(network).values())
    feedback = rule.equip(feedback, Descent.of(optimiser))
    return Run(network, rule, feedback, data, recipe, generator, optimiser, example, [], seed)
