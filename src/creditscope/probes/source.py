"""Checks of the credit that a user passes in, as a source or as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.credit import CreditSource
from creditscope.errors import InvalidInput
from creditscope.stream.trace import Trace

CreditFunction = Callable[[Batch], Sequence[Tensor]]


@dataclass(frozen=True)
class FunctionSource(CreditSource):
    """A user's own function Batch -> [a_0..a_L]."""

    function: CreditFunction
    local: bool = True

    def signals(self, batch: Batch) -> tuple[Tensor, ...]:
        """The function's return value; `checked_signals` checks it."""
        return self.function(batch)  # type: ignore[return-value]


def credit_source(credit: Any, local: bool | None) -> CreditSource:
    """A credit source as it is, or a function wrapped as one; `local` is the user's declaration."""
    if isinstance(credit, CreditSource):
        if local is not None and local != credit.local:
            raise InvalidInput(
                f"credit_local={local} contradicts {type(credit).__name__}, which declares local={credit.local}.\n"
                "D9 would be judged by the wrong declaration. Omit credit_local, which is for functions."
            )
        return credit
    if isinstance(credit, nn.Module) or not callable(credit):
        raise InvalidInput(
            f"credit is a {type(credit).__name__}, neither a credit source nor a function.\n"
            "There is no signal to compare with the gradient. Pass checkpoint.credit(), or a function that takes a "
            "Batch (inputs, labels) and returns [a_0, ..., a_L]."
        )
    return FunctionSource(credit, local is not False)


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
