"""Wrong rules: each is a sound one with one mistake; `PLANTED` names the clauses that must find it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.methods.bp import Backprop
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.fa import BlockFeedback
from creditscope.methods.kolen_pollack import KolenPollack
from creditscope.methods.local import LocalPass, drawn_again
from creditscope.methods.rule import EVERYTHING, CreditRule, Feedback, Moment, Scope
from creditscope.networks.staged import StagedNetwork
from creditscope.records.run import MethodFacts


@dataclass(frozen=True)
class TransposedFeedback(BlockFeedback):
    """a_l = a_{l+1} Bᵀ, where the law says a_{l+1} B: every shape fits, because the stream has one width."""

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        return super().signals(network, Feedback({name: b.T for name, b in feedback.tensors.items()}), seen)


@dataclass(frozen=True)
class NoDecay(KolenPollack):
    """B takes the steps of W without its decay, as a public implementation does: B - W never shrinks."""

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        assert moment.descent is not None
        without = replace(moment.descent, settings={**moment.descent.settings, "weight_decay": 0.0})
        return super().learn(network, feedback, batch, replace(moment, descent=without), scope)


@dataclass(frozen=True)
class InvertedSign(DirectFeedback):
    """a_l = -e B_l: the network climbs the loss that it believes to descend."""

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        return tuple(-signal for signal in super().signals(network, feedback, seen))


@dataclass(frozen=True)
class UndeclaredSign(InvertedSign):
    """The same without a word about what its feedback stands for: no clause can know which sign is right."""

    stands_for = None


@dataclass(frozen=True)
class UndeclaredDecay(NoDecay):
    """Feedback that takes the steps of W without its decay, and does not say that it follows W."""

    follows_weights = False


@dataclass(frozen=True)
class WeightForFeedback(BlockFeedback):
    """Declared local, but carries credit through the transposed Jacobian of the block above: backprop."""

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        credit = [seen.deepest]
        for layer in reversed(range(network.depth)):
            with torch.enable_grad():
                state = seen.hiddens[layer].detach().requires_grad_()
                above = network.merge(layer, state, network.branch(layer, state))
                credit.append(torch.autograd.grad(above, state, credit[-1])[0])
        return tuple(reversed(credit))


@dataclass(frozen=True)
class LabelsAtInference(DirectFeedback):
    """Keeps the labels of the last batch, and lets them decide its predictions."""

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        object.__setattr__(self, "_last", batch.labels.clone())
        return super().credit(network, feedback, batch, scope)

    def signals_under(self, network: StagedNetwork, feedbacks: Any, batch: Batch) -> Any:
        object.__setattr__(self, "_last", batch.labels.clone())
        return super().signals_under(network, feedbacks, batch)

    def answers(self, network: StagedNetwork, feedback: Feedback, inputs: Tensor) -> Tensor:
        logits = network(inputs)
        last = self.__dict__.get("_last")
        return logits if last is None else logits + 0.1 * F.one_hot(last, logits.shape[1])


@dataclass(frozen=True)
class RedrawnFeedback(DirectFeedback):
    """Draws its matrices again in every call, from a generator of its own."""

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        generator = torch.Generator()
        generator.seed()
        return super().signals(network, drawn_again(feedback, generator), seen)


@dataclass(frozen=True)
class OneLayerOff(DirectFeedback):
    """Every state receives the credit of the next one."""

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        signals = super().signals(network, feedback, seen)
        return (*signals[1:], signals[-1])


@dataclass(frozen=True)
class OneBlockOff(DirectFeedback):
    """The credit is right, but every block learns from that of its input."""

    def update(self, network: StagedNetwork, seen: LocalPass, signals: tuple[Tensor, ...], scope: Scope) -> Credit:
        shifted = super().update(network, seen, (signals[0], *signals[:-1]), scope)
        return replace(shifted, signals=signals)


@dataclass(frozen=True)
class MutatesNetwork(DirectFeedback):
    """Moves the head a little whenever it is asked for credit."""

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        found = super().credit(network, feedback, batch, scope)
        with torch.no_grad():
            list(network.parameters())[-1].add_(1e-3)
        return found


@dataclass(frozen=True)
class UnsavedNetwork(DirectFeedback):
    """Credit passes a network that learns, and that is kept outside the feedback: no checkpoint holds it."""

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        drawn = super().feedback(network, example, generator)
        classes = drawn.tensors["B.0"].shape[0]
        gain = nn.Parameter(torch.ones(classes) + 0.1 * torch.rand(classes, generator=generator))
        object.__setattr__(self, "_gain", gain)
        return drawn

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        gain = self.__dict__["_gain"].detach().to(seen.error)
        return super().signals(network, feedback, replace(seen, error=seen.error * gain))

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        credit = self.credit(network, feedback, batch, scope)
        with torch.no_grad():
            self.__dict__["_gain"].add_(0.1 * credit.loss)
        return credit


@dataclass(frozen=True)
class GlobalRandomState(DirectFeedback):
    """Draws its feedback by torch.randn without a generator."""

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        drawn = super().feedback(network, example, generator)
        return Feedback({name: torch.randn(b.shape) / b.shape[0] ** 0.5 for name, b in drawn.tensors.items()})


@dataclass(frozen=True)
class HalfPrecision(DirectFeedback):
    """Computes its gradients in float16, and returns them as float32."""

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        found = super().credit(network, feedback, batch, scope)
        return replace(found, gradients={name: g.half().to(g) for name, g in found.gradients.items()})


@dataclass(frozen=True)
class HalfThenMean(DirectFeedback):
    """Rounds its gradients to float16 and divides by the number of samples: the quotients fill float32 again."""

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        found, count = super().credit(network, feedback, batch, scope), len(batch.labels)
        return replace(found, gradients={name: (g * count).half().to(g) / count for name, g in found.gradients.items()})


@dataclass(frozen=True)
class HalfCredit(DirectFeedback):
    """Shows its credit as it is, but rounds it to float16 before the blocks learn from it."""

    def update(self, network: StagedNetwork, seen: LocalPass, signals: tuple[Tensor, ...], scope: Scope) -> Credit:
        rounded = super().update(network, seen, tuple(a.half().to(a) for a in signals), scope)
        return replace(rounded, signals=signals)


@dataclass(frozen=True)
class ShiftedInSingle(DirectFeedback):
    """Adds to every gradient in float32 the mean size of its entries."""

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        found = super().credit(network, feedback, batch, scope)
        single = {name: g for name, g in found.gradients.items() if g.dtype == torch.float32}
        shifted = {name: g + g.abs().mean() for name, g in single.items()}
        return replace(found, gradients={**found.gradients, **shifted})


# Mistakes that were made in published code or are easy to make; an error of one layer in two places.
CLAUSES: dict[type[CreditRule], set[str]] = {
    TransposedFeedback: {"identity"},
    NoDecay: {"decay"},
    InvertedSign: {"identity"},
    WeightForFeedback: {"locality"},
    LabelsAtInference: {"labels"},
    RedrawnFeedback: {"pure", "training"},
    OneLayerOff: {"identity"},
    OneBlockOff: {"update"},
    MutatesNetwork: {"pure"},
    UnsavedNetwork: {"saved", "resumed"},
    GlobalRandomState: {"feedback", "random"},
    HalfPrecision: {"precision"},
    HalfThenMean: {"precision"},
    HalfCredit: {"precision"},
    ShiftedInSingle: {"precision"},
}


@dataclass(frozen=True)
class OptionOfAnyKind(DirectFeedback):
    """Has an option that no record can hold."""

    normaliser: Any = max


@dataclass(frozen=True)
class Neighbours(DirectFeedback):
    """Subtracts the mean over the batch from every signal."""

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        return tuple(a - a.mean(0) for a in super().signals(network, feedback, seen))


@dataclass(frozen=True)
class MissingSignal(DirectFeedback):
    """Forgets the signal of the deepest state, which no block below it needs."""

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        found = super().credit(network, feedback, batch, scope)
        return replace(found, signals=found.signals[:-1])


@dataclass(frozen=True)
class Overflows(DirectFeedback):
    """Weights a state's credit by the eighth power of its length."""

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        pairs = zip(super().signals(network, feedback, seen), seen.hiddens, strict=True)
        return tuple(a * h.norm() ** 8 for a, h in pairs)


