"""Any model as a staged network, through its stream: rules credit it as they credit our own networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor, nn

from creditscope.errors import CreditscopeError, InvalidInput, ModelMismatch
from creditscope.methods.graph_pieces import Branches, GraphPieces
from creditscope.methods.membership import Members, Tied, adds, members
from creditscope.networks.staged import Pieces, StagedNetwork, Walk
from creditscope.randomness import RngStates, forked_rng, rng_states, set_rng_states
from creditscope.stream.find import find_stream
from creditscope.stream.isolation import undisturbed
from creditscope.stream.replacement import without_statistics
from creditscope.stream.states import Pass, Stream


@dataclass(frozen=True, slots=True)
class LastPass:
    """What the last forward pass ran on: inputs, number of samples, random states; the parameters of its read-out."""

    inputs: Any
    count: int
    random: RngStates
    readout: frozenset[str]


class AdaptedNetwork(StagedNetwork):
    """Any model whose stream is known: h_0..h_L are the stream's, the rest of the model is embedding and read-out.

    One forward pass is one call of the model. Everything that the model does on the way (dropout, BatchNorm, masks,
    autocast) happens as in a plain call.
    """

    wraps = "model"
    residual = False  # `branch` gives the next state itself

    def __init__(self, model: nn.Module, stream: Stream, *, tied: Tied | None = None) -> None:
        super().__init__()
        self.model = model
        self.stream = stream
        self._tied = tied
        self._known: dict[tuple[bool, ...], Members] = {}
        self._residual: tuple[bool, ...] = ()
        self._in_blocks: dict[str, int] = {}
        self._pass: LastPass | None = None

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
        """Find blocks, parts, skip connections and the token that is read on one batch; the model is left as it was."""
        with undisturbed(self.model), torch.enable_grad():
            run = self.stream.in_one_graph(inputs)
            self._residual = tuple(map(adds, run.hiddens[1:], run.hiddens))
            parts = self._members(run)
            self.stream.settle_by(inputs, run)
        if self.stream.rule != "auto":
            self.token = self.stream.rule
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
        run = self._run(inputs)
        return Walk(
            run.hiddens, run.anchors, Branches(run.hiddens, self._residual), run.logits, oriented=self.stream.oriented
        )

    def in_pieces(self, inputs: Any, learns: Callable[[int], bool]) -> Pieces:
        """One call of the model; refused where parts share parameters."""
        run = self._run(inputs)
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

    def _run(self, inputs: Any) -> Pass:
        """One call of the model, kept in mind for rules that run its stages again."""
        random = rng_states()
        run = self.stream.in_one_graph(inputs)
        readout = self._members(run).readout if torch.is_grad_enabled() else frozenset[str]()
        self._pass = LastPass(inputs, len(run.hiddens[0]), random, readout)
        return run

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
        """h_0 of these inputs, which the stages and the read-out run on from now on."""
        return self.walk(inputs).states[0]

    def branch(self, index: int, state: Tensor) -> Tensor:
        """F_l(state), the next state, on the inputs of the last pass."""
        return self._replayed({index: state})[0][index]

    def stages_at(self, states: Sequence[Tensor]) -> list[Tensor]:
        """Every stage at a state of its own, in one call of the model."""
        return self._replayed(dict(enumerate(states)))[0]

    def readout(self, state: Tensor) -> Tensor:
        """The logits at h_L = state; several batches of states one after the other."""
        last = self._last()
        return torch.cat([self._replayed({self.depth: part})[1] for part in torch.split(state, last.count)])

    def readout_parameters(self) -> dict[str, nn.Parameter]:
        """Those of the last pass."""
        return {name: p for name, p in self.named_parameters() if name in self._last().readout}

    def _replayed(self, states: Mapping[int, Tensor]) -> tuple[list[Tensor], Tensor]:
        """The last pass once more with states replaced: same inputs, same dropout, running statistics untouched."""
        last = self._last()
        with forked_rng(), without_statistics(self.model):
            set_rng_states(last.random)
            found = self.stream.at(last.inputs, states)
        if found is None:
            raise ModelMismatch(
                f"This rule runs the stages of a network at states of its own, and the states of {self.title} may be "
                "read by other modules than its blocks.\n"
                "Those would still see the old states. Use a rule that needs the forward pass alone, such as 'dfa' or "
                "'fa', or name other blocks with blocks=."
            )
        return found

    def _last(self) -> LastPass:
        if self._pass is None:
            raise ModelMismatch(
                f"{self.title} has not run yet, so that its stages have no inputs to run on.\n"
                "They may need more of them than the state. Run the model first."
            )
        return self._pass


def adapted(
    model: nn.Module,
    example: Any,
    *,
    blocks: str | Sequence[str] | None = None,
    tied: Tied | None = None,
) -> StagedNetwork:
    """A network of ours as it is, any other model through its stream; `example` is a batch of inputs."""
    if tied is not None and not (isinstance(tied, str) and tied in get_args(Tied)):
        raise InvalidInput(
            f"tied must be 'embedding' or 'readout', got {tied!r}.\n"
            "It decides which of two updates a shared weight gets. Choose one of the two, or leave it out."
        )
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
            "Its blocks cannot be found without a forward pass. Make the model in the sizes of the data; in Python, "
            "pass example= one batch (inputs, labels) as your loop gets them; a tuple of inputs is passed as "
            "arguments, a dict as keyword arguments."
        ) from error
    return network
