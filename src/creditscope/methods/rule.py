"""Credit rules: feedback drawn once, credit per batch."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods.descent import Descent
from creditscope.networks.staged import StagedNetwork
from creditscope.records.run import MethodFacts
from creditscope.stream.isolation import evaluating
from creditscope.verdict import Missing


@dataclass(frozen=True, slots=True)
class Feedback:
    """The state of a rule besides the network: fixed random tensors, and auxiliary networks that learn.

    tensors   fixed, drawn once, saved in the checkpoint
    networks  auxiliary modules with weights of their own, saved too; `optimiser` steps them
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    networks: nn.ModuleDict | None = None
    optimiser: torch.optim.Optimizer | None = None

    def to(self, device: torch.device | str) -> Feedback:
        """The same feedback on another device; auxiliary networks move in place, and their optimiser follows."""
        if self.networks is not None:
            before = list(self.networks.parameters())
            self.networks.to(device)
            moved = {id(old): new for old, new in zip(before, self.networks.parameters(), strict=True)}
            for group in self.optimiser.param_groups if self.optimiser is not None else ():
                group["params"] = [moved.get(id(p), p) for p in group["params"]]  # some devices make new parameters
        tensors = {name: tensor.to(device) for name, tensor in self.tensors.items()}
        return Feedback(tensors, self.networks, self.optimiser)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which blocks learn, and the penalty in their local losses; set by wrappers.

    trained  indices of the blocks that learn, None for all; embedding and read-out always learn
    penalty  λ of the term λ‖f_l(h_l)‖², mean over the batch, in every trained block's local loss
    """

    trained: frozenset[int] | None = None
    penalty: float = 0.0

    def learns(self, index: int) -> bool:
        """Whether block `index` learns."""
        return self.trained is None or index in self.trained

    def parameters(self, network: StagedNetwork) -> dict[str, nn.Parameter]:
        """The parameters that learn, by name; those without requires_grad never do."""
        named = {name: p for name, p in network.named_parameters() if p.requires_grad}
        if self.trained is None:
            return named
        blocks = {name: network.block_of(name) for name in named}
        return {name: p for name, p in named.items() if (block := blocks[name]) is None or self.learns(block)}


EVERYTHING = Scope()


def example_states(network: StagedNetwork, example: Batch) -> tuple[list[Tensor], Tensor]:
    """h_0..h_L and the logits of an example, for their shapes.

    In evaluation mode, so that the example does not enter BatchNorm's statistics; the modes are restored.
    """
    with evaluating(network), torch.no_grad():
        walk = network.walk(example.inputs)
        return list(walk.states), walk.logits[:, None] if walk.logits.dim() == 1 else walk.logits


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a run stands.

    progress     the share of its steps that are done
    opens_epoch  whether an epoch begins here
    descent      how the network is about to step; None if the caller does not say
    deferred     whether the caller calls `follow` at its own step, so that `learn` leaves that to it
    """

    progress: float
    generator: torch.Generator
    opens_epoch: bool = False
    descent: Descent | None = None
    deferred: bool = False


# "output": B.l for ∂logits/∂h_l;  "block": B.l for ∂h_{l+1}/∂h_l;  "weight": one tensor for each weight, by its name;
# "magnitude": M.name for |weight|. Rows are outputs, columns the flattened state.
StandsFor = Literal["output", "block", "weight", "magnitude"]


class Diverged(Exception):
    """Raised by `learn` when there is no credit; the run stops before a weight changes and records the reason."""


