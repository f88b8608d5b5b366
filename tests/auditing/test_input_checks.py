"""Batches and accuracies are what they claim to be, or a message says what they are."""

from __future__ import annotations

import math
import weakref
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.foreign_models import CLASSES, FEATURES, Branches, batches, images
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from creditscope.auditing.input_checks import check_labels, checked_accuracies, checked_batches, checked_images
from creditscope.batch import Batch, each_tensor
from creditscope.errors import InvalidInput

MODEL = Branches()


def taken(given: Any, model: nn.Module = MODEL) -> list[Batch]:
    return list(checked_batches(given, model))


def refused(given: Any, model: nn.Module = MODEL) -> str:
    with pytest.raises(InvalidInput) as caught:
        taken(given, model)
    return str(caught.value)


def test_batches_may_be_a_list_a_generator_or_a_data_loader() -> None:
    listed = batches(3, 8)
    inputs, labels = (torch.cat(parts) for parts in zip(*listed, strict=True))
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=8)
    for form in (listed, iter(listed), (batch for batch in listed), loader, [list(batch) for batch in listed]):
        found = taken(form)
        assert all(isinstance(batch, Batch) for batch in found)
        assert torch.equal(torch.cat([batch.inputs for batch in found]), inputs)
        assert torch.equal(torch.cat([batch.labels for batch in found]), labels)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_floating_point_inputs_take_the_models_precision_and_others_keep_theirs(dtype: torch.dtype) -> None:
    model = Branches().to(dtype)
    x, y = images(4)
    (found,) = taken([({"x": x, "ids": y, "mask": y > 1, "name": "text"}, y)], model)
    assert [found.inputs[key].dtype for key in ("x", "ids", "mask")] == [dtype, torch.int64, torch.bool]
    assert found.inputs["name"] == "text"


def test_the_precision_is_that_of_the_first_floating_point_parameter() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.zeros(2).int(), requires_grad=False)
            self.weight = nn.Parameter(torch.zeros(2).double())

    assert taken([images(3)], Odd())[0].inputs.dtype is torch.float64
    assert taken([images(3)], nn.Identity())[0].inputs.dtype is torch.float32


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_class_numbers_of_any_integer_kind_become_int64(dtype: torch.dtype) -> None:
    x, y = images(4)
    for labels in (y.to(dtype), y.to(dtype).numpy(), y.tolist()):
        (found,) = taken([(x, labels)])
        assert found.labels.dtype is torch.int64
        assert torch.equal(found.labels, y)


def test_inputs_made_in_inference_mode_can_be_differentiated() -> None:
    with torch.inference_mode():
        x, y = images(4)
    (found,) = taken([(x, y)])
    assert found.inputs.requires_grad_().sum().requires_grad


Pair = namedtuple("Pair", "left right")


def test_inputs_keep_their_form() -> None:
    x, y = images(4)
    (found,) = taken([(Pair(x, [x, {"a": x}]), y)])
    assert type(found.inputs) is Pair
    assert torch.equal(found.inputs.right[1]["a"], x)
    assert each_tensor(3, torch.neg) == 3


def test_no_batches_are_refused() -> None:
    for nothing in ([], iter(()), DataLoader(TensorDataset(torch.zeros(0, 2)))):
        assert refused(nothing).startswith("There are no batches.\nNothing can be measured.")


@pytest.mark.parametrize("given", [None, 3, torch.zeros(3, 2)])
def test_something_that_holds_no_batches_is_refused(given: Any) -> None:
    assert f"batches is a {type(given).__name__}, not an iterable of (inputs, labels)" in refused(given)


def test_one_pair_outside_a_list_is_told_where_it_belongs() -> None:
    message = refused(images(4))
    assert message.startswith("Batch 0 is a Tensor, not a pair (inputs, labels).")
    assert "wrap a single pair in a list: [(inputs, labels)]" in message


@pytest.mark.parametrize("item", [(1, 2, 3), [1], {"x": 1}, "ab"])
def test_an_item_that_is_no_pair_is_refused(item: Any) -> None:
    assert "not a pair (inputs, labels)" in refused([images(2), item])
    assert refused([images(2), item]).startswith(f"Batch 1 is a {type(item).__name__}")


