"""fit: train a network with any rule under one recipe, repeatable and resumable bit for bit."""

from __future__ import annotations

import hashlib
import platform
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from creditscope import __version__
from creditscope.datasets.tensors import Dataset
from creditscope.errors import BadFile
from creditscope.methods.adapted import adapted
from creditscope.methods.binding import judged_by
from creditscope.methods.loss import LOSSES
from creditscope.methods.rule import CreditRule
from creditscope.networks.staged import StagedNetwork
from creditscope.provenance import source_commit
from creditscope.records.folder import recover_snapshot
from creditscope.records.run import HistoryRow, NetworkFacts, RunRecord
from creditscope.training.checkpoint import Checkpoint
from creditscope.training.history import BEFORE, measured
from creditscope.training.recipe import REVISION, Recipe
from creditscope.training.run import Run, begin
from creditscope.training.snapshots import Snapshot, read_snapshot, write_snapshot


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
    training = Fit.start(
        network, rule, data, recipe, seed, blocks=blocks, spec=spec, resolved=resolved, snapshot=snapshot
    )
    while training.going:
        training.epoch()
        if on_epoch is not None:
            on_epoch(training.run.history[-1])
        training.keep(snapshot_seconds)
    return training.checkpoint()


@dataclass(slots=True)
class Fit:
    """A run under way, with what its record and its snapshot need besides.

    checksum   of the data as they were given
    identity   a hash of all that decides the run, so that its snapshot is never taken for another run's
    seconds    that the run took; of a stack its share
    saved      when its last snapshot was written, by `time.perf_counter`
    at_once    how many runs its stack had at most
    """

    run: Run
    spec: Mapping[str, Any]
    resolved: Mapping[str, Any]
    checksum: str
    identity: str
    snapshot: Path | None
    seconds: float
    saved: float
    at_once: int = 1

    @classmethod
    def start(
        cls,
        network: nn.Module,
        rule: CreditRule,
        data: Dataset,
        recipe: Recipe,
        seed: int,
        *,
        blocks: str | Sequence[str] | None = None,
        spec: Mapping[str, Any] | None = None,
        resolved: Mapping[str, Any] | None = None,
        snapshot: Path | None = None,
        checksum: str | None = None,
    ) -> Fit:
        """A run before its first epoch, or as its snapshot left it; arguments as of `fit`, and the data's checksum."""
        started, checksum = time.perf_counter(), checksum or data.checksum
        data = data.to(next(network.parameters()).device)
        staged = adapted(network, data.example.inputs, blocks=blocks)
        loss_fn = LOSSES[recipe.loss]
        if loss_fn is not None:
            staged = judged_by(staged, loss_fn)
        identity = _identity(staged, rule, data, recipe, f"seed {seed}, data {checksum}{_other_threads()}")
        resolved = dict(resolved or _resolved(staged, rule, data, recipe, seed))
        run = begin(staged, rule, data, recipe, seed)
        if snapshot is not None:
            if notice := recover_snapshot(snapshot):
                warnings.warn(notice, stacklevel=3)
            if snapshot.exists():
                run.restore(_own(read_snapshot(snapshot), identity, snapshot), snapshot)
        now = time.perf_counter()
        return cls(run, dict(spec or {}), resolved, checksum, identity, snapshot, now - started, now)

    @property
    def going(self) -> bool:
        """Whether another epoch is to come."""
        return len(self.run.history) < self.run.recipe.epochs and self.run.diverged is None

    def epoch(self) -> None:
        """One epoch of the run alone."""
        started = time.perf_counter()
        self.run.epoch()
        self.seconds += time.perf_counter() - started

    def keep(self, seconds: float) -> None:
        """Write a snapshot if the last one is older than so many seconds."""
        if self.snapshot is not None and self.run.diverged is None and time.perf_counter() - self.saved > seconds:
            write_snapshot(self.snapshot, self.run.state(self.identity))
            self.saved = time.perf_counter()

    def checkpoint(self) -> Checkpoint:
        """The trained network with its record."""
        run = self.run
        if not run.history:
            run.history.append(measured(run.credit, run.data, BEFORE))
        record = RunRecord(
            spec=dict(self.spec),
            resolved=dict(self.resolved),
            method=run.rule.innermost.facts,
            network=_network_facts(run.network),
            versions={"creditscope": __version__, "torch": torch.__version__, "python": platform.python_version()},
            commit=source_commit(),
            device=str(run.example.labels.device),
            threads=torch.get_num_threads(),
            data_checksum=self.checksum,
            test_images=len(run.data.test.labels),
            history=tuple(run.history),
            diverged=run.diverged,
            timings={"seconds": round(self.seconds, 3), **({"at_once": self.at_once} if self.at_once > 1 else {})},
        )
        return Checkpoint(run.network, run.rule, run.feedback, record, run.example)


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
