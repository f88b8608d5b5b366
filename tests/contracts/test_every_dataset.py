"""What holds for every dataset that is registered; those that are not on this machine are skipped, never fetched."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from creditscope.datasets import datasets
from creditscope.datasets.tensors import Dataset
from creditscope.errors import DataUnavailable, UnknownName


@pytest.fixture(scope="module", params=list(datasets))
def data(request: pytest.FixtureRequest) -> Dataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CREDITSCOPE_OFFLINE", "1")
        try:
            return datasets[request.param]()
        except DataUnavailable:
            pytest.skip(f"{request.param} is not on this machine")


def test_the_record_bears_the_name_it_is_registered_under(data: Dataset) -> None:
    assert data.name in datasets


def test_inputs_are_bytes_or_floats_of_one_shape(data: Dataset) -> None:
    for part in (data.train, data.test):
        assert part.inputs.dtype in (torch.uint8, torch.float32)
        assert tuple(part.inputs.shape[1:]) == data.shape


def test_labels_are_class_numbers_and_every_class_occurs(data: Dataset) -> None:
    for part in (data.train, data.test):
        assert part.labels.dtype == torch.int64
        assert set(part.labels.tolist()) == set(range(data.classes))


def test_standardised_inputs_have_mean_0_and_variance_1_channel_by_channel(data: Dataset) -> None:
    some = data.prepare(data.train.inputs[:4000]).double()
    axes = (0, 2, 3) if some.dim() == 4 else (0, 1)
    assert some.mean(axes).abs().max() < 0.05
    assert (some.std(axes) - 1).abs().max() < 0.05


def test_a_training_batch_follows_from_the_generator_alone(data: Dataset) -> None:
    indices = torch.arange(0, 96, 3)
    first, again, other = (data.training_batch(indices, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert first.inputs.dtype == torch.float32
    assert tuple(first.inputs.shape) == (32, *data.shape)
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.labels, data.train.labels[indices])
    assert torch.equal(first.inputs, other.inputs) is not data.augmented


def test_test_batches_are_the_test_set_in_order(data: Dataset) -> None:
    labels = torch.cat([batch.labels for batch in data.test_batches(333)])
    first = next(data.test_batches(10))
    assert torch.equal(labels, data.test.labels)
    assert torch.equal(first.inputs, data.prepare(data.test.inputs[:10]))


def test_loading_twice_gives_the_same_bits(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDITSCOPE_OFFLINE", "1")
    assert datasets[data.name]().checksum == data.checksum


@pytest.mark.parametrize("name", list(datasets))
def test_a_dataset_says_what_it_is_and_has_a_revision(name: str) -> None:
    load = datasets[name]
    assert load.summary.endswith(".")
    assert load.revision >= 1


def test_a_name_that_does_not_exist_suggests_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'cifar10'\?[\s\S]*creditscope/datasets/"):
        datasets["cifar-10"]


def test_the_registry_itself_does_not_import_torch() -> None:
    program = "import sys, creditscope.datasets; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
