"""fit_many: train many small runs at once, those of one form as one stacked network."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from creditscope.datasets.tensors import Dataset
from creditscope.errors import InvalidInput
from creditscope.methods.rule import CreditRule
from creditscope.records.run import HistoryRow
from creditscope.training.checkpoint import Checkpoint
from creditscope.training.fit import Fit
from creditscope.training.recipe import Recipe
from creditscope.training.stack import Stack, form
from creditscope.training.stacked import Unstackable

OnEpoch = Callable[[int, HistoryRow], None]


def fit_many(
    networks: Sequence[nn.Module],
    rule: CreditRule | Sequence[CreditRule],
    data: Dataset,
    recipe: Recipe | Sequence[Recipe],
    *,
    seeds: Sequence[int],
    blocks: str | Sequence[str] | None = None,
    on_epoch: OnEpoch | None = None,
    specs: Sequence[Mapping[str, Any]] | None = None,
    resolved: Sequence[Mapping[str, Any]] | None = None,
    snapshots: Sequence[Path | None] | None = None,
    snapshot_seconds: float = 30.0,
) -> list[Checkpoint]:
    """Train every network as `fit` would, those that differ only in seed, learning rate, penalty or feedback at once.

    rule, recipe   one for all, or one for each network
    on_epoch       called with the index of the run and its new row of the history
    specs, resolved, snapshots   one for each network, as `fit` takes them

    Runs of one form step together, each with its own order of the samples, optimiser and history; checkpoint, record
    and snapshot are those of a single run. On the CPU they have the same bits, on another device each step is within
    1e-5 of the single one. A run that diverges leaves the others as they are. Rules that keep a state besides the
    network's weights (learnt feedback, auxiliary networks, draws in every step) are trained one after another, and so
    are networks whose stacked step would not be the single one, with a warning that says why.

    >>> import creditscope
    >>> from creditscope.datasets import datasets
    >>> from creditscope.methods import methods
    >>> from creditscope.networks.build import build
    >>> from creditscope.training.recipe import Recipe
    >>> data = datasets["mnist1d"]()
    >>> seeds = [0, 1, 2]
    >>> networks = [build("resmlp", data.shape, data.classes, seed=seed, d=8, depth=1) for seed in seeds]
    >>> checkpoints = creditscope.fit_many(networks, methods["dfa"](), data, Recipe(epochs=1), seeds=seeds)
    >>> [len(checkpoint.record.history) for checkpoint in checkpoints]
    [1, 1, 1]
    """
    count, checksum = len(networks), data.checksum
    if count == 0:
        return []
    data = data.to(next(networks[0].parameters()).device)
    given = zip(
        networks,
        _each(count, "rule", rule),
        _each(count, "recipe", recipe),
        _each(count, "seeds", seeds),
        _each(count, "specs", specs),
        _each(count, "resolved", resolved),
        _each(count, "snapshots", snapshots),
        strict=True,
    )
    fits = [
        Fit.start(
            *(network, its_rule, data, its_recipe, seed),
            blocks=blocks,
            spec=spec,
            resolved=options,
            snapshot=snapshot,
            checksum=checksum,
        )
        for network, its_rule, its_recipe, seed, spec, options, snapshot in given
    ]
    after = _After(fits, on_epoch, snapshot_seconds)
    for group in _groups(fits):
        _train(group, after)
    return [fit.checkpoint() for fit in fits]


def _each(count: int, name: str, given: Any) -> Sequence[Any]:
    """One value for each run."""
    if not isinstance(given, Sequence):
        return [given] * count
    if len(given) != count:
        raise InvalidInput(
            f"{name} has {len(given)} entries for {count} networks.\n"
            "Runs would be trained with those of others. Give one for each network."
        )
    return given


class _After:
    """What follows an epoch of some runs: a message, and a snapshot where one is due."""

    def __init__(self, fits: Sequence[Fit], on_epoch: OnEpoch | None, seconds: float) -> None:
        self._index = {id(fit): index for index, fit in enumerate(fits)}
        self._on_epoch, self._seconds = on_epoch, seconds

    def __call__(self, fits: Iterable[Fit]) -> None:
        for fit in fits:
            if self._on_epoch is not None:
                self._on_epoch(self._index[id(fit)], fit.run.history[-1])
            fit.keep(self._seconds)


def _groups(fits: Sequence[Fit]) -> list[list[Fit]]:
    """The runs of each form, in their order; one whose rule cannot be stacked is alone."""
    groups: dict[Any, list[Fit]] = {}
    for fit in fits:
        stackable = fit.run.rule.innermost.stackable and fit.run.feedback.networks is None
        groups.setdefault(form(fit.run) if stackable else id(fit), []).append(fit)
    return list(groups.values())


def _train(fits: Sequence[Fit], after: _After) -> None:
    """Train runs of one form to their ends; those that end before the others leave the stack."""
    going = [fit for fit in fits if fit.going]
    while len(going) > 1:
        try:
            stack = Stack.of([fit.run for fit in going])
        except Unstackable as why:
            warnings.warn(f"{len(going)} runs are trained one after another: {why}.", stacklevel=3)
            break
        try:
            _train_together(stack, going, after)
        finally:
            stack.dissolve()
        going = [fit for fit in going if fit.going]
    for fit in going:
        while fit.going:
            fit.epoch()
            after([fit])


def _train_together(stack: Stack, fits: Sequence[Fit], after: _After) -> None:
    """Epochs of the stack until one of its runs has ended."""
    for fit in fits:
        fit.at_once = max(fit.at_once, len(fits))
    while all(fit.going for fit in fits):
        started = time.perf_counter()
        stack.epoch()
        for fit in fits:
            fit.seconds += (time.perf_counter() - started) / len(fits)
        after(fits)