@pytest.mark.parametrize(
    ("inputs", "labels", "found"),
    [
        (torch.zeros(4, 2), torch.zeros(3).long(), "inputs of shape (4, 2) and labels of shape (3,)"),
        (torch.zeros(0, 2), torch.zeros(0).long(), "inputs of shape (0, 2) and labels of shape (0,)"),
        (torch.zeros(4, 2), torch.tensor(1), "inputs of shape (4, 2) and labels of shape ()"),
        (np.zeros((4, 2)), torch.zeros(4).long(), "inputs of type ndarray without a tensor and labels of shape (4,)"),
        ({"a": torch.tensor(1.0)}, torch.zeros(4).long(), "inputs of type dict without a tensor"),
    ],
)
def test_samples_without_their_labels_are_refused(inputs: Any, labels: Tensor, found: str) -> None:
    message = refused([(inputs, labels)])
    assert f"Batch 0 has {found}" in message
    assert "Each sample needs its label." in message


def test_labels_that_no_tensor_can_be_made_of_are_refused() -> None:
    assert refused([(torch.zeros(2, 2), ["cat", "dog"])]).startswith(
        "The labels of batch 0 are a list that cannot be converted"
    )


def test_the_same_batch_twice_is_refused() -> None:
    first, second = batches(2, 300)
    message = refused([first, second, Batch(first.inputs.clone(), first.labels.clone())])
    assert (
        message == "Batches 0 and 2 hold the same samples.\n"
        "D4 would mistake the repetition for agreement, and intervals over images would be too narrow. Pass disjoint "
        "batches (one pass over the data, without replacement), or disjoint=False to have it reported instead."
    )


def test_batches_that_differ_only_between_the_sampled_numbers_are_two() -> None:
    padded = torch.zeros(2, 128, 32, 32)  # as many images have: a black border, and labels in order
    padded[:, :, 2:-2, 2:-2] = torch.rand(2, 128, 28, 28, generator=torch.Generator().manual_seed(0))
    labels = torch.zeros(128).long()
    assert len(taken([(padded[0], labels), (padded[1], labels)])) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("count", [3, 40, 300])
def test_of_large_batches_all_are_told_apart_and_none_comes_twice(dtype: torch.dtype, count: int) -> None:
    generator = torch.Generator().manual_seed(0)
    several = [(100 * torch.rand(count, 3, 40, 40, generator=generator)).to(dtype) for _ in range(5)]
    labels = torch.zeros(count).long()
    assert len(taken([(x, labels) for x in several])) == 5
    for again in (several[2].clone(), several[2].contiguous(memory_format=torch.channels_last)):
        with pytest.raises(InvalidInput, match="Batches 2 and 5 hold the same samples"):
            taken([(x, labels) for x in (*several, again)])


def test_batches_that_differ_only_in_labels_or_in_a_later_tensor_are_two() -> None:
    x, y = images(4)
    assert len(taken([(x, y), (x, (y + 1) % CLASSES)])) == 2
    assert len(taken([((x, x), y), ((x, x + 1), y)])) == 2


@pytest.mark.parametrize(
    "labels", [torch.zeros(4).bfloat16(), torch.zeros(4, requires_grad=True), torch.ones(4).bool()]
)
def test_any_kind_of_labels_can_be_told_apart(labels: Tensor) -> None:
    assert len(taken([(images(4, seed=1).inputs, labels), (images(4, seed=2).inputs.bfloat16(), labels)])) == 2


@given(st.integers(1, 5))
def test_labels_within_the_classes_pass(classes: int) -> None:
    check_labels(Batch(torch.zeros(classes, 2), torch.arange(classes)), classes, 0)


