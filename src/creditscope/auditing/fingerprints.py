"""Fingerprints of samples: finds batches that overlap, repeat or hold the same samples in another order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope.batch import Batch, tensors_in
from creditscope.errors import InvalidInput
from creditscope.provenance import Guard, GuardStatus

Words = np.ndarray[Any, np.dtype[np.uint64]]
SHARE, FEWEST = 0.05, 8  # so large a share of all samples, and so many, must come again
EXCESS = 3  # and so many times more than equal samples within batches explain
COORDINATES, BITS = 64, 32  # numbers of a sample that are looked at; values beyond 2³² do not meet by chance
FOLD = 29  # bits by which a word is folded on itself; not 32: of two equal halves nothing would be left

MIXED = np.uint64(0x9E3779B97F4A7C15)

REMEDY = (
    "D4 would mistake the repetition for agreement, and intervals over images would be too narrow. Pass disjoint "
    "batches (one pass over the data, without replacement), or disjoint=False to have it reported instead."
)


class Fingerprints:
    """64 bits per sample of all batches so far, inputs and label together.

    Datasets hold some samples twice, and inputs with few values (bits, short texts) hold many. Equal samples of that
    kind also meet *within* a batch; those of repeated or overlapping batches meet only across batches. So batches are
    refused where more than `SHARE` of the samples come again, and `EXCESS` times more than the equal pairs within
    batches let expect. Of a batch of at least two samples that all came before the share is not asked, and its exact
    copy is refused in any case. Draws with replacement meet within batches as often as across: they are refused where
    the inputs are real numbers of so many values that as many equal samples cannot be the data's own.

    disjoint  False if the caller knows that batches overlap: it is said in the guard, not refused
    """

    def __init__(self, *, disjoint: bool = True) -> None:
        self._disjoint = disjoint
        self.labels = torch.zeros(0)  # of the latest batch, on the CPU if they are class numbers
        self._known = np.empty(0, np.uint64)
        self._whole: dict[bytes, int] = {}
        self._samples = self._again = self._inside = self._batches = 0
        self._pairs = self._equal_pairs = 0
        self._expected = 0.0

    def add(self, batch: Batch) -> None:
        """Compare a batch with all earlier ones."""
        marks, self.labels = fetched(batch)
        index, key = self._batches, sha256(marks.tobytes()).digest()
        distinct, copies = _counted(marks)
        known = _among(distinct, self._known)
        count, again = len(marks), int(copies[known].sum())
        self._pairs += count * (count - 1) // 2
        self._equal_pairs += int((copies * (copies - 1) // 2).sum())
        rate = self._equal_pairs / self._pairs if self._pairs else 0.0
        self._expected += count * min(1.0, self._samples * rate)
        self._samples, self._again = self._samples + count, self._again + again
        self._inside += count - len(distinct) - int((copies[known] - 1).sum())
        many, drawn = (seen >= FEWEST and seen > SHARE * self._samples for seen in (self._again, self._repeats))
        whole = again == count > 1
        if self._disjoint and count > 1 and key in self._whole:
            raise InvalidInput(f"Batches {self._whole[key]} and {index} hold the same samples.\n{REMEDY}")
        if self._disjoint and (many or whole) and self._again > EXCESS * self._expected:
            raise InvalidInput(
                f"{again:,} of the {count:,} samples of batch {index} occurred in earlier batches.\n{REMEDY}"
            )
        if self._disjoint and drawn and _values_never_meet(batch):
            raise InvalidInput(
                f"{self._repeats:,} of the {self._samples:,} samples up to batch {index} occurred before, "
                f"{self._inside:,} of them in the same batch: they were drawn with replacement.\n{REMEDY}"
            )
        self._known = np.sort(np.concatenate([self._known, distinct[~known]]), kind="stable")  # two sorted runs
        self._whole.setdefault(key, index)
        self._batches += 1

    @property
    def _repeats(self) -> int:
        """Samples that occurred before, in an earlier batch or in their own."""
        return self._again + self._inside

    def guard(self) -> Guard:
        """How many samples came again."""
        where = {"an earlier batch": self._again, "the same batch": self._inside}
        parts = [f"{count:,} of {self._samples:,} samples occurred in {name}" for name, count in where.items() if count]
        return Guard(GuardStatus.PASSED if self._disjoint or not parts else GuardStatus.OFF, "; ".join(parts))


class SeenInTraining:
    """Counts the test samples that are among the training images: a read-out fitted on them knows their labels.

    Refused where they are more than `SHARE` of the samples and cannot be equal by chance.
    """

    def __init__(self, training: Sequence[Batch], *, disjoint: bool) -> None:
        self._known = np.unique(np.concatenate([sample_hashes(batch) for batch in training]))
        self._disjoint = disjoint
        self._samples = self._again = 0

    def add(self, batch: Batch) -> None:
        """Look for the samples of a test batch."""
        self._again += int(_among(sample_hashes(batch), self._known).sum())
        self._samples += len(batch.labels)
        many = self._again >= FEWEST and self._again > SHARE * self._samples
        if self._disjoint and many and _values_never_meet(batch):
            raise InvalidInput(
                f"{self._again:,} of the first {self._samples:,} test samples are among the training images.\n"
                "D10's read-outs would be tested on what they were fitted on, and the accuracy may be remembered, not "
                "learnt. Pass training= without the test images, or disjoint=False to have it reported instead."
            )

    def guard(self) -> Guard:
        """How many test samples were found."""
        text = f"{self._again:,} of {self._samples:,} test samples are among the training images" if self._again else ""
        return Guard(GuardStatus.PASSED if self._disjoint or not self._again else GuardStatus.OFF, text)


def _values_never_meet(batch: Batch) -> bool:
    """Whether the inputs are real numbers that take so many values that equal samples are one sample, drawn twice."""
    bits = 0.0
    for tensor in tensors_in(batch.inputs):
        if tensor.is_floating_point() and len(tensor) == len(batch.labels):
            rows = tensor.detach().flatten(1) if tensor.dim() > 1 else tensor.detach()[:, None]
            step = 1 + rows.shape[1] // COORDINATES
            bits += sum(math.log2(len(np.unique(column))) for column in rows[:, ::step].double().cpu().numpy().T)
    return bits >= BITS


def fetched(batch: Batch) -> tuple[Words, Tensor]:
    """The hashes of a batch, and its labels: of a batch on another device both come with one copy to the CPU."""
    labels = batch.labels.detach()
    if all(tensor.device.type == "cpu" for tensor in (*tensors_in(batch.inputs), labels)):
        return sample_hashes(batch), labels
    hashes = _hashes_there(batch)
    if labels.dim() != 1 or labels.is_floating_point() or labels.dtype == torch.bool:
        return hashes.cpu().numpy().view(np.uint64), labels
    both = torch.stack([hashes, labels.long()]).cpu()
    return both[0].numpy().view(np.uint64), both[1]


def sample_hashes(batch: Batch) -> Words:
    """One 64-bit hash per sample, of every number of its inputs and its label.

    Σ_j w_j·y_j mod 2⁶⁴,  y_j = x_j ⊕ (x_j >> 29),  over the 64-bit words x_j of a sample, w_j odd and fixed: exact
    integers, so that the hash does not depend on the place of the sample in its batch. A sum of words that all
    end in z zeros ends in z zeros too. A word holds two numbers in float32, and of the upper one alone only the lower
    half of w_j would be heard; folded, it is heard in the lower half too. Of 1.0 as the upper number 38 bits are left,
    of 2.0 31, and 30 of the worst, -0.0.
    """
    count = len(batch.labels)
    total = np.zeros(count, np.uint64)
    for place, tensor in enumerate((*tensors_in(batch.inputs), batch.labels)):
        words = _words(tensor.detach() if len(tensor) == count else tensor.detach()[None])
        folded = words >> np.uint64(FOLD)
        folded ^= words
        sums = np.einsum("ij,j->i", folded, _weights(place, words.shape[1]))
        total = (total ^ sums) * MIXED  # not a sum: (x, y) is not (y, x)
    return total


def _counted(values: Words) -> tuple[Words, np.ndarray[Any, np.dtype[np.int64]]]:
    """The distinct values in order, and how often each occurs: `numpy.unique` in a fifth of its time."""
    ordered = np.sort(values)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)])
    return ordered[starts], np.diff(starts, append=len(ordered))


def _among(values: Words, known: Words) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which values occur in a sorted array."""
    if not len(known):
        return np.zeros(len(values), np.bool_)
    found: np.ndarray[Any, np.dtype[np.bool_]] = (
        known[np.searchsorted(known, values).clip(max=len(known) - 1)] == values
    )
    return found


