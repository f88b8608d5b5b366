"""What a dataset promises about its batches."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
import torch

from creditscope.batch import Batch
from creditscope.datasets.augment import crop_and_flip, draw_shifts
from creditscope.datasets.tensors import Dataset
from creditscope.errors import InvalidInput


@pytest.fixture
def images() -> Dataset:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (50, 3, 8, 8), dtype=torch.uint8, generator=generator)
    labels = torch.randint(4, (50,), generator=generator)
    return Dataset(
        "some",
        Batch(pixels[:40], labels[:40]),
        Batch(pixels[40:], labels[40:]),
        4,
        (0.5, 0.4, 0.3),
        (0.2, 0.3, 0.4),
        2,
        True,
    )


@pytest.fixture
def vectors() -> Dataset:
    inputs = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(12) % 3
    return Dataset("some", Batch(inputs[:8], labels[:8]), Batch(inputs[8:], labels[8:]), 3, (0.1,), (2.0,))


def test_pixels_are_divided_by_255_and_standardised_per_channel(images: Dataset) -> None:
    prepared = images.prepare(images.train.inputs)
    for channel in range(3):
        pixels = images.train.inputs[:, channel].double() / 255
        expected = (pixels - images.mean[channel]) / images.std[channel]
        torch.testing.assert_close(prepared[:, channel].double(), expected, rtol=1e-6, atol=1e-6)
    assert prepared.dtype == torch.float32


def test_vectors_are_standardised_as_they_are_and_left_alone(vectors: Dataset) -> None:
    before = vectors.train.inputs.clone()
    torch.testing.assert_close(vectors.prepare(vectors.train.inputs), (before - 0.1) / 2)
    assert torch.equal(vectors.train.inputs, before)


def test_padding_is_black_in_raw_pixels_and_not_zero_after_standardising(images: Dataset) -> None:
    white = replace(images, train=Batch(torch.full_like(images.train.inputs, 255), images.train.labels))
    batch = white.training_batch(torch.arange(40), torch.Generator().manual_seed(0))
    for channel in range(3):
        black, full = (images.prepare(torch.full((1, 3, 1, 1), v, dtype=torch.uint8)) for v in (0, 255))
        levels = batch.inputs[:, channel].unique().tolist()
        assert levels == [black[0, channel].item(), full[0, channel].item()]


def test_a_training_batch_is_the_cropped_images_standardised_in_the_order_asked_for(images: Dataset) -> None:
    indices = torch.tensor([7, 3, 3, 39, 0])
    batch = images.training_batch(indices, torch.Generator().manual_seed(5))
    shifts = draw_shifts(5, torch.Generator().manual_seed(5), padding=2, flip=True)
    raw = crop_and_flip(images.train.inputs, indices, shifts, padding=2)
    assert torch.equal(batch.inputs, images.prepare(raw.contiguous()))
    assert torch.equal(batch.labels, images.train.labels[indices])
    assert batch.inputs.is_contiguous()


def test_without_augmentation_nothing_is_drawn(vectors: Dataset) -> None:
    generator = torch.Generator().manual_seed(0)
    state = generator.get_state()
    batch = vectors.training_batch(torch.tensor([2, 0]), generator)
    assert torch.equal(generator.get_state(), state)
    assert torch.equal(batch.inputs, vectors.prepare(vectors.train.inputs[[2, 0]]))
    assert batch.labels.tolist() == [2, 0]


@pytest.mark.parametrize("size", [1, 3, 10, 100])
def test_batches_laid_end_to_end_are_the_test_set_in_order(images: Dataset, size: int) -> None:
    batches = list(images.test_batches(size))
    assert torch.equal(torch.cat([b.inputs for b in batches]), images.prepare(images.test.inputs))
    assert torch.equal(torch.cat([b.labels for b in batches]), images.test.labels)
    assert max(len(b.labels) for b in batches) <= size


def test_a_batch_of_nothing_is_refused(images: Dataset) -> None:
    with pytest.raises(InvalidInput, match="would hold nothing"):
        images.test_batches(0)


def test_the_checksum_is_that_of_the_bytes_in_order(vectors: Dataset) -> None:
    tensors = (*vectors.train, *vectors.test)
    content = b"".join(tensor.numpy().tobytes() for tensor in tensors)
    assert vectors.checksum == hashlib.sha256(content).hexdigest()


def test_one_changed_bit_changes_the_checksum(images: Dataset) -> None:
    pixels = images.train.inputs.clone()
    pixels[0, 0, 0, 0] ^= 1
    assert replace(images, train=Batch(pixels, images.train.labels)).checksum != images.checksum


def test_moving_to_a_device_keeps_everything(images: Dataset) -> None:
    assert images.to("cpu").checksum == images.checksum


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": 2}, "labels from 0 to 3, but 2 classes"),
        ({"train": Batch(torch.zeros(3, 3, 8, 8), torch.zeros(2, dtype=torch.int64))}, "3 inputs and 2 labels"),
        ({"train": Batch(torch.zeros(2, 3, 8, 8), torch.zeros(2))}, "type torch.float32"),
        ({"train": Batch(torch.zeros(2, 8), torch.zeros(2, dtype=torch.int64))}, r"inputs have shape \(8,\)"),
    ],
)
def test_tensors_that_do_not_belong_together_are_refused(
    images: Dataset, change: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(images, **change)  # type: ignore[arg-type]
