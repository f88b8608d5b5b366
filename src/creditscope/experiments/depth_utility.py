"""Depth utility of a training loop of your own from accuracies alone, without test batches and without an audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from creditscope.diagnostics.depth import from_accuracies
from creditscope.experiments.functions import Evaluate, MakeModel, Train, UserFunctions
from creditscope.experiments.preparation import planned
from creditscope.experiments.running import train_all
from creditscope.verdict import Finding


@dataclass(frozen=True, slots=True)
class DepthUtility:
    """Accuracies and networks of a training run and its controls, one per seed, and what D3 says about them."""

    seeds: tuple[int, ...]
    accuracy: dict[str, tuple[float, ...]]  # by variant; the ladder's rungs as ladder-0, ladder-1, ...
    networks: dict[str, tuple[nn.Module, ...]] = field(default_factory=dict, repr=False)

    @property
    def finding(self) -> Finding:
        """D3: trained against frozen, seeds paired."""
        return self.against("frozen")

    def against(self, variant: str) -> Finding:
        """D3 against another control."""
        return from_accuracies(self.accuracy.get("trained"), self.accuracy.get(variant), None)


def depth_utility(
    make_network: MakeModel,
    train: Train,
    evaluate: Evaluate,
    *,
    seeds: Sequence[int],
    variants: Sequence[str] = ("trained", "frozen"),
    blocks: str | Sequence[str] | None = None,
    example: Any = None,
) -> DepthUtility:
    """Run your own training on your network and on its controls: the evidence of D3, and the networks.

    make_network  seed -> an untrained network; called anew for every control, so that all start alike
    train         (network, seed) -> trains it in place, or returns the trained network
    evaluate      network -> accuracy from 0 to 1
    variants      as for `experiment`, which audits the networks too and compares them image by image
    blocks        path of the network's list of blocks, or module names; without it the blocks are searched
    example       inputs to search them with: a few images

    >>> import creditscope, torch
    >>> from creditscope.networks.build import build
    >>> inputs, labels = torch.linspace(-1, 1, 384).view(64, 6), torch.arange(64) % 3
    >>> def train(network, seed):
    ...     optimiser = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=0.1)
    ...     torch.nn.functional.cross_entropy(network(inputs), labels).backward()
    ...     optimiser.step()
    >>> def evaluate(network):
    ...     return (network(inputs).argmax(1) == labels).double().mean().item()
    >>> def make(seed):
    ...     return build("resmlp", 6, 3, seed, d=8, depth=2)
    >>> utility = creditscope.depth_utility(make, train, evaluate, seeds=[0, 1])
    >>> list(utility.accuracy), utility.finding.code
    (['trained', 'frozen'], 'D3')
    """
    functions = UserFunctions(make_network, train, evaluate)
    plan = planned(functions, seeds, variants, blocks, example)
    functions.evaluated(functions.fresh(plan.seeds[0]))  # 31 instead of 0.31 is refused before anything is trained
    runs = train_all(functions, plan.tasks, None, 1)
    by_variant = {variant: [run for run in runs if run.task.variant == variant] for variant in plan.controls}
    return DepthUtility(
        plan.seeds,
        {variant: tuple(run.evaluated for run in own) for variant, own in by_variant.items()},
        {variant: tuple(run.network for run in own) for variant, own in by_variant.items()},
    )
