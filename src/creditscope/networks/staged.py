"""The common form of our networks: embedding, stages and read-out, each of which can be run alone."""

from __future__ import annotations

import math
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, overload

import torch
from torch import Tensor, nn

from creditscope.randomness import forked_rng


class Seeded(ABCMeta):
    """Networks whose construction leaves PyTorch's global generator as it was.

    nn.Linear and nn.Conv2d draw from the global generator while they are made, before `initialise` draws again from
    ours. Unrestored, building a control would change the random numbers of the run around it.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make the network, then put the global generator back."""
        with forked_rng():
            return super().__call__(*args, **kwargs)


class Asked(NamedTuple):
    """A vector-Jacobian product: `cotangent` at `output`, for the parameters of a stage.

    Stage 0 is the embedding, stage l + 1 is block l.
    """

    stage: int
    output: Tensor
    cotangent: Tensor


@dataclass(frozen=True, slots=True)
class Walk:
    """One forward pass in one graph.

    states    h_0..h_L
    anchors   the tensors to differentiate by for h_0..h_L; `oriented` turns such a gradient to the axes of its state
    branches  f_0..f_{L-1}
    """

    states: Sequence[Tensor]
    anchors: Sequence[Tensor]
    branches: Sequence[Tensor]
    logits: Tensor
    oriented: Callable[[Tensor, int], Tensor] = lambda gradient, layer: gradient


