"""Checks of the credit that a user passes in, as a source or as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.arguments import calling
from creditscope.batch import Batch
from creditscope.credit import CreditSource, Local
from creditscope.errors import InvalidInput, ModelMismatch
from creditscope.stream.trace import Trace
from creditscope.verdict import Missing, Reason

CreditFunction = Callable[[Batch], Sequence[Tensor]]
Redraw = Callable[[torch.Generator], CreditFunction]
NO_REDRAW = Missing(
    Reason.NOT_GIVEN,
    "no fresh feedback to compare with: pass redraw=, a function that takes a torch.Generator and returns a credit "
    "function with fresh feedback",
)


@dataclass(frozen=True)
class FunctionSource(CreditSource):
    """A user's own function Batch -> [a_0..a_L], and where given a function that draws its feedback again."""

    function: CreditFunction
    local: Local = True
    redraw: Redraw | None = None

    def signals(self, batch: Batch) -> tuple[Tensor, ...]:
        """The function's return value; `checked_signals` checks it."""
        with calling("credit", "a function of one Batch (inputs, labels) that returns [a_0, ..., a_L]"):
            return self.function(batch)  # type: ignore[return-value]

    def redrawn(self, generator: torch.Generator) -> FunctionSource | None:
        """The function with fresh feedback; None if the user gave no `redraw`."""
        if self.redraw is None:
            return None
        with calling("redraw", "a function of one torch.Generator that returns a credit function"):
            fresh: Any = self.redraw(generator)
        if not callable(fresh):
            raise InvalidInput(
                f"redraw returned a {type(fresh).__name__}, not a credit function.\n"
                "The null has no signals. Return a function that takes a Batch and returns [a_0, ..., a_L]."
            )
        return FunctionSource(fresh, self.local)


def credit_source(credit: Any, local: Local | None = None, redraw: Redraw | None = None) -> CreditSource:
    """A credit source as it is, or a function wrapped as one; `local` and `redraw` are the user's declarations."""
    if not (local is None or isinstance(local, bool) or (isinstance(local, str) and local == "forward")):
        raise InvalidInput(
            f"credit_local must be True, False or 'forward', got {local!r}.\n"
            "D9 would not know what to judge. Pass 'forward' if the credit uses the weights above only by running "
            "them forward, False if it uses them in any other way."
        )
    if isinstance(credit, CreditSource):
        _check_declarations(credit, local, redraw)
        return credit
    if isinstance(credit, nn.Module) or not callable(credit):
        raise InvalidInput(
            f"credit is a {type(credit).__name__}, neither a credit source nor a function.\n"
            "There is no signal to compare with the gradient. Pass checkpoint.credit(), or a function that takes a "
            "Batch (inputs, labels) and returns [a_0, ..., a_L]."
        )
    if redraw is not None and not callable(redraw):
        raise InvalidInput(
            f"redraw is a {type(redraw).__name__}, not a function.\n"
            "No feedback could be drawn for the null of D6. Pass a function that takes a torch.Generator and returns a "
            "credit function with fresh feedback."
        )
    return FunctionSource(credit, True if local is None else local, redraw)


def check_model(source: CreditSource, audited: nn.Module) -> None:
    """Refuse the credit of another network than the audited one; a wrapper or a part shares parameters with it."""
    own = set() if source.model is None else {id(parameter) for parameter in source.model.parameters()}
    if own and own.isdisjoint(id(parameter) for parameter in audited.parameters()):
        raise ModelMismatch(
            f"credit is bound to another {type(source.model).__name__} than the audited network: they share no "
            "parameter.\n"
            "Credit of one network would be compared with gradients of another. Bind the rule to the audited network, "
            "and load the feedback that trained it: rule.load_state_dict."
        )


def _check_declarations(source: CreditSource, local: Local | None, redraw: Redraw | None) -> None:
    """Refuse declarations that are for functions."""
    name = type(source).__name__
    if local is not None and local != source.local:
        raise InvalidInput(
            f"credit_local={local} contradicts {name}, which declares local={source.local}.\n"
            "D9 would be judged by the wrong declaration. Omit credit_local, which is for functions."
        )
    if redraw is not None:
        raise InvalidInput(
            f"redraw was given together with {name}, which has a redrawn() of its own.\n"
            "D6 would be judged by another null than that of the rule. Omit redraw, which is for functions."
        )


def checked_signals(source: CreditSource, batch: Batch, trace: Trace) -> tuple[Tensor, ...]:
    """a_0..a_L; refused unless there is one per state, of its shape, finite and detached.

    Where the network itself is not finite, its credit need not be: D0 fires, and Γ is undefined.
    """
    states = trace.hiddens
    with torch.enable_grad():
        given: Any = source.signals(batch)
    if not isinstance(given, tuple | list) or not all(isinstance(signal, Tensor) for signal in given):
        inside = f" of {_kinds(given)}" if isinstance(given, tuple | list) else ""
        raise InvalidInput(
            f"credit returned a {type(given).__name__}{inside}, not a list of tensors.\n"
            "The credit of each state cannot be identified. Return [a_0, ..., a_L]."
        )
    if len(given) != len(states):
        raise InvalidInput(
            f"credit returned {len(given)} signals for {len(states)} states h_0 to h_{len(states) - 1}.\n"
            "Credit would be compared with the gradient of another layer. Return one per state, embedding included."
        )
    for layer, (signal, state) in enumerate(zip(given, states, strict=True)):
        _check_signal(signal, state, layer)
        if not bool(signal.isfinite().all()) and all(bool(t.isfinite().all()) for t in (*states, trace.logits)):
            raise InvalidInput(
                f"The credit a_{layer} holds {int((~signal.isfinite()).sum())} numbers that are not finite, while the "
                "states and logits are finite.\n"
                "Every mean over it would be NaN. Look for an overflow or a division by zero in the credit function."
            )
    return tuple(signal.to(state.device) for signal, state in zip(given, states, strict=True))


def _check_signal(signal: Tensor, state: Tensor, layer: int) -> None:
    if signal.layout is not torch.strided or signal.is_meta or signal.is_nested:
        raise InvalidInput(
            f"The credit a_{layer} is a sparse, nested or meta tensor, not plain numbers.\n"
            "It cannot be compared with the gradient. Return a dense tensor."
        )
    if signal.shape != state.shape:
        raise InvalidInput(
            f"The credit a_{layer} has shape {tuple(signal.shape)}, but the state h_{layer} has {tuple(state.shape)}.\n"
            "A cosine would pair unrelated numbers or broadcast. Return credit of the state's own shape."
        )
    if not signal.is_floating_point():
        raise InvalidInput(
            f"The credit a_{layer} holds {signal.dtype}, not floating-point numbers.\n"
            "It was rounded, or is not the signal. Return the signal itself."
        )
    if signal.requires_grad:
        raise InvalidInput(
            f"The credit a_{layer} requires grad.\n"
            "It is part of a graph, which keeps the batch in memory and lets gradients flow into the credit. "
            "Return a_l.detach()."
        )


def _kinds(given: Sequence[Any]) -> str:
    return ", ".join(dict.fromkeys(type(item).__name__ for item in given)) or "nothing"
