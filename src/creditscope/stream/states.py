"""Stream: a model with access to its states, and the rule that reads one vector from each state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.batch import each_tensor
from creditscope.errors import ModelMismatch
from creditscope.provenance import Guard
from creditscope.stream.block_pass import changed_in_place
from creditscope.stream.reading import Read, Reading, consumed_token
from creditscope.stream.values import first_floating

Shifts = Mapping[int, Tensor]


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass: the states h_0..h_L, the tensors to differentiate by for them, and the logits."""

    hiddens: tuple[Tensor, ...]
    anchors: tuple[Tensor, ...]
    logits: Tensor


class Stream(ABC):
    """A model together with a way to read and shift its states.

    constant_blocks  False where the model cannot be differentiated by its states without its parameters
    """

    constant_blocks = True

    def __init__(self, model: nn.Module, read: Read) -> None:
        self.model = model
        self.rule = read

    @abstractmethod
    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """One forward pass, with `shifts[l]` added to h_l on the way."""

    def in_one_graph(self, inputs: Any) -> Pass:
        """One forward pass whose graph begins at the model's parameters, those of the embedding included."""
        return self.run(inputs)

    def at(self, inputs: Any, states: Shifts) -> tuple[list[Tensor], Tensor] | None:
        """F_0(z_0)..F_{L-1}(z_{L-1}) and the logits at z_L, with z_l = states[l] in the place of h_l where it is given.

        None where the model's states cannot be replaced.
        """
        return None

    def certain(self, layer: int) -> bool:
        """Whether a shift of h_layer reaches every use that the model makes of it."""
        return True

    def onward(self, layer: int, state: Tensor) -> Tensor | None:
        """The logits from h_layer = state onward; None where the model can only be run as a whole."""
        return None

    @property
    def subject(self) -> nn.Module:
        """The user's own model."""
        return self.model

    @property
    @abstractmethod
    def blocks(self) -> list[nn.Module]:
        """The modules between h_0 and h_L, in order."""

    def constants(self) -> Sequence[nn.Module]:
        """The modules whose parameters need no gradient for those of the states: the blocks, where they are known."""
        return self.blocks

    def verify(self, inputs: Any, logits: Tensor) -> None:  # noqa: B027 (most streams run the model itself)
        """Refuse a stream whose logits are not the model's own."""

    def checks(self) -> dict[str, Guard]:
        """The guards of this stream, for the report."""
        return {}

    def oriented(self, tensor: Tensor, layer: int) -> Tensor:
        """A gradient at the anchor of a layer in the axes of its state, samples first."""
        return tensor

    def settle(self, inputs: Any) -> Tensor:
        """The logits; the read rule is settled on the way."""
        with torch.enable_grad():
            given = self.run(inputs)
            self.settle_by(inputs, given)
        return given.logits.detach()

    def settle_by(self, inputs: Any, given: Pass) -> None:
        """Replace a read rule of "auto" by the token that is consumed of the last state with tokens."""
        layer = max((layer for layer, state in enumerate(given.hiddens) if state.dim() == 3), default=None)
        if self.rule == "auto" and layer is not None:
            rule = consumed(given.logits, given.anchors[layer], lambda gradient: self.oriented(gradient, layer))
            self.rule = rule or self._poisoned(inputs, given, layer)

    def _poisoned(self, inputs: Any, given: Pass, layer: int) -> Read:
        """The token that a read-out of zeros consumes: it has no gradient, but 0·NaN is NaN."""
        ends: tuple[tuple[Read, int], ...] = (("first", 0), (-1, -1))
        for rule, token in ends:
            poison = torch.full_like(given.hiddens[layer], torch.nan)
            poison[:, token] = 0
            with torch.no_grad():
                if not bool(self.run(inputs, {layer: poison}).logits.isnan().any()):
                    return rule
        return "mean"

    @property
    def reading(self) -> Reading:
        """How states with positions are read."""
        return Reading(self.rule)

    def vectors(self, tensor: Tensor) -> Tensor:
        """The direction that stands for a gradient or a credit signal, by the read rule."""
        return self.reading.vectors(tensor)


