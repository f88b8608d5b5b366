"""The rule under check at work: a small network, a batch, feedback, and short training runs."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, NamedTuple

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.datasets.tensors import Dataset
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.descent import Descent
from creditscope.methods.rule import CreditRule, Feedback, Moment, Scope
from creditscope.networks import networks
from creditscope.networks.build import build, network_options
from creditscope.networks.staged import StagedNetwork
from creditscope.options import Option
from creditscope.training.checkpoint import Checkpoint
from creditscope.training.fit import fit
from creditscope.training.recipe import Recipe

SHAPE, CLASSES = (2, 8, 8), 3
TRAINING, TEST = 48, 12
PRIMARY = "resmlp"
SMALL: dict[str, Option] = {  # where a network has them
    "d": 16,
    "depth": 2,
    "channels": 4,
    "width": 12,
    "heads": 2,
    "widths": (16,),
}


class Trial(NamedTuple):
    """A rule at work on a network."""

    rule: CreditRule
    network: StagedNetwork
    feedback: Feedback
    batch: Batch

    def credit(self, rule: CreditRule | None = None, batch: Batch | None = None) -> Credit:
        """The credit of the batch, by this rule or a wrapped one."""
        return (rule or self.rule).credit(self.network, self.feedback, batch or self.batch)

    def step(self) -> Credit:
        """The credit of one step of training."""
        descent = Descent.of(torch.optim.AdamW(self.network.parameters(), lr=1e-3, weight_decay=0.1))
        feedback, moment = self.rule.equip(self.feedback, descent), Moment(0.5, seeded(3), descent=descent)
        return self.rule.learn(self.network, feedback, self.batch, moment, Scope())

    def bound(self) -> BoundRule:
        """The rule as an audit asks it."""
        return BoundRule(self.rule, self.network, self.feedback, self.batch)

    def tensors(self) -> dict[str, Tensor]:
        """Copies of all tensors around the rule: network, feedback, auxiliary networks, batch."""
        extra = self.feedback.networks
        parts = {
            "network": self.network.state_dict(),
            "feedback": self.feedback.tensors,
            "auxiliary": {} if extra is None else extra.state_dict(),
            "batch": self.batch._asdict(),
        }
        return {f"{part}.{key}": t.clone() for part, named in parts.items() for key, t in named.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedRule:
    """A rule, and the registered network on which it is checked."""

    rule: CreditRule
    on: str = PRIMARY

    def network(self) -> StagedNetwork:
        """A small network in evaluation mode, with BatchNorm statistics that are not the trivial ones."""
        known = network_options(self.on)
        built = build(self.on, SHAPE, CLASSES, 3, **{name: SMALL[name] for name in SMALL if name in known}).train()
        with torch.no_grad():
            built(drawn(8).inputs)
        return built.eval()

    def case(self, samples: int = 6) -> Trial:
        """The rule with feedback of its own on a fresh network: no clause sees what another one left behind."""
        rule, network, batch = self.fresh(), self.network(), drawn(7, samples)
        return Trial(rule, network, rule.feedback(network, batch, seeded(1)), batch)

    def fresh(self) -> CreditRule:
        """The rule as another process would make it: the same options, nothing that it has kept."""
        rule: Any = self.rule
        made: CreditRule = dataclasses.replace(rule) if hasattr(rule, "__dataclass_fields__") else copy.deepcopy(rule)
        return made

    def trained(self, rule: CreditRule, epochs: int = 1, **options: Any) -> Checkpoint:
        """A run of three steps an epoch, on noise."""
        recipe = Recipe(epochs, batch_size=TRAINING // 3, learning_rate=1e-3, weight_decay=0.1)
        return fit(self.network(), rule, noise(), recipe, seed=5, **options)


def drawn(seed: int, samples: int = 6) -> Batch:
    """Standard normal inputs, labels in turn."""
    return Batch(torch.randn(samples, *SHAPE, generator=seeded(seed)), torch.arange(samples) % CLASSES)


def seeded(seed: int) -> torch.Generator:
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)


def noise() -> Dataset:
    """Noise with labels."""
    inputs, labels = drawn(21, TRAINING + TEST)
    train, test = Batch(inputs[:TRAINING], labels[:TRAINING]), Batch(inputs[TRAINING:], labels[TRAINING:])
    return Dataset("noise", train, test, CLASSES, (0.0,), (1.0,))


def declared_networks(rule: CreditRule | type[CreditRule]) -> tuple[str, ...] | None:
    """The registered networks that a rule declares, an instance for its own options; None for all of them."""
    return rule.networks if isinstance(rule, type) else rule.supported_networks


def supported(rule: CreditRule | type[CreditRule], on: str) -> bool:
    """Whether the rule declares that it supports this network."""
    names = declared_networks(rule)
    return names is None or on in names


def home(rule: CreditRule | type[CreditRule]) -> str:
    """The primary network where the rule supports it, else the first registered one that it declares."""
    if supported(rule, PRIMARY):
        return PRIMARY
    return next((on for on in declared_networks(rule) or () if on in networks), PRIMARY)


def differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    """The names under which two sets of tensors are not the same bits."""
    return sorted(
        name
        for name in one.keys() | other.keys()
        if name not in one or name not in other or not torch.equal(one[name], other[name])
    )


def same_signals(one: Credit, other: Credit) -> bool:
    """Whether the signals are the same bits."""
    pairs = zip(one.signals, other.signals, strict=False)
    return len(one.signals) == len(other.signals) and all(torch.equal(a, b) for a, b in pairs)


def same_credit(one: Credit, other: Credit) -> bool:
    """Whether signals, gradients and loss are the same bits."""
    return (
        same_signals(one, other) and not differing(one.gradients, other.gradients) and torch.equal(one.loss, other.loss)
    )
