"""Reduces batches of arrays to evidence, with the ledgers that an audit of a network uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from creditscope.auditing.array_batches import ArrayBatch
from creditscope.auditing.fingerprints import Fingerprints
from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.evidence.alignment import AlignmentLedger, paired_vectors
from creditscope.evidence.credit import CreditEvidence
from creditscope.evidence.ledger import Ledger
from creditscope.evidence.records import Evidence
from creditscope.evidence.updates import NO_UPDATES, UpdateCosines, UpdateEvidence, median_cosines, update_cosines
from creditscope.stream.reading import Read, Reading, consumed_token
from creditscope.stream.trace import output_error
from creditscope.verdict import NO_CREDIT, Missing, Reason


def _needs_network(what: str) -> Missing:
    return Missing(Reason.NOT_GIVEN, f"needs the network, not only its arrays: {what}")


NO_REDRAW = _needs_network("its credit under fresh feedback")
NO_PERMUTATION = _needs_network("its credit for other labels")
NO_FLOAT64 = _needs_network("the gradient in float64")
NO_PERTURBATION = _needs_network("its credit with other weights")
NO_ANSWERS = _needs_network("its answers when other labels are passed in")
NO_READOUT = _needs_network("the states of its training images")


EMBEDDING, READOUT = ("embed", "embedding"), ("head", "readout")  # how the names of their parameters begin


class ArrayLedger:
    """Takes one batch after the other; keeps norms, sums and cosines, never a batch."""

    def __init__(self, read: Read, stages: Mapping[str, int] | None, *, disjoint: bool) -> None:
        self.rule = read  # settled by the first batch
        self._stages = stages
        self.ledger, self.fingerprints = Ledger(self), Fingerprints(disjoint=disjoint)
        self._aligned = AlignmentLedger()
        self._updates: list[UpdateCosines] = []
        self._parts: tuple[object, ...] = ()
        self._with_credit = False
        self.anchor = torch.zeros(())

    @property
    def reading(self) -> Reading:
        """How states with positions are read."""
        return Reading(self.rule)

    def add(self, batch: ArrayBatch) -> None:
        """Reduce one batch."""
        if not self._parts:
            self._parts, self.anchor = batch.parts, torch.zeros((), dtype=batch.hiddens[0].dtype)
            self._settle(batch)
        elif batch.parts != self._parts:
            raise InvalidInput(
                f"Batch {self.ledger.batches} does not hold the same arrays as the ones before it: other layers, other "
                "widths, or a part more or less.\n"
                "Numbers of different networks would be mixed. Write all batches alike."
            )
        states, gradients = batch.hiddens, batch.gradients
        self.fingerprints.add(Batch((states[0], states[-1]), _labels(batch)))
        self.ledger.add_states(states, gradients)
        if batch.error is not None:
            self.ledger.add_errors(batch.error)
        if batch.logits is not None and batch.labels is not None:
            if batch.error is None:
                self.ledger.add_errors(output_error(batch.logits, batch.labels))
            self.ledger.add_predictions(batch.logits, batch.labels)
        if batch.credit:
            self._with_credit = True
            self._aligned.add(*paired_vectors(self, batch.credit, gradients))
        if batch.updates:
            depth = len(states) - 1
            stages = stages_of(batch.backprop, self._stages, depth)
            self._updates.append(update_cosines(batch.updates, batch.backprop, stages, depth + 2))
            self._stages = stages

    def _settle(self, batch: ArrayBatch) -> None:
        """A read rule of "auto" becomes the token that the gradient at the deepest state says is read."""
        deepest = batch.gradients[-1]
        if self.rule != "auto" or deepest.dim() != 3:
            return
        logits = batch.logits
        if logits is not None and logits.dim() > 2 and logits.shape[1] == deepest.shape[1]:
            self.rule = "all"
        else:
            self.rule = consumed_token((deepest != 0).any(-1)) or "mean"

    def evidence(self, exact_layers: Iterable[int]) -> Evidence:
        """The evidence of all batches; a part that needs the network says so."""
        evidence = replace(self.ledger.evidence(), profile=NO_READOUT, updates=self._update_evidence())
        if not self._with_credit:
            return replace(evidence, credit=NO_CREDIT, leak=NO_CREDIT)
        credit = CreditEvidence(
            alignment=self._aligned.alignment(),
            exact_layers=_checked_layers(exact_layers, len(self.ledger.widths)),
            images=self.ledger.images,
            null=NO_REDRAW,
            label_dependence=NO_PERMUTATION,
            precision=NO_FLOAT64,
            backprop=NO_PERTURBATION,
        )
        return replace(evidence, credit=credit, leak=NO_ANSWERS)

    def _update_evidence(self) -> UpdateEvidence | Missing:
        if not self._updates:
            return NO_UPDATES
        return UpdateEvidence(
            median_cosines(self._updates), len(self._updates), self.ledger.images, stage_of=self._stages or {}
        )


def stages_of(names: Iterable[str], given: Mapping[str, int] | None, depth: int) -> dict[str, int]:
    """The stage of every parameter: 0 the embedding, 1..L the blocks, L + 1 the read-out.

    By `given`, else by the name: embed/... or embedding/..., blocks/l/..., head/... or readout/..., with / or . between
    the parts.
    """
    stages = {}
    for name in names:
        stage = (given or {}).get(name, _stage_in_name(name, depth))
        if isinstance(stage, bool) or not isinstance(stage, int) or not 0 <= stage <= depth + 1:
            what = "is not known" if stage is None else f"cannot be {stage!r}"
            raise InvalidInput(
                f"The stage of the parameter {name} {what}: there are 0 (embedding) to {depth + 1} (read-out).\n"
                "Γ^W per block would be of another block. Call parameters embed/NAME, blocks/0/NAME to "
                f"blocks/{depth - 1}/NAME and head/NAME, or pass stages= {{name: stage}}."
            )
        stages[name] = stage
    return stages


def _stage_in_name(name: str, depth: int) -> int | None:
    first, *rest = re.split(r"[./]", name)
    if first in EMBEDDING or first in READOUT:
        return 0 if first in EMBEDDING else depth + 1
    block = int(rest[0]) if first == "blocks" and rest and rest[0].isdecimal() else depth
    return block + 1 if block < depth else None


def _labels(batch: ArrayBatch) -> Tensor:
    return torch.zeros(len(batch.hiddens[0])) if batch.labels is None else batch.labels


def _checked_layers(layers: Any, count: int) -> frozenset[int]:
    exact = frozenset(layers)
    if not exact <= set(range(count)):
        raise InvalidInput(
            f"exact_layers = {sorted(exact, key=str)} are not all among the layers 0 to {count - 1}.\n"
            "D5 would leave out the wrong ones. Name layers whose credit is the gradient by construction."
        )
    return exact
