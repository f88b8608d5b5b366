"""Dataset: tensors in memory, the numbers that standardise them, and a checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.datasets.augment import Shifts, crop_and_flip, draw_shifts
from creditscope.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Dataset:
    """Raw tensors (uint8 images or float32 vectors), standardised by `prepare` when a batch is taken.

    train, test   inputs (N, *shape) and labels (N,), int64
    mean, std     one number per channel, or one number for all; of pixels in 0..1 where the inputs are uint8
    crop, flip    augmentation of training batches: zero padding of `crop` pixels then a random crop; mirror images
    """

    name: str
    train: Batch
    test: Batch
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: int = 0
    flip: bool = False

    def __post_init__(self) -> None:
        for part, batch in (("training", self.train), ("test", self.test)):
            _check_labels(f"The {part} part of {self.name!r}", batch, self.classes)
        if self.augmented and self.train.inputs.dim() != 4:
            raise InvalidInput(
                f"{self.name!r} declares crops or mirror images, but its inputs have shape {tuple(self.shape)}.\n"
                "Only images (channels, height, width) have an edge to crop. Leave `crop` at 0 and `flip` at False."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.train.inputs.shape[1:])

    @property
    def augmented(self) -> bool:
        """Whether training batches are cropped or mirrored at random."""
        return self.crop > 0 or self.flip

    @property
    def checksum(self) -> str:
        """SHA-256 over the bytes of all four tensors."""
        digest = hashlib.sha256()
        for tensor in (*self.train, *self.test):
            digest.update(tensor.cpu().contiguous().view(-1).numpy().data)
        return digest.hexdigest()

    @property
    def example(self) -> Batch:
        """Two training samples, prepared: what a rule sees before it draws its feedback."""
        return Batch(self.prepare(self.train.inputs[:2]), self.train.labels[:2])

    def to(self, device: torch.device | str) -> Dataset:
        """The same data on another device."""
        return replace(self, train=_move(self.train, device), test=_move(self.test, device))

    def prepare(self, inputs: Tensor) -> Tensor:
        """(x - mean)/std in float32; uint8 images are first divided by 255."""
        shape = (-1,) + (1,) * (inputs.dim() - 2)
        unit = 255.0 if inputs.dtype == torch.uint8 else 1.0
        mean = torch.tensor([unit * m for m in self.mean], device=inputs.device).view(shape)
        scale = torch.tensor([1 / (unit * s) for s in self.std], device=inputs.device).view(shape)
        prepared = inputs.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        return prepared.sub_(mean).mul_(scale)  # in place: a chain of new tensors costs more than the arithmetic

    def training_batch(self, indices: Tensor, generator: torch.Generator) -> Batch:
        """The training samples that `indices` names, in that order, augmented and standardised.

        Without augmentation nothing is drawn from the generator.
        """
        return self.gather(indices, self.draw_shifts(len(indices), generator))

    def draw_shifts(self, count: int, generator: torch.Generator) -> Shifts | None:
        """The crops and mirrorings of so many samples; None without augmentation."""
        return draw_shifts(count, generator, padding=self.crop, flip=self.flip) if self.augmented else None

    def gather(self, indices: Tensor, shifts: Shifts | None) -> Batch:
        """The training samples that `indices` names, shifted and standardised."""
        indices = indices.to(self.train.labels.device)
        labels = self.train.labels.index_select(0, indices)
        if shifts is None:
            return Batch(self.prepare(self.train.inputs.index_select(0, indices)), labels)
        return Batch(self.prepare(crop_and_flip(self.train.inputs, indices, shifts, padding=self.crop)), labels)

    def training_batches(self, size: int) -> Iterator[Batch]:
        """The training set in order, standardised and not augmented; the last batch may be smaller."""
        return self._batches(self.train, size)

    def test_batches(self, size: int) -> Iterator[Batch]:
        """The test set in order, standardised; the last batch may be smaller."""
        return self._batches(self.test, size)

    def _batches(self, part: Batch, size: int) -> Iterator[Batch]:
        if size < 1:
            raise InvalidInput(
                f"The batch size must be at least 1, got {size}.\nA smaller batch would hold nothing. Choose 1 or more."
            )
        pieces = zip(torch.split(part.inputs, size), torch.split(part.labels, size), strict=True)
        return (Batch(self.prepare(inputs), labels) for inputs, labels in pieces)


def _move(batch: Batch, device: torch.device | str) -> Batch:
    return Batch(batch.inputs.to(device), batch.labels.to(device))


def _check_labels(part: str, batch: Batch, classes: int) -> None:
    """One int64 label per sample, each within the classes."""
    if len(batch.inputs) != len(batch.labels) or len(batch.labels) == 0:
        raise InvalidInput(
            f"{part} has {len(batch.inputs)} inputs and {len(batch.labels)} labels.\n"
            "Samples would be paired with the wrong labels, or there are none. Give one label per input."
        )
    if batch.labels.dtype != torch.int64:
        raise InvalidInput(
            f"{part} has labels of type {batch.labels.dtype}.\n"
            "The loss needs class numbers. Convert them to torch.int64."
        )
    lowest, highest = int(batch.labels.min()), int(batch.labels.max())
    if lowest < 0 or highest >= classes:
        raise InvalidInput(
            f"{part} has labels from {lowest} to {highest}, but {classes} classes.\n"
            f"The loss would read past the logits. Labels must lie in 0..{classes - 1}: correct them, or `classes`."
        )