class StagedStream(Stream):
    """Embedding, blocks and read-out run one after the other; differentiation ends at h_0."""

    def __init__(self, model: nn.Module, read: Read, stages: Any) -> None:
        super().__init__(model, read)
        self._stages = stages

    @property
    def blocks(self) -> list[nn.Module]:
        """The model's own list."""
        return list(self._stages.blocks)

    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """One pass; differentiation ends at h_0, which is cut from the embedding."""
        shifts = shifts or {}
        with torch.no_grad():
            state = self._stages.embedding(inputs)
        state = _shifted(state.detach(), shifts.get(0)).requires_grad_(torch.is_grad_enabled())
        return self._onward(state, shifts)

    def in_one_graph(self, inputs: Any) -> Pass:
        """One pass, embedding included."""
        state: Tensor = self._stages.embedding(inputs)
        if torch.is_grad_enabled() and not state.requires_grad:
            state = state.detach().requires_grad_()
        return self._onward(state, {})

    def _onward(self, state: Tensor, shifts: Shifts) -> Pass:
        """Blocks and read-out from h_0 on."""
        hiddens = [state]
        for index in range(len(self._stages.blocks)):
            version = state._version
            branch = self._stages.branch(index, state)
            if state._version != version:
                raise changed_in_place(f"input of block {index}")
            state = _shifted(self._stages.merge(index, state, branch), shifts.get(index + 1))
            hiddens.append(state)
        return Pass(tuple(hiddens), tuple(hiddens), self._stages.readout(state))

    def at(self, inputs: Any, states: Shifts) -> tuple[list[Tensor], Tensor] | None:
        """Every stage alone."""
        predicted: list[Tensor] = []
        state = states[0] if 0 in states else self._stages.embedding(inputs)
        for index in range(len(self._stages.blocks)):
            predicted.append(self._stages.merge(index, state, self._stages.branch(index, state)))
            state = states.get(index + 1, predicted[-1])
        return predicted, self._stages.readout(state)

    def onward(self, layer: int, state: Tensor) -> Tensor | None:
        """The blocks from `layer` on, and the read-out."""
        for index in range(layer, len(self._stages.blocks)):
            state = self._stages.merge(index, state, self._stages.branch(index, state))
        logits: Tensor = self._stages.readout(state)
        return logits


def consumed(logits: Tensor, anchor: Tensor, oriented: Callable[[Tensor], Tensor]) -> Read | None:
    """Which tokens of a state the logits depend on: every position with logits of its own, one, or many.

    A read-out that takes one token leaves an exact zero in the gradient of all others; None if all are zero.
    """
    weights = torch.randn(logits.shape[-1], generator=torch.Generator().manual_seed(0)).to(logits)
    gradients: tuple[Tensor | None, ...] = torch.autograd.grad(
        (logits @ weights).sum(), anchor, retain_graph=True, allow_unused=True
    )
    gradient = gradients[0]
    if gradient is None:  # `capture` explains it
        return "auto"
    used = (oriented(gradient) != 0).any(-1)  # (N, tokens)
    if logits.dim() > 2 and logits.shape[1] == used.shape[1]:
        return "all"
    return consumed_token(used)


def called(model: nn.Module, inputs: Any, **options: Any) -> Any:
    """The output of the model; a tuple of inputs is passed as arguments, a dict as keyword arguments.

    Floating-point inputs are copied: the model may write into them, and gradients reach its states.
    """
    copies = each_tensor(inputs, _rooted)
    if isinstance(copies, dict):
        return model(**copies, **options)
    return model(*copies, **options) if isinstance(copies, tuple | list) else model(copies, **options)


def logits_of(output: Any) -> Tensor:
    """The logits in the output of a model: a tensor, the first of a tuple, `.logits` or ["logits"]."""
    named = output.get("logits", output) if isinstance(output, Mapping) else getattr(output, "logits", output)
    logits = first_floating(named)
    if logits is None:
        raise ModelMismatch(
            f"The model returned {type(output).__name__}, which holds no floating-point tensor.\n"
            "Without logits there is no loss and no gradient. Return a tensor, a tuple that begins with the logits, or "
            "an object with .logits."
        )
    return logits


def block_lists(model: nn.Module) -> str:
    """A sentence that names the module lists of a model, any of which may be its blocks."""
    lists = [
        f"{name} ({len(module)} x {type(next(iter(module))).__name__})"
        for name, module in model.named_modules()
        if name and isinstance(module, nn.ModuleList | nn.Sequential) and len(module) > 1
    ]
    return f"Its lists of modules: {', '.join(lists[:8])}." if lists else "It has no list of modules."


def _rooted(tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    return tensor.detach().requires_grad_(torch.is_grad_enabled()).clone()


def _shifted(state: Tensor, shift: Tensor | None) -> Tensor:
    return state if shift is None else state + shift