@dataclass(frozen=True, slots=True)
class Pieces:
    """One forward pass in which each stage starts from a detached state, so that no gradient crosses a border.

    stages    h_0..h_L, each with the graph of its own stage only (no graph where the stage does not learn)
    branches  f_0..f_{L-1}, in the same graphs
    deepest   h_L as the read-out took it
    outside   the parameters that are in no block
    """

    stages: Sequence[Tensor]
    branches: Sequence[Tensor]
    deepest: Tensor
    logits: Tensor
    outside: Mapping[str, nn.Parameter]

    def through_readout(self, cotangent: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The product of `cotangent` at the logits: with ∂logits/∂h_L, and for every parameter of the read-out."""
        wanted = [self.deepest, *self.outside.values()]
        slope, *products = torch.autograd.grad(self.logits, wanted, cotangent, allow_unused=True)
        return slope, {name: p for name, p in zip(self.outside, products, strict=True) if p is not None}

    def products(self, asked: Sequence[Asked], learning: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
        """All products at once: each output has the graph of its own stage only."""
        if not asked or not learning:
            return {}
        outputs, cotangents = [one.output for one in asked], [one.cotangent for one in asked]
        products = torch.autograd.grad(outputs, list(learning.values()), cotangents, allow_unused=True)
        return {name: p for name, p in zip(learning, products, strict=True) if p is not None}


class StagedNetwork(nn.Module, metaclass=Seeded):
    """embedding | stages | read-out.

        h_0 = embedding(x);   h_{l+1} = merge(l, h_l, f_l),  f_l = blocks[l](h_l);   logits = readout(h_L)

    A residual network merges by h_l + f_l, a plain one by f_l alone. Two promises that local rules rely on: all
    weights of stage l are in blocks[l], and f_l enters h_{l+1} unchanged, ∂h_{l+1}/∂f_l = I. It knows nothing of
    methods: autograd on it is always the true gradient.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    revision: ClassVar[int] = 1
    residual: bool = True
    token: Literal["first", "mean", "all"] | int = "first"  # which vector stands for a state with tokens
    terminal_layernorm: bool = False  # whether a LayerNorm precedes the read-out
    runs_stages_at_once: bool = False  # whether `stacked_stages` runs all blocks at once
    loss_fn: Callable[[Tensor, Tensor], Tensor] | None = None  # (logits, labels) -> losses; None for cross-entropy
    blocks: nn.ModuleList

    @abstractmethod
    def embedding(self, inputs: Tensor) -> Tensor:
        """h_0 of a batch."""

    @abstractmethod
    def readout(self, state: Tensor) -> Tensor:
        """Logits (N, classes) from the deepest state."""

    def branch(self, index: int, state: Tensor) -> Tensor:
        """f_l(h_l): what block l adds to the stream, or, in a plain network, the next state."""
        out: Tensor = self.blocks[index](state)
        return out

    def merge(self, index: int, state: Tensor, branch: Tensor) -> Tensor:
        """h_{l+1} from h_l and f_l."""
        return state + branch if self.residual else branch

    @property
    def depth(self) -> int:
        """L, the number of blocks."""
        return len(self.blocks)

    @property
    def own(self) -> nn.Module:
        """The module that is trained, saved and audited."""
        return self

    @property
    def title(self) -> str:
        """What an error message calls it."""
        return type(self).__name__

    def block_of(self, name: str) -> int | None:
        """The block that a parameter belongs to; None for embedding and read-out."""
        part, _, rest = name.partition(".")
        return int(rest.partition(".")[0]) if part == "blocks" else None

    def states(self, inputs: Tensor) -> list[Tensor]:
        """[h_0 .. h_L] of one forward pass."""
        hiddens = [self.embedding(inputs)]
        for index in range(self.depth):
            hiddens.append(self.merge(index, hiddens[-1], self.branch(index, hiddens[-1])))
        return hiddens

    def stages_at(self, states: Sequence[Tensor]) -> list[Tensor]:
        """F_0(z_0)..F_{L-1}(z_{L-1}): what every block makes of a state of its own."""
        return [self.merge(layer, state, self.branch(layer, state)) for layer, state in enumerate(states)]

    def stacked_stages(self, states: Tensor) -> Tensor:
        """The same for z_0..z_{L-1} in one tensor (L, N, ...); overridden where blocks of one shape run faster so."""
        return torch.stack(self.stages_at(list(states)))

    def readout_parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that the read-out may use: those outside of the blocks."""
        own = list(self.named_parameters(recurse=False))
        for part, child in self.named_children():
            own += [] if child is self.blocks else child.named_parameters(part)  # walking the blocks takes longest
        return {name: p for name, p in own if p.requires_grad}

    def walk(self, inputs: Tensor, *, from_embedding: bool = True) -> Walk:
        """One forward pass in one graph, which begins at the parameters of the embedding or else at h_0."""
        first = self.embedding(inputs)
        states, branches = [first if from_embedding else first.detach().requires_grad_()], []
        for index in range(self.depth):
            branches.append(self.branch(index, states[-1]))
            states.append(self.merge(index, states[-1], branches[-1]))
        return Walk(states, states, branches, self.readout(states[-1]))

    def in_pieces(self, inputs: Tensor, learns: Callable[[int], bool]) -> Pieces:
        """One forward pass; every stage that learns keeps the graph from its own parameters to its own output."""
        stages, branches = [self.embedding(inputs)], []
        for index in range(self.depth):
            with torch.set_grad_enabled(learns(index)):
                state = stages[-1].detach()
                branches.append(self.branch(index, state))
                stages.append(self.merge(index, state, branches[-1]))
        deepest = stages[-1].detach().requires_grad_()
        return Pieces(stages, branches, deepest, self.readout(deepest), self.readout_parameters())

    @overload
    def forward(self, inputs: Tensor, return_hidden: Literal[False] = False) -> Tensor: ...
    @overload
    def forward(self, inputs: Tensor, return_hidden: Literal[True]) -> tuple[Tensor, list[Tensor]]: ...
    def forward(self, inputs: Tensor, return_hidden: bool = False) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Logits, with [h_0 .. h_L] on request (the published contract)."""
        hiddens = self.states(inputs)
        logits = self.readout(hiddens[-1])
        return (logits, hiddens) if return_hidden else logits


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights of every Linear and Conv2d from `generator`, with PyTorch's own default distribution.

    U(-1/√fan_in, 1/√fan_in) for weights and biases, in the order of `module.modules()`: the seed fixes every bit.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = 1 / math.sqrt(layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            if layer.bias is not None:
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
