"""What a dataset is: tensors in memory, the numbers that standardise them, and a checksum."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from creditscope.batch import Batch


@dataclass(frozen=True, slots=True)
class Dataset:
    """Raw tensors (uint8 images or float32 vectors), standardised by `prepare` when a batch is taken.

    train, test   inputs (N, *shape) and labels (N,), int64
    mean, std     one number per channel, or one number for all
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

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.train.inputs.shape[1:])

    @property
    def checksum(self) -> str:
        """SHA-256 over the bytes of all four tensors."""
        digest = hashlib.sha256()
        for tensor in (*self.train, *self.test):
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def to(self, device: torch.device | str) -> Dataset:
        """The same data on another device."""
        move = lambda batch: Batch(batch.inputs.to(device), batch.labels.to(device))  # noqa: E731
        return replace(self, train=move(self.train), test=move(self.test))

    def prepare(self, inputs: Tensor) -> Tensor:
        """(x - mean)/std in float32; uint8 images are first divided by 255."""
        shape = (-1,) + (1,) * (inputs.dim() - 2)
        mean = torch.tensor(self.mean, device=inputs.device).view(shape)
        std = torch.tensor(self.std, device=inputs.device).view(shape)
        scale = 255.0 if inputs.dtype == torch.uint8 else 1.0
        return (inputs - mean * scale) / (std * scale)
