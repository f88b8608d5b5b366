"""Depth utility of a training loop of your own: its frozen, shallow and ladder controls, and D3 over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.control import Control
from creditscope.diagnostics import diagnostics, examine
from creditscope.errors import InvalidInput, UnknownName
from creditscope.evidence.records import Evidence
from creditscope.registry import unknown
from creditscope.statistics.shares import checked_shares
from creditscope.stream.find import named_blocks
from creditscope.verdict import Finding

MakeNetwork = Callable[[int], nn.Module]
Train = Callable[[nn.Module, int], Any]
Evaluate = Callable[[nn.Module], float]

VARIANTS = ("trained", "frozen", "shallow", "ladder")


@dataclass(frozen=True, slots=True)
class DepthUtility:
    """Accuracies of a training run and its controls, one per seed, and what D3 says about them."""

    seeds: tuple[int, ...]
    accuracy: dict[str, tuple[float, ...]]  # by variant; the ladder's rungs as ladder-0, ladder-1, ...

    @property
    def finding(self) -> Finding:
        """D3: trained against frozen, seeds paired."""
        return self.against("frozen")

    def against(self, variant: str) -> Finding:
        """D3 against another control."""
        none = torch.zeros(1, 0)
        evidence = Evidence(
            hidden_norms=none,
            gradient_norms=none,
            error_norms=none[0],
            accuracy=self.accuracy.get("trained"),
            control_accuracy=self.accuracy.get(variant),
            named_seeds=True,
        )
        return examine(diagnostics["D3"], evidence)


def depth_utility(
    make_network: MakeNetwork,
    train: Train,
    evaluate: Evaluate,
    *,
    seeds: Sequence[int],
    variants: Sequence[str] = ("trained", "frozen"),
    blocks: str = "blocks",
) -> DepthUtility:
    """Run your own training on your network and on its controls: the evidence of D3.

    make_network  seed -> an untrained network; called anew for every control, so that all start alike
    train         (network, seed) -> trains it in place, or returns the trained network
    evaluate      network -> accuracy from 0 to 1
    variants      "trained", "frozen" (blocks keep their initial values), "shallow" (blocks removed), "ladder" (only the
                  last k blocks learn, for every k) or one rung, "ladder-2"
    blocks        path of the network's list of blocks

    A frozen block's parameters have requires_grad = False; if your loop moves them all the same, that is an error.

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
    if not seeds:
        raise InvalidInput(
            "There are no seeds, so nothing would be trained.\nPass at least one seed; three or more are recommended."
        )
    depth = len(named_blocks(make_network(seeds[0]), blocks))
    accuracy: dict[str, tuple[float, ...]] = {}
    for variant, control in _controls(variants, depth).items():
        accuracy[variant] = tuple(
            _accuracy(_as_control(make_network(seed), control, blocks), train, evaluate, seed) for seed in seeds
        )
    return DepthUtility(tuple(seeds), accuracy)


def _controls(variants: Sequence[str], depth: int) -> dict[str, Control]:
    """Each variant as a control, "trained" as none; "ladder" means its rungs from 0 to all blocks but the first."""
    controls: dict[str, Control] = {}
    for variant in variants:
        if variant == "trained":
            controls[variant] = Control()
        elif variant == "ladder":
            controls |= {str(rung): rung for rung in Control.ladder(depth)}
        elif variant in VARIANTS or variant.startswith("ladder-"):
            controls[variant] = Control.parse(variant)
        else:
            raise UnknownName(unknown("variant", variant, list(VARIANTS)))
    for control in controls.values():
        control.check(depth)
    return controls


def _as_control(network: nn.Module, control: Control, blocks: str) -> nn.Module:
    """The network with its blocks frozen, removed, or as they are."""
    modules = named_blocks(network, blocks)
    if control.kind == "shallow":
        parent, _, name = blocks.rpartition(".")
        kind = type(network.get_submodule(blocks))
        setattr(network.get_submodule(parent), name, kind())
    elif control.kind != "none":
        for block in modules[: len(modules) - (control.rung or 0)]:
            block.requires_grad_(False)
    return network


def _accuracy(network: nn.Module, train: Train, evaluate: Evaluate, seed: int) -> float:
    """Train and evaluate one network, and make sure that frozen parameters did not move."""
    before = _frozen(network)
    answer = train(network, seed)
    trained = answer if isinstance(answer, nn.Module) else network
    after = dict(trained.named_parameters())
    moved = [name for name, value in before.items() if name not in after or not torch.equal(after[name], value)]
    if moved:
        raise InvalidInput(
            f"Training changed {moved[0]} and {len(moved) - 1} more parameters that the control froze.\n"
            "The control would be trained too, and depth would look useless. Let your loop skip parameters whose "
            "requires_grad is False: no gradient, no weight decay."
        )
    (accuracy,) = checked_shares([evaluate(trained)], "evaluate(network)")
    return accuracy


def _frozen(network: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in network.named_parameters() if not p.requires_grad}
