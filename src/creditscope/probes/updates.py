"""Measures Γ^W: the updates of a method beside the backprop gradient of the same batches, and by chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from creditscope.arguments import calling
from creditscope.batch import Batch
from creditscope.credit import Credit, CreditSource
from creditscope.errors import InvalidInput
from creditscope.evidence.alignment import MeanCosine, exact_cosines
from creditscope.evidence.updates import OwnAlignment, UpdateCosines, UpdateEvidence, median_cosines, update_cosines
from creditscope.probes.images import totals
from creditscope.probes.label_leak import with_labels
from creditscope.probes.weight_drift import parameter_stages
from creditscope.progress import steps
from creditscope.stream.states import Stream, called, logits_of
from creditscope.stream.trace import LossFunction, per_sample
from creditscope.verdict import Missing, Reason

UpdateFunction = Callable[[Batch], Mapping[str, Tensor]]
DRAWS = 10
_NO_LOSS = torch.zeros(())
NULL_BATCHES = 2  # each draw costs a step of the method for every batch
SIGNALS_ONLY = Missing(
    Reason.NOT_GIVEN, "this credit comes without updates: pass updates=, a function Batch -> {name: u}"
)


@dataclass(frozen=True, slots=True)
class Reference:
    """What a method itself descends, for a batch, and the credit that is compared with it."""

    of: Callable[[Batch], Credit | Missing | None]
    signals: Callable[[Batch], Sequence[Tensor]] = lambda batch: ()
    exact_layers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class GivenUpdates:
    """A user's own functions: the updates, and the gradient of what the method itself descends."""

    updates: UpdateFunction | None = None
    reference: UpdateFunction | None = None

    def __post_init__(self) -> None:
        for name, function in (("updates", self.updates), ("own_reference", self.reference)):
            if function is not None and not callable(function):
                raise InvalidInput(
                    f"{name} is a {type(function).__name__}, not a function.\n"
                    "There is nothing to compare with the gradient. Pass a function Batch -> {parameter name: update}."
                )
        if self.reference is not None and self.updates is None:
            raise InvalidInput(
                "own_reference was given without updates.\n"
                "There is no update to compare with it. Pass updates=, a function Batch -> {parameter name: update}."
            )

    def named(self, source: CreditSource | None) -> str:
        """What the method descends where that is not the loss; empty: the loss itself."""
        if self.reference is not None:
            return "the method's own loss"
        return "" if source is None else source.reference

    def reference_of(self, source: CreditSource | None) -> Reference | None:
        """The user's reference, or that of a rule; None where the method descends the loss."""
        function = self.reference
        if function is not None:
            own = partial(_called, "own_reference", function)
            return Reference(lambda batch: Credit((), _by_name(own(batch), "own_reference"), _NO_LOSS))
        if source is None or self.updates is not None or not source.reference:
            return None
        return Reference(source.own_reference, source.signals, source.exact_layers)


class UpdateProbe:
    """Compares updates with gradients, both by the parameter names of one network."""

    def __init__(self, stream: Stream, loss_fn: LossFunction) -> None:
        self._stream, self._loss_fn = stream, loss_fn
        self._stages, self._count = parameter_stages(stream.subject, stream.blocks), len(stream.blocks) + 2

    def evidence(
        self,
        source: CreditSource | None,
        given: GivenUpdates,
        batches: Sequence[Batch],
        generator: torch.Generator,
    ) -> UpdateEvidence | Missing:
        """Γ^W on all batches; its null (fresh feedback if there is any, else permuted labels) on the first two."""
        asked = source.updates if source is not None else None
        if given.updates is not None:
            asked = partial(_called, "updates", given.updates)
        if asked is None or asked(batches[0]) is None:
            return SIGNALS_ONLY
        gradients = [self._gradients(batch) for batch in batches]
        if not gradients[0]:
            return Missing(Reason.NOT_POSSIBLE, "no parameter of this network has a gradient")
        own = [self._cosines(asked, batch, g) for batch, g in zip(batches, gradients, strict=True)]
        few = list(zip(batches, gradients, strict=True))[:NULL_BATCHES]
        draws, kind = [], "permuted labels"
        for _ in steps("comparing updates with chance", range(DRAWS)):
            fresh = None if given.updates is not None or source is None else source.redrawn(generator)
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
            given.named(source),
            self._aligned(asked, given.reference_of(source), batches[:NULL_BATCHES]),
            {name: self._stages[name] for name in gradients[0]},
        )

    def _aligned(
        self, asked: Callable[[Batch], Any], reference: Reference | None, batches: Sequence[Batch]
    ) -> OwnAlignment | Missing | None:
        """The updates and the credit beside the method's own reference, on a few batches: it may be dear."""
        if reference is None:
            return None
        updates, credit, images = [], MeanCosine(), sum(len(batch.labels) for batch in batches)
        for batch in batches:
            with torch.enable_grad():
                found = reference.of(batch)
            if not isinstance(found, Credit):
                return found
            if found.gradients:
                updates.append(self._cosines(asked, batch, self._known(found.gradients)))
            if found.signals:
                pairs = zip(reference.signals(batch), found.signals, strict=True)
                vectors = [(self._stream.vectors(a), self._stream.vectors(b)) for a, b in pairs]
                credit.add([exact_cosines(a, b).flatten() for a, b in vectors])
        layered = credit.defined().dim() > 0
        return OwnAlignment(
            median_cosines(updates) if updates else None,
            tuple(credit.means().tolist()) if layered else (),
            images - int(credit.defined().min()) if layered else 0,
            len(batches),
            images,
            reference.exact_layers,
        )

    def _known(self, gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The gradients of the network's own parameters; refused if there is none."""
        known = {name: g for name, g in gradients.items() if name in self._stages}
        if not known:
            own = ", ".join(list(self._stages)[:4])
            raise InvalidInput(
                f"own_reference returned no parameter of this network; it has {own}, ...\n"
                "A cosine would pair unrelated numbers. Return {name: gradient} with the names of named_parameters()."
            )
        return known

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


def _by_name(given: Any, name: str) -> dict[str, Tensor]:
    """Tensors by parameter name; anything else is refused."""
    if not isinstance(given, Mapping) or not all(isinstance(update, Tensor) for update in given.values()):
        raise InvalidInput(
            f"{name} returned a {type(given).__name__}, not tensors by parameter name.\n"
            "The update of a weight cannot be identified. Return {name: update} with the names of named_parameters()."
        )
    return dict(given)


def checked_updates(given: Any, gradients: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Updates by parameter name; refused unless every one belongs to a parameter and has its shape."""
    updates = _by_name(given, "updates")
    wrong = [name for name, update in updates.items() if name in gradients and update.shape != gradients[name].shape]
    if wrong or not set(updates) & set(gradients):
        what = f"the wrong shape for {wrong[0]}" if wrong else "no parameter of this network"
        raise InvalidInput(
            f"updates returned {what}; the network has {', '.join(list(gradients)[:4])}, ...\n"
            "A cosine would pair unrelated numbers. Return {name: update} with the names of named_parameters()."
        )
    return updates


def _permuted(batch: Batch, generator: torch.Generator) -> Batch:
    order = torch.randperm(len(batch.labels), generator=generator).to(batch.labels.device)
    return with_labels(batch, batch.labels[order])


def _called(what: str, function: UpdateFunction, batch: Batch) -> Any:
    """What a user's function returns; `_by_name` and `checked_updates` check it."""
    with calling(what, "a function of one Batch (inputs, labels) that returns {parameter name: tensor}"):
        return function(batch)
