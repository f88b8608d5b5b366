"""Measures Γ^W: the updates of a method beside the backprop gradient of the same batches, and by chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import CreditSource
from creditscope.errors import InvalidInput
from creditscope.evidence.updates import UpdateCosines, UpdateEvidence, median_cosines, update_cosines
from creditscope.probes.images import totals
from creditscope.probes.label_leak import with_labels
from creditscope.probes.weight_drift import parameter_stages
from creditscope.progress import steps
from creditscope.stream.states import Stream, called, logits_of
from creditscope.stream.trace import LossFunction, per_sample
from creditscope.verdict import Missing, Reason

UpdateFunction = Callable[[Batch], Mapping[str, Tensor]]
DRAWS = 10
NULL_BATCHES = 2  # each draw costs a step of the method for every batch
SIGNALS_ONLY = Missing(
    Reason.NOT_GIVEN, "this credit comes without updates: pass updates=, a function Batch -> {name: u}"
)


class UpdateProbe:
    """Compares updates with gradients, both by the parameter names of one network."""

    def __init__(self, stream: Stream, loss_fn: LossFunction) -> None:
        self._stream, self._loss_fn = stream, loss_fn
        self._stages, self._count = parameter_stages(stream.subject, stream.blocks), len(stream.blocks) + 2

    def evidence(
        self,
        source: CreditSource | None,
        function: UpdateFunction | None,
        batches: Sequence[Batch],
        generator: torch.Generator,
    ) -> UpdateEvidence | Missing:
        """Γ^W on all batches; its null (fresh feedback if there is any, else permuted labels) on the first two."""
        asked = function or (source.updates if source is not None else None)
        if asked is None or asked(batches[0]) is None:
            return SIGNALS_ONLY
        gradients = [self._gradients(batch) for batch in batches]
        if not gradients[0]:
            return Missing(Reason.NOT_POSSIBLE, "no parameter of this network has a gradient")
        own = [self._cosines(asked, batch, g) for batch, g in zip(batches, gradients, strict=True)]
        few = list(zip(batches, gradients, strict=True))[:NULL_BATCHES]
        draws, kind = [], "permuted labels"
        for _ in steps("comparing updates with chance", range(DRAWS)):
            fresh = None if function is not None or source is None else source.redrawn(generator)
            if fresh is not None:
                kind = "fresh feedback"
                draws.append(median_cosines([self._cosines(fresh.updates, batch, g) for batch, g in few]))
            else:
                draws.append(median_cosines([self._cosines(asked, _permuted(b, generator), g) for b, g in few]))
        return UpdateEvidence(
            median_cosines(own),
            len(batches),
            sum(len(batch.labels) for batch in batches),
            tuple(draws),
            median_cosines(own[:NULL_BATCHES]),
            kind,  # type: ignore[arg-type]
            "" if source is None else source.reference,
        )

    def _cosines(self, asked: Callable[[Batch], Any], batch: Batch, gradients: Mapping[str, Tensor]) -> UpdateCosines:
        with torch.enable_grad():
            given = asked(batch)
        return update_cosines(checked_updates(given, gradients), gradients, self._stages, self._count)

    def _gradients(self, batch: Batch) -> dict[str, Tensor]:
        """∂/∂θ of the mean loss, by the reference model where there is one; only of what the loss depends on."""
        named = {
            name: p for name, p in self._stream.model.named_parameters() if name in self._stages and p.requires_grad
        }
        if not named:
            return {}
        with torch.enable_grad():
            loss = totals(
                per_sample(self._loss_fn, logits_of(called(self._stream.model, batch.inputs)), batch.labels)
            ).mean()
            found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        return {name: g for name, g in zip(named, found, strict=True) if g is not None}


def checked_updates(given: Any, gradients: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Updates by parameter name; refused unless every one belongs to a parameter and has its shape."""
    if not isinstance(given, Mapping) or not all(isinstance(update, Tensor) for update in given.values()):
        raise InvalidInput(
            f"updates returned a {type(given).__name__}, not tensors by parameter name.\n"
            "The update of a weight cannot be identified. Return {name: update} with the names of named_parameters()."
        )
    wrong = [name for name, update in given.items() if name in gradients and update.shape != gradients[name].shape]
    if wrong or not set(given) & set(gradients):
        what = f"the wrong shape for {wrong[0]}" if wrong else "no parameter of this network"
        raise InvalidInput(
            f"updates returned {what}; the network has {', '.join(list(gradients)[:4])}, ...\n"
            "A cosine would pair unrelated numbers. Return {name: update} with the names of named_parameters()."
        )
    return given


def _permuted(batch: Batch, generator: torch.Generator) -> Batch:
    order = torch.randperm(len(batch.labels), generator=generator).to(batch.labels.device)
    return with_labels(batch, batch.labels[order])
