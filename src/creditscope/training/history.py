"""What is measured after every epoch of a run: accuracy, the scale of the stream, its reference and Γ."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.datasets.tensors import Dataset
from creditscope.diagnostics.reference import reference_validity
from creditscope.diagnostics.scale import scale_stability
from creditscope.evidence.alignment import AlignmentLedger, paired_vectors
from creditscope.evidence.ledger import Ledger
from creditscope.methods.adapted import AdaptedNetwork
from creditscope.methods.bound_rule import BoundRule
from creditscope.records.run import HistoryRow
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture, cross_entropy
from creditscope.verdict import Measurement, Missing

PROBE_BATCHES = 8  # of 128 test images, behind every row of the history; fewer where an epoch is as short as they are
TRAINED_PER_PROBE = 2000  # training images that pay for one batch of probes
EVALUATION_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Done:
    """A finished epoch: its number, the mean loss of its steps, the means of auxiliary losses."""

    epoch: int
    loss: float
    auxiliary: dict[str, float]


BEFORE = Done(epoch=-1, loss=float("nan"), auxiliary={})


def measured(credit: BoundRule, data: Dataset, done: Done) -> HistoryRow:
    """The row of an epoch, in evaluation mode, which stays on; `BEFORE` stands for a network without any epoch."""
    network = credit.network.eval()
    stream = network.stream if isinstance(network, AdaptedNetwork) else find_stream(network)
    ledger, aligned = Ledger(stream), AlignmentLedger()
    for batch in islice(data.test_batches(128), probe_batches(len(data.train.labels))):
        trace = capture(stream, batch, network.loss_fn or cross_entropy)
        ledger.add(trace)
        if credit.at_states:
            aligned.add(*paired_vectors(stream, credit.signals(batch), trace.gradients))
    evidence, alignment = ledger.evidence(), aligned.alignment() if credit.at_states else None
    return HistoryRow(
        epoch=done.epoch,
        loss=done.loss,
        accuracy=accuracy(credit, data),
        hidden_norms=tuple(evidence.hidden_medians.tolist()),
        gradient_norms=tuple(evidence.gradient_medians.tolist()),
        d1=_value(scale_stability(evidence)),
        d2=_value(reference_validity(evidence)),
        gamma=() if alignment is None else alignment.exact,
        gamma_clamped=() if alignment is None else alignment.clamped,
        auxiliary=done.auxiliary,
        angles=credit.angles(),
    )


def probe_batches(trained: int) -> int:
    """How many batches of test images a row is measured on: 8 on CIFAR-10, 2 on the 4,000 images of MNIST-1D."""
    return max(2, min(PROBE_BATCHES, trained // TRAINED_PER_PROBE))


@torch.no_grad()
def accuracy(credit: BoundRule, data: Dataset) -> float:
    """Share of the test set that is classified correctly, by the rule's own inference phase where it has one."""
    batches = data.test_batches(EVALUATION_BATCH)
    right = [(_logits(credit, batch).argmax(1) == batch.labels).sum() for batch in batches]
    return int(torch.stack(right).sum()) / len(data.test.labels)


def _logits(credit: BoundRule, batch: Batch) -> Tensor:
    own = credit.answers(batch)
    return credit.network(batch.inputs) if own is None else own


def _value(measurement: Measurement | Missing) -> float:
    return float("nan") if isinstance(measurement, Missing) else measurement.value
