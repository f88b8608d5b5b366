"""fit: train a network with any rule under one recipe, repeatable and resumable bit for bit."""

from __future__ import annotations

import hashlib
import math
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from creditscope import __version__
from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.datasets.tensors import Dataset
from creditscope.errors import BadFile, InvalidInput
from creditscope.methods.adapted import adapted
from creditscope.methods.binding import judged_by
from creditscope.methods.descent import Descent, laid_out
from creditscope.methods.loss import LOSSES
from creditscope.methods.rule import BoundRule, CreditRule, Diverged, Feedback, Moment, run_generator
from creditscope.networks.staged import StagedNetwork
from creditscope.provenance import source_commit
from creditscope.records.folder import recover_snapshot
from creditscope.records.run import Divergence, HistoryRow, NetworkFacts, RunRecord
from creditscope.training.checkpoint import Checkpoint
from creditscope.training.history import BEFORE, Done, measured
from creditscope.training.recipe import REVISION, Recipe
from creditscope.training.snapshots import Snapshot, gathered, read_snapshot, write_snapshot


def fit(
    network: nn.Module,
    rule: CreditRule,
    data: Dataset,
    recipe: Recipe,
    *,
    seed: int,
    blocks: str | Sequence[str] | None = None,
    on_epoch: Callable[[HistoryRow], None] | None = None,
    spec: Mapping[str, Any] | None = None,
    resolved: Mapping[str, Any] | None = None,
    snapshot: Path | None = None,
    snapshot_seconds: float = 30.0,
) -> Checkpoint:
    """Train `network` in place, on the device where it is: one of ours, or any model whose blocks are found.

    blocks     of a model that is not ours: path of its block list, or module names; without it they are searched
    on_epoch   called with each row of the history
    spec       what to write into the record as the specification of the run
    resolved   every option of the run by its flat name; by default those of the rule and the recipe
    snapshot   a file for mid-run state: if it exists the run resumes from it, and ends with the same bits; one that
               belongs to another run is refused, a damaged one is set aside with a warning

    It computes with as many threads as PyTorch is set to, and the record says how many: sums round otherwise with
    another number of them.

    >>> import creditscope
    >>> from creditscope.datasets import datasets
    >>> from creditscope.methods import methods
    >>> from creditscope.networks.build import build
    >>> from creditscope.training.recipe import Recipe
    >>> data = datasets["mnist1d"]()
    >>> network = build("resmlp", data.shape, data.classes, seed=0, d=8, depth=1)
    >>> checkpoint = creditscope.fit(network, methods["dfa"](), data, Recipe(epochs=1), seed=0)
    >>> checkpoint.record.method.formula, len(checkpoint.record.history)
    ('a_l = e B_l,  e = softmax(logits) - onehot(labels)', 1)
    """
    started, checksum = time.perf_counter(), data.checksum
    device = next(network.parameters()).device
    data = data.to(device)
    staged = adapted(network, data.example.inputs, blocks=blocks)
    loss_fn = LOSSES[recipe.loss]
    if loss_fn is not None:
        staged = judged_by(staged, loss_fn)
    identity = _identity(staged, rule, data, recipe, f"seed {seed}, data {checksum}{_other_threads()}")
    run = _begin(staged, rule, data, recipe, seed)
    if snapshot is not None:
        if notice := recover_snapshot(snapshot):
            warnings.warn(notice, stacklevel=2)
        if snapshot.exists():
            run.restore(_own(read_snapshot(snapshot), identity, snapshot))
    saved = time.perf_counter()
    while len(run.history) < recipe.epochs and run.diverged is None:
        row = run.epoch(len(run.history))
        if on_epoch is not None:
            on_epoch(row)
        if snapshot is not None and run.diverged is None and time.perf_counter() - saved > snapshot_seconds:
            write_snapshot(snapshot, run.state(identity))
            saved = time.perf_counter()
    if not run.history:
        run.history.append(measured(run.credit, run.data, BEFORE))
    record = RunRecord(
        spec=dict(spec or {}),
        resolved=dict(resolved or _resolved(staged, rule, data, recipe, seed)),
        method=rule.innermost.facts,
        network=_network_facts(staged),
        versions={"creditscope": __version__, "torch": torch.__version__, "python": platform.python_version()},
        commit=source_commit(),
        device=str(device),
        threads=torch.get_num_threads(),
        data_checksum=checksum,
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
    seed: int
    diverged: Divergence | None = None

    @property
    def credit(self) -> BoundRule:
        """The rule with its feedback, as the audit of the finished run will ask it."""
        return BoundRule(self.rule, self.network, self.feedback, self.example)

    def epoch(self, epoch: int) -> HistoryRow:
        """One pass over the training set, in an order of its own, and a row of the history."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.rate(epoch)
        self.network.train()
        losses: list[Tensor] = []
        auxiliary: list[dict[str, Tensor]] = []
        try:
            with torch.random.fork_rng(devices=[]):  # dropout in a model of the user's own draws from it
                torch.manual_seed(_epoch_seed(self.seed, epoch))
                for credit in self._steps(epoch):
                    losses.append(credit.loss)
                    auxiliary.append(credit.auxiliary)
        except Diverged as stop:
            self.diverged = Divergence(epoch=epoch, step=len(losses), why=str(stop))
        named = auxiliary[0] if auxiliary else ()
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
        for name, tensor in self.network.state_dict().items():
            if not tensor.isfinite().all():
                return Divergence(epoch=epoch, why=f"not every number in {name} was finite after the last step")
        return None

    def state(self, identity: str) -> Snapshot:
        """The whole state of the run."""
        tensors = gathered(self.network, self.feedback, self.optimiser, self.generator)
        return Snapshot(identity, tensors, tuple(self.history))

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from a snapshot."""
        self.history = list(snapshot.history)
        self.feedback = snapshot.restore(self.network, self.feedback, self.optimiser, self.generator)


def _epoch_seed(seed: int, epoch: int) -> int:
    """The seed of PyTorch's global generator in one epoch: a resumed run draws what an uninterrupted one draws."""
    return int.from_bytes(hashlib.sha256(f"epoch {epoch} of run {seed}".encode()).digest()[:4], "big")


def _resolved(network: StagedNetwork, rule: CreditRule, data: Dataset, recipe: Recipe, seed: int) -> dict[str, Any]:
    """What a run without a spec can tell of its options: those of its rule and its recipe, flat."""
    inner = rule.innermost
    names = {"network": _registered_name(network), "data": data.name, "method": _registered_name(inner)}
    options: dict[str, Any] = asdict(inner) if is_dataclass(inner) else {}
    return {**names, **{f"method.{name}": value for name, value in options.items()}, **asdict(recipe), "seed": seed}


def _registered_name(entry: StagedNetwork | CreditRule) -> str:
    """The name under which an entry is registered, else that of its class."""
    return getattr(entry, "name", entry.title if isinstance(entry, StagedNetwork) else type(entry).__name__)


def _network_facts(network: StagedNetwork) -> NetworkFacts:
    name, summary = _registered_name(network), getattr(network, "summary", "")
    return NetworkFacts(name=name, summary=summary, terminal_layernorm=network.terminal_layernorm)


def _identity(network: StagedNetwork, rule: CreditRule, data: Dataset, recipe: Recipe, rest: str) -> str:
    """A hash of all that decides a run, so that its snapshot is never taken for another run's."""
    treatment = (data.name, data.mean, data.std, data.crop, data.flip)
    digest = hashlib.sha256(f"{REVISION} {type(network.own)} {rule!r} {recipe!r} {treatment!r} {rest}".encode())
    for name, tensor in network.own.state_dict().items():
        digest.update(name.encode() + tensor.cpu().contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()


def _other_threads() -> str:
    """Part of a run's identity where it is not one thread: a run that resumes with another number ends elsewhere."""
    return "" if torch.get_num_threads() == 1 else f", {torch.get_num_threads()} threads"


def _own(snapshot: Snapshot, identity: str, path: Path) -> Snapshot:
    if snapshot.run != identity:
        raise BadFile(
            f"{path} is the snapshot of another run: network, rule, data, recipe, seed or threads differ.\n"
            "Resuming from it would mix two runs in one record. Remove it, or name another file."
        )
    return snapshot


def _begin(network: StagedNetwork, rule: CreditRule, data: Dataset, recipe: Recipe, seed: int) -> _Run:
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
    return _Run(network, rule, feedback, data, recipe, generator, optimiser, example, [], seed)