@lru_cache(8)
def _weights(place: int, words: int) -> Words:
    drawn: Words = np.random.default_rng((place, words)).integers(0, 1 << 63, words, np.uint64) * 2 + 1
    return drawn.astype(np.uint64)


def _hashes_there(batch: Batch) -> Tensor:
    """`sample_hashes`, bit for bit, in int64 on the device of the labels: products and sums are taken mod 2⁶⁴ too."""
    device, count = batch.labels.device, len(batch.labels)
    total = torch.zeros(count, dtype=torch.int64, device=device)
    for place, tensor in enumerate((*tensors_in(batch.inputs), batch.labels)):
        each = (tensor if len(tensor) == count else tensor[None]).detach().to(device).contiguous()
        data = (each.flatten(1) if each.dim() > 1 else each[:, None]).view(torch.uint8)
        words = F.pad(data, (0, -data.shape[1] % 8)).view(torch.int64)
        words = words ^ ((words >> FOLD) & ((1 << 64 - FOLD) - 1))  # zeros move in from the left
        weights = torch.from_numpy(_weights(place, words.shape[1]).view(np.int64)).to(device)
        total = (total ^ (words * weights).sum(1)) * int(MIXED.view(np.int64))
    return total


def _words(tensor: Tensor) -> Words:
    """The bytes of each sample as 64-bit words, filled up with zeros."""
    raw = tensor.cpu().contiguous().flatten(1) if tensor.dim() > 1 else tensor.cpu().contiguous()[:, None]
    data = raw.view(torch.uint8).numpy()
    missing = -data.shape[1] % 8
    words: Words = (np.pad(data, ((0, 0), (0, missing))) if missing else data).view(np.uint64)
    return words