@dataclass(frozen=True)
class SummedLoss(DirectFeedback):
    """Reports the sum of the losses in place of their mean."""

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        found = super().credit(network, feedback, batch, scope)
        return replace(found, loss=found.loss * len(batch.labels))


@dataclass(frozen=True)
class ClaimsExact(DirectFeedback):
    """Declares its credit to be the gradient."""

    def exact_layers(self, depth: int) -> frozenset[int]:
        return frozenset(range(depth + 1))


@dataclass(frozen=True)
class Ascent(Backprop):
    """Backprop with the wrong sign."""

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        found = super().credit(network, feedback, batch, scope)
        up = {name: -gradient for name, gradient in found.gradients.items()}
        return replace(found, signals=tuple(-signal for signal in found.signals), gradients=up)

    def exact_layers(self, depth: int) -> frozenset[int]:
        return frozenset()


@dataclass(frozen=True)
class IgnoresScope(DirectFeedback):
    """Gives frozen blocks a gradient too, and has no penalty."""

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        return super().credit(network, feedback, batch)


@dataclass(frozen=True)
class OtherSignals(DirectFeedback):
    """Shows an audit other signals than those that train."""

    def signals_under(self, network: StagedNetwork, feedbacks: Any, batch: Batch) -> Any:
        return (tuple(2 * a for a in signals) for signals in super().signals_under(network, feedbacks, batch))


@dataclass(frozen=True)
class StepsItself(DirectFeedback):
    """Takes the step itself, which the optimiser takes again."""

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        found = self.credit(network, feedback, batch, scope)
        with torch.no_grad():
            for name, gradient in found.gradients.items():
                network.get_parameter(name).sub_(gradient, alpha=1e-3)
        return found


OTHERS: dict[type[CreditRule], set[str]] = {
    OptionOfAnyKind: {"value"},
    TransposedFeedback: {"networks"},
    Neighbours: {"samples"},
    MissingSignal: {"shapes"},
    Overflows: {"scales"},
    SummedLoss: {"loss"},
    ClaimsExact: {"exact"},
    Ascent: {"direction"},
    IgnoresScope: {"wrappers"},
    OtherSignals: {"bound"},
    StepsItself: {"learn"},
}


def declared(rule: type[CreditRule]) -> type[CreditRule]:
    """The class with facts of its own, as @method gives them, but not in the registry."""
    rule.name, rule.summary = rule.__name__, "Planted."
    rule.facts = MethodFacts(
        name=rule.name, summary=rule.summary, formula="a_l = wrong", feedback="as its parent", paper="none"
    )
    return rule


UNDECLARED = {  # mistakes that no clause can find, and what the verdict says of them
    declared(UndeclaredSign): "sign, transposition and order were not checked: declare stands_for",
    declared(
        UndeclaredDecay
    ): "the decay of its learnt feedback was not checked: declare follows_weights if it has one",
}
PLANTED = {declared(rule): clauses for rule, clauses in CLAUSES.items()}
SPOILT = {declared(rule): clauses for rule, clauses in OTHERS.items()}