@pytest.mark.parametrize(
    ("labels", "found"), [([0, 5], "from 0 to 5"), ([-1, 2], "from -1 to 2"), ([1, 5], "from 1 to 5")]
)
def test_labels_outside_the_classes_are_refused(labels: list[int], found: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_labels(Batch(torch.zeros(2, 2), torch.tensor(labels)), 5, 7)
    assert str(caught.value).startswith(f"Batch 7 has labels {found}, but the model has 5 classes (0 to 4).")
    assert "Check the labels and the read-out." in str(caught.value)


@pytest.mark.parametrize("labels", [torch.rand(3), torch.ones(3).bool()])
def test_labels_that_are_no_class_numbers_are_refused(labels: Tensor) -> None:
    with pytest.raises(InvalidInput, match=rf"labels of batch 2 are {labels.dtype}, not class numbers.*\n.*loss_fn="):
        check_labels(Batch(torch.zeros(3, 2), labels), 5, 2)


def test_labels_with_another_axis_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"labels of batch 0 have shape \(3, 1\), not one class number per sample"):
        check_labels(Batch(torch.zeros(3, 2), torch.zeros(3, 1).long()), 5, 0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (0.31, (0.31,)),
        (1, (1.0,)),
        (0, (0.0,)),
        ([0.3, 0.4], (0.3, 0.4)),
        ((value for value in (0.25, 0.5)), (0.25, 0.5)),
        (np.float32(0.5), (0.5,)),
        (np.array([0.25, 0.5]), (0.25, 0.5)),
        (torch.tensor(0.5), (0.5,)),
        (torch.tensor([0.25, 0.5]), (0.25, 0.5)),
    ],
)
def test_accuracies_are_one_number_or_one_per_seed(given: Any, expected: tuple[float, ...] | None) -> None:
    found = checked_accuracies(given, "accuracy")
    assert found == expected
    assert found is None or all(type(value) is float for value in found)


def test_the_accuracy_of_a_diverged_run_is_taken_as_it_is() -> None:
    found = checked_accuracies([0.3, math.nan], "accuracy")
    assert found is not None
    assert math.isnan(found[1])


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (31, "Did you mean 0.31?"),
        ([0.31, 31.5], "Did you mean 0.315?"),
        (1.0001, "Did you mean 0.010001?"),
        (-0.1, "Pass the share of correct answers."),
        (math.inf, "Pass the share of correct answers."),
        (310, "Pass the share of correct answers."),
    ],
)
def test_31_instead_of_31_percent_is_refused(given: Any, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_accuracies(given, "control_accuracy")
    message = str(caught.value)
    assert message.startswith("control_accuracy = ")
    assert "is not a share between 0 and 1." in message
    assert message.endswith(hint)


@pytest.mark.parametrize("given", ["good", [0.3, "x"], object(), [None], {"a": 1}])
def test_accuracies_that_are_no_numbers_are_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"(?s)^accuracy = .* is not a number\.\n"):
        checked_accuracies(given, "accuracy")


def test_an_empty_list_of_accuracies_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"accuracy is an empty list\.\n.*Leave it out"):
        checked_accuracies([], "accuracy")


def test_only_the_batch_that_is_out_is_held() -> None:
    made: list[weakref.ref[Tensor]] = []
    alive: list[int] = []

    def stream() -> Iterator[tuple[Tensor, Tensor]]:
        for index in range(50):
            alive.append(sum(reference() is not None for reference in made))
            inputs = images(8, seed=index, shape=(FEATURES,)).inputs
            made.append(weakref.ref(inputs))
            pair = inputs, torch.zeros(8).long()
            del inputs
            yield pair
            del pair

    source = checked_batches(stream(), MODEL)
    while next(source, None) is not None:
        pass
    assert max(alive) == 0


@pytest.mark.parametrize("count", [0, -5, 10.0, True, "1000"])
def test_a_number_of_images_that_is_none_is_refused(count: object) -> None:
    with pytest.raises(InvalidInput, match=r"^accuracy_images must be a whole number of at least 1, got "):
        checked_images(count)  # type: ignore[arg-type]


def test_a_number_of_images_that_is_one_is_kept() -> None:
    assert [checked_images(count) for count in (None, 1, 10_000)] == [None, 1, 10_000]
