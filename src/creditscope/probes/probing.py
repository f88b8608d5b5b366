"""Runs the probes that an audit needs besides the traces: on credit, predictions and initial weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from creditscope.arguments import calling
from creditscope.batch import Batch, first_images
from creditscope.credit import Local
from creditscope.errors import InvalidInput
from creditscope.evidence.records import NO_TRAINING_IMAGES, Evidence
from creditscope.probes.credit import CreditLedger
from creditscope.probes.images import PROBE_IMAGES
from creditscope.probes.label_leak import Answers, answers_of, label_leak
from creditscope.probes.linear_readout import TAKEN, NotFinite, ReadoutLedger
from creditscope.probes.source import Redraw, check_model, credit_source
from creditscope.probes.updates import GivenUpdates, UpdateProbe
from creditscope.probes.weight_drift import initial_weights, weight_drift
from creditscope.stream.isolation import own_gradients
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, Trace
from creditscope.verdict import Missing, Reason

NO_STATE_CREDIT = Missing(
    Reason.NOT_APPLICABLE, "this method has no credit at the states; its updates are compared in place of it"
)
FEW = 8  # images that show the classes and the read rule
NO_FUNCTIONS = GivenUpdates()
SEED = 0  # of the probes' own generator, so that audits are reproducible


class Probing:
    """Takes every batch with its trace, keeps what the probes need, and completes the evidence."""

    def __init__(
        self,
        stream: Stream,
        credit: Any,
        local: Local | None,
        predict: Answers | None,
        redraw: Redraw | None = None,
        updates: GivenUpdates = NO_FUNCTIONS,
    ) -> None:
        if predict is not None and not callable(predict):
            raise InvalidInput(
                f"predict is a {type(predict).__name__}, not a function.\n"
                "The method's predictions cannot be computed. Pass a function that takes a Batch and returns logits."
            )
        if redraw is not None and credit is None:
            raise InvalidInput(
                "redraw was given without credit.\n"
                "There is no Γ that its null could be compared with. Pass the credit function as credit=."
            )
        self._stream, self._predict, self._updates = stream, predict, updates
        self._source = None if credit is None else credit_source(credit, local, redraw)
        if self._source is not None:
            check_model(self._source, stream.subject)
        lost = None if self._source is None else self._source.missing
        self._lost = lost
        signals = self._source is not None and lost is None and self._source.at_states
        self._credit = CreditLedger(stream, self._source) if signals and self._source is not None else None
        self._images: list[Batch] = []
        self._right: list[int] = []
        self.answered = 0  # images that the method itself classified
        self._readouts: ReadoutLedger | Missing = NO_TRAINING_IMAGES

    def fit_readouts(self, training: Sequence[Batch], initial: Any) -> None:
        """Fit a linear read-out of every state; the read rule is settled on the way."""
        first = training[0]
        with calling("The forward pass on the training images", TAKEN):
            classes = self._stream.settle(first_images(first, FEW).inputs).shape[-1]
        if first.labels.dim() != 1 or first.labels.is_floating_point():
            self._readouts = Missing(Reason.NOT_APPLICABLE, "the labels are not one class per image")
            return
        start = None if initial is None else initial_weights(self._stream.subject, initial)
        try:
            self._readouts = ReadoutLedger(self._stream, training, classes, start)
        except NotFinite:
            self._readouts = Missing(Reason.NOT_POSSIBLE, "the states of the training images are not finite")

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Undo any change that a credit function makes to the parameters' .grad."""
        if self._source is None and self._updates.updates is None:
            yield
            return
        with own_gradients(self._stream.model):
            yield

    def add(self, batch: Batch, trace: Trace) -> None:
        """Take one batch and its trace."""
        if isinstance(self._readouts, ReadoutLedger):
            self._readouts.add(batch, trace)
        own = None if self._source is None or self._lost is not None else self._source.answers(batch)
        if own is not None:
            self._right.append(int((own.argmax(-1) == batch.labels).sum()))
            self.answered += len(batch.labels)
        if self._credit is not None:
            self._credit.add(batch, trace)
        elif self._keeps_images:
            room = PROBE_IMAGES - sum(len(kept.labels) for kept in self._images)
            if room > 0:
                self._images.append(first_images(batch, min(room, len(batch.labels))))

    @property
    def _keeps_images(self) -> bool:
        """Whether a probe needs images although there is no credit at the states."""
        stateless = self._source is not None and self._lost is None
        return stateless or self._predict is not None or self._updates.updates is not None

    @property
    def accuracy(self) -> float | None:
        """Of the method's own inference phase; None if the network itself predicts."""
        return sum(self._right) / self.answered if self.answered else None

    def completed(
        self, evidence: Evidence, loss_fn: LossFunction, initial: Any, *, judged_only: bool = False
    ) -> Evidence:
        """The evidence with the results of the probes added; with `judged_only` without ρ, nudging and updates."""
        readouts = self._readouts
        evidence = replace(evidence, profile=readouts if isinstance(readouts, Missing) else readouts.profile())
        if self._source is None and self._predict is None and self._updates.updates is None and initial is None:
            return evidence
        generator = torch.Generator().manual_seed(SEED)
        modules, bound = self._stream.blocks, self._source is not None and self._lost is None
        if initial is not None:
            evidence = replace(evidence, weight_drift=weight_drift(self._stream.subject, initial, modules))
        if self._lost is not None:
            evidence = replace(evidence, credit=self._lost, leak=self._lost)
        if self._credit is not None:
            measured = self._credit.evidence(modules, loss_fn, generator, judged_only=judged_only)
            evidence = replace(evidence, credit=measured)
        elif bound:
            evidence = replace(evidence, credit=NO_STATE_CREDIT)
        images = self._credit.batches if self._credit is not None else self._images
        if images and not judged_only and (self._updates.updates is not None or bound):
            probe = UpdateProbe(self._stream, loss_fn)
            chance = torch.Generator().manual_seed(SEED)
            evidence = replace(evidence, updates=probe.evidence(self._source, self._updates, images, chance))
        if images and (self._source is not None or self._predict is not None):
            answers = answers_of(self._stream, self._source, self._predict)
            evidence = replace(evidence, leak=label_leak(answers, images, generator))
        return evidence