def run_generator(seed: int) -> torch.Generator:
    """The one generator of a run: feedback, random labels, order of the samples, augmentation, auxiliary noise."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InvalidInput(f"seed must be a whole number, got {seed!r}.\nThe draw could not be repeated. Pass one.")
    digest = hashlib.sha256(f"run {seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))


class CreditRule(ABC):
    """A method: how credit reaches the states, and how it becomes an update."""

    name: ClassVar[str]
    summary: ClassVar[str]
    revision: ClassVar[int] = 1
    facts: ClassVar[MethodFacts | None] = None  # set by @method
    identities: ClassVar[Mapping[str, str]] = {}  # what is proved about it, with the test; set by @method
    fails: ClassVar[str] = ""  # when it fails; set by @method
    networks: ClassVar[tuple[str, ...] | None] = None  # registered networks that it supports; None for all
    uses_weights_above: ClassVar[bool] = False  # carries credit through the weights above: measured, not judged, by D9
    at_states: ClassVar[bool] = True  # False: no credit at the states; its updates alone can be compared
    stands_for: StandsFor | None = None  # what its feedback replaces: with that in its place the credit is the gradient
    carries: ClassVar[Literal["error", "target"]] = "error"  # what its feedback carries down: e, or -onehot(labels)
    follows_weights: ClassVar[bool] = False  # learnt feedback takes the steps of its weight, decay λ included
    exact_readout: bool = True  # the read-out learns by its gradient at the h_L of the forward pass
    redraws: ClassVar[bool] = True  # whether credit under fresh feedback is a null of its alignment

    drawing: ClassVar[frozenset[str]] = frozenset()  # options that decide the draw of the feedback and nothing else

    @property
    def supported_networks(self) -> tuple[str, ...] | None:
        """The registered networks that it supports with these options; None for all."""
        return self.networks

    @abstractmethod
    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """Draw the fixed feedback of a run; `example` gives the shapes."""

    @abstractmethod
    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """Credit at every state and a gradient for every parameter that learns; changes nothing."""

    def equip(self, feedback: Feedback, descent: Descent) -> Feedback:
        """The feedback with what learns by the network's own optimiser settings; called once, before the first step."""
        return feedback

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        """`credit` as training asks for it; rules with auxiliary networks let these learn first."""
        return self.credit(network, feedback, batch, scope)

    def follow(self, feedback: Feedback, descent: Descent, gradients: Mapping[str, Tensor]) -> None:
        """Let learnt feedback take the step that the weights take with these gradients; for `follows_weights`."""
        return None

    def prepare(self, network: StagedNetwork, example: Batch) -> StagedNetwork:
        """The network that this rule trains; wrappers may remove blocks."""
        return network

    def scope(self, network: StagedNetwork) -> Scope:
        """The scope of this rule: all blocks, without a penalty."""
        return EVERYTHING

    def objection(self, auxiliary: Mapping[str, float]) -> str | None:
        """Why the run must stop as diverged, judged by an epoch's mean auxiliary losses; None to continue."""
        return None

    def feedback_matrices(self, feedback: Feedback) -> Mapping[str, Tensor]:
        """The feedback matrices themselves by name, fixed or learnt, as `stands_for` means them."""
        return feedback.tensors

    def redrawn(
        self, network: StagedNetwork, feedback: Feedback, example: Batch, generator: torch.Generator
    ) -> Feedback:
        """Fresh feedback from the generator; overridden where its shapes are known without a forward pass."""
        return self.feedback(network, example, generator)

    def signals_under(
        self, network: StagedNetwork, feedbacks: Iterable[Feedback], batch: Batch
    ) -> Iterator[tuple[Tensor, ...]]:
        """a_0..a_L of one batch under each of several feedbacks; overridden where they can share a forward pass."""
        return (self.credit(network, feedback, batch).signals for feedback in feedbacks)

    def answers(self, network: StagedNetwork, feedback: Feedback, inputs: Tensor) -> Tensor | None:
        """Logits of a rule with its own inference phase, from inputs alone; None if the network itself predicts."""
        return None

    def residual(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, generator: torch.Generator
    ) -> Tensor | None:
        """The error of an auxiliary network on the batch, one number; None if the rule has none."""
        return None

    def angles(self, network: StagedNetwork, feedback: Feedback) -> dict[str, float]:
        """The angle between learnt feedback and the weight that it stands for, in degrees, by name; empty if none."""
        return {}

    def noise_cosine(self, features: int) -> float | None:
        """The mean cosine to the gradient that a correct random estimate has at a flat state; None if not random."""
        return None

    def own_reference(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING
    ) -> Credit | Missing | None:
        """What `facts.reference` names, computed in another way than the credit and without a penalty; None: BP."""
        return None

    def exact_layers(self, depth: int) -> frozenset[int]:
        """Layers whose credit is the gradient by construction."""
        return frozenset()

    @property
    def stackable(self) -> bool:
        """Whether its credit depends on weights, feedback and batch alone, so that several runs can share its steps."""
        return type(self).learn is CreditRule.learn

    @property
    def innermost(self) -> CreditRule:
        """The rule without its wrappers."""
        return self
