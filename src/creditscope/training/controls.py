"""Is depth used?  Frozen, shallow and ladder twins for people who train with a loop of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.diagnostics import diagnostics, examine
from creditscope.errors import InvalidInput, UnknownName
from creditscope.evidence.records import Evidence
from creditscope.registry import unknown
from creditscope.stream.find import named_blocks
from creditscope.verdict import Finding

MakeNetwork = Callable[[int], nn.Module]
Train = Callable[[nn.Module, int], Any]
Evaluate = Callable[[nn.Module], float]

VARIANTS = ("trained", "frozen", "shallow", "ladder")


@dataclass(frozen=True, slots=True)
class DepthUtility:
    """Accuracies of a training run and its twins, one per seed, and what D3 says about them."""

    seeds: tuple[int, ...]
    accuracy: dict[str, tuple[float, ...]]  # by variant; the ladder's rungs as ladder-0, ladder-1, ...

    @property
    def finding(self) -> Finding:
        """D3: trained against frozen, seeds paired."""
        return self.against("frozen")

    def against(self, variant: str) -> Finding:
        """D3's question with another twin as the control."""
        none = torch.zeros(1, 0)
        evidence = Evidence(
            hidden_norms=none,
            gradient_norms=none,
            error_norms=none[0],
            accuracy=self.accuracy.get("trained"),
            control_accuracy=self.accuracy.get(variant),
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
    """Run your own training on twins of your network: the evidence of D3.

    make_network  seed -> an untrained network; called anew for every twin, so that twins start from the same weights
    train         (network, seed) -> trains it in place, or returns the trained network
    evaluate      network -> accuracy from 0 to 1
    variants      "trained", "frozen" (blocks keep their initial values), "shallow" (blocks removed), "ladder" (only the
                  last k blocks learn, for every k) or one rung, "ladder-2"
    blocks        path of the network's list of blocks

    A frozen block's parameters have requires_grad = False; if your loop moves them all the same, that is an error.
    """
    if not seeds:
        raise InvalidInput("There are no seeds, so nothing would be trained.\nGive at least one, better three.")
    depth = len(named_blocks(make_network(seeds[0]), blocks))
    accuracy: dict[str, tuple[float, ...]] = {}
    for variant in _expanded(variants, depth):
        accuracy[variant] = tuple(
            _accuracy(_twin(make_network(seed), variant, blocks), train, evaluate, seed) for seed in seeds
        )
    return DepthUtility(tuple(seeds), accuracy)


def _expanded(variants: Sequence[str], depth: int) -> list[str]:
    """Names of single twins; "ladder" stands for its rungs from none to all but the first block."""
    names: list[str] = []
    for variant in variants:
        kind, dash, rung = variant.partition("-")
        if variant not in VARIANTS and not (kind == "ladder" and dash and rung.isdigit()):
            raise UnknownName(unknown("variant", variant, list(VARIANTS)))
        if rung and int(rung) > depth:
            raise InvalidInput(
                f"{variant} asks for {rung} blocks that learn, the network has {depth}.\n"
                f"There is no such twin. Choose ladder-0 to ladder-{depth}."
            )
        names += [f"ladder-{k}" for k in range(depth)] if variant == "ladder" else [variant]
    return list(dict.fromkeys(names))


def _twin(network: nn.Module, variant: str, blocks: str) -> nn.Module:
    """The network with its blocks frozen, thinned out or as they are."""
    found = named_blocks(network, blocks)
    if variant == "shallow":
        parent, _, name = blocks.rpartition(".")
        kind = type(network.get_submodule(blocks))
        setattr(network.get_submodule(parent), name, kind())
    learning = {"trained": len(found), "shallow": 0, "frozen": 0}.get(variant)
    kept = int(variant.partition("-")[2]) if learning is None else learning
    for block in found[: len(found) - kept]:
        block.requires_grad_(False)
    return network


def _accuracy(network: nn.Module, train: Train, evaluate: Evaluate, seed: int) -> float:
    """Train and evaluate one twin, and make sure that what was frozen stayed so."""
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
    accuracy = float(evaluate(trained))
    if not 0 <= accuracy <= 1:
        raise InvalidInput(
            f"evaluate returned {accuracy}, which is no accuracy from 0 to 1.\n"
            "Margins are taken in percentage points. Return the share of right answers."
        )
    return accuracy


def _frozen(network: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in network.named_parameters() if not p.requires_grad}
