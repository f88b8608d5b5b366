"""Any model as a staged network, through its stream: rules credit it as they credit our own networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor, nn

from creditscope.errors import CreditscopeError, ModelMismatch
from creditscope.methods.membership import Members, Tied, adds, members
from creditscope.networks.staged import Asked, Pieces, StagedNetwork, Walk
from creditscope.stream.find import find_stream
from creditscope.stream.isolation import undisturbed
from creditscope.stream.states import Pass, Stream


@dataclass(frozen=True, slots=True)
class GraphPieces(Pieces):
    """One forward pass in one graph; no gradient crosses a border because each product asks for one stage only.

    parts    the parameters of each stage: autograd never leaves a stage on its way to them
    anchors  the tensors to differentiate by for h_0..h_L
    tied     parameters of the read-out that the embedding uses too
    """

    parts: Members
    anchors: Sequence[Tensor]
    oriented: Callable[[Tensor], Tensor]
    tied: frozenset[str]

    def through_readout(self, cotangent: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """As for pieces; a tied parameter gets the contribution of the read-out alone."""
        tied = {name: p for name, p in self.outside.items() if name in self.tied}
        products = self._above_the_borders(cotangent, tied)
        alone = {name: p for name, p in self.outside.items() if name not in self.tied}
        slope, *others = torch.autograd.grad(self.logits, [self.deepest, *alone.values()], cotangent, allow_unused=True)
        products |= {name: p for name, p in zip(alone, others, strict=True) if p is not None}
        return self.oriented(slope), products

    def _above_the_borders(self, cotangent: Tensor, tied: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
        """Products along the paths that pass no state: what would pass one is set to zero there."""
        if not tied:
            return {}
        hooks = [anchor.register_hook(torch.zeros_like) for anchor in self.anchors]  # type: ignore[no-untyped-call]
        try:
            products = torch.autograd.grad(self.logits, list(tied.values()), cotangent, retain_graph=True)
        finally:
            for hook in hooks:
                hook.remove()
        return dict(zip(tied, products, strict=True))

    def products(self, asked: Sequence[Asked], learning: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
        """One call per stage, restricted to its own parameters."""
        gradients: dict[str, Tensor] = {}
        for stage, own in enumerate(self.parts.stages):
            named = {name: p for name, p in learning.items() if name in own}
            gradients |= Pieces.products(self, [one for one in asked if one.stage == stage], named)
        return gradients


class Branches(Sequence[Tensor]):
    """f_0..f_{L-1}, computed when they are asked for: h_{l+1} - h_l where the stage adds to h_l, else h_{l+1}."""

    def __init__(self, states: Sequence[Tensor], residual: Sequence[bool]) -> None:
        self._states, self._residual = states, residual

    def __len__(self) -> int:
        return len(self._residual)

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | Sequence[Tensor]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        below, above = self._states[index], self._states[index + 1]
        return above - below if self._residual[index] else above


class AdaptedNetwork(StagedNetwork):
    """Any model whose stream is known: h_0..h_L are the stream's, the rest of the model is embedding and read-out.

    One forward pass is one call of the model. Everything that the model does on the way (dropout, BatchNorm, masks,
    autocast) happens as in a plain call.
    """

    wraps = "model"

    def __init__(self, model: nn.Module, stream: Stream, *, tied: Tied | None = None) -> None:
        super().__init__()
        self.model = model
        self.stream = stream
        self._tied = tied
        self._known: dict[tuple[bool, ...], Members] = {}
        self._residual: tuple[bool, ...] = ()
        self._in_blocks: dict[str, int] = {}

    def named_parameters(self, *args: Any, **options: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """The model's, under the model's own names."""
        return self.model.named_parameters(*args, **options)

    def named_modules(self, *args: Any, **options: Any) -> Iterator[tuple[str, nn.Module]]:
        """The model's, under the model's own names."""
        named: Iterator[tuple[str, nn.Module]] = self.model.named_modules(*args, **options)
        return named

    @property
    def own(self) -> nn.Module:
        """The user's model."""
        return self.model

    @property
    def title(self) -> str:
        """The model's class."""
        return type(self.model).__name__

    @property
    def depth(self) -> int:
        """The number of blocks in the stream."""
        return len(self.stream.blocks)

    def forward(self, inputs: Any, return_hidden: bool = False) -> Any:
        """As the model's own."""
        walk = self.walk(inputs)
        return (walk.logits, list(walk.states)) if return_hidden else walk.logits

    def learn_structure(self, inputs: Any) -> None:
        """Find blocks, parts and skip connections on one batch; the model is left as it was."""
        with undisturbed(self.model), torch.enable_grad():
            run = self.stream.in_one_graph(inputs)
            self._residual = tuple(map(adds, run.hiddens[1:], run.hiddens))
            parts = self._members(run)
        read = {id(p) for name, p in self.named_parameters() if name in parts.readout}
        norms = [module for module in self.model.modules() if isinstance(module, nn.LayerNorm)]
        self.terminal_layernorm = any(id(p) in read for module in norms for p in module.parameters(recurse=False))
        owners = {id(p): index for index, block in enumerate(self.stream.blocks) for p in block.parameters()}
        for name, parameter in self.named_parameters():
            block = parts.block_of(name)
            block = owners.get(id(parameter)) if block is None else block
            if block is not None:
                self._in_blocks[name] = block

    def block_of(self, name: str) -> int | None:
        """The block that uses a parameter; None for embedding and read-out."""
        return self._in_blocks.get(name)

    def walk(self, inputs: Any, *, from_embedding: bool = True) -> Walk:
        """One call of the model, in one graph."""
        run = self.stream.in_one_graph(inputs)
        return Walk(
            run.hiddens, run.anchors, Branches(run.hiddens, self._residual), run.logits, oriented=self.stream.oriented
        )

    def in_pieces(self, inputs: Any, learns: Callable[[int], bool]) -> Pieces:
        """One call of the model; refused where parts share parameters."""
        run = self.stream.in_one_graph(inputs)
        found = self._members(run)
        parts = found.separate(self.title)
        outside = {name: p for name, p in self.named_parameters() if name in parts.readout}
        return GraphPieces(
            stages=run.hiddens,
            branches=Branches(run.hiddens, self._residual),
            deepest=run.anchors[-1],
            logits=run.logits,
            outside=outside,
            parts=parts,
            anchors=run.anchors,
            oriented=self.stream.oriented,
            tied=found.tied & parts.readout,
        )

    def _members(self, run: Pass) -> Members:
        """The parts of a pass; read off the graph again when a parameter was frozen or the mode changed."""
        named = list(self.named_parameters())
        key = (self.model.training, *(parameter.requires_grad for _, parameter in named))
        if key not in self._known:
            names = {id(parameter): name for name, parameter in named}
            found = members(run.hiddens, run.anchors, run.logits, names)
            self._known[key] = Members(found.stages, found.readout, self._tied)
        return self._known[key]

    def embedding(self, inputs: Any) -> Tensor:
        """Refused: the model runs as a whole."""
        raise self._only_whole()

    def branch(self, index: int, state: Tensor) -> Tensor:
        """Refused: the model runs as a whole."""
        raise self._only_whole()

    def readout(self, state: Tensor) -> Tensor:
        """Refused: the model runs as a whole."""
        raise self._only_whole()

    def _only_whole(self) -> ModelMismatch:
        return ModelMismatch(
            f"This rule runs the stages of a network one by one, and {self.title} runs as a whole.\n"
            "Its credit cannot be computed on this model. Use 'bp', 'dfa', 'fa' or 'fa_weights'."
        )


def adapted(
    model: nn.Module,
    example: Any,
    *,
    blocks: str | Sequence[str] | None = None,
    tied: Tied | None = None,
) -> StagedNetwork:
    """A network of ours as it is, any other model through its stream; `example` is a batch of inputs."""
    if isinstance(model, StagedNetwork) and blocks is None:
        return model
    stream = find_stream(model, blocks)
    network = AdaptedNetwork(stream.model, stream, tied=tied)
    try:
        network.learn_structure(example)
    except CreditscopeError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, KeyError, AssertionError) as error:
        raise ModelMismatch(
            f"{network.title} could not run on the example: {type(error).__name__}: {error}\n"
            "Its blocks cannot be found without a forward pass. Pass example= one batch (inputs, labels) as your loop "
            "gets them; a tuple of inputs is passed as arguments, a dict as keyword arguments."
        ) from error
    return network
