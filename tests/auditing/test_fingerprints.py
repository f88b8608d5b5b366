"""Batches with common samples are found, in whatever order; samples that a dataset holds twice are no fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.foreign_models import FEATURES, Branches, batches, cut, images
from torch import Tensor, nn

from creditscope import audit
from creditscope.auditing import fingerprints
from creditscope.auditing.fingerprints import Fingerprints, sample_hashes
from creditscope.batch import Batch, each_tensor
from creditscope.errors import InvalidInput, ModelMismatch
from creditscope.provenance import Guard, GuardStatus


def passed(given: list[Batch], *, disjoint: bool = True) -> Guard:
    fingerprints = Fingerprints(disjoint=disjoint)
    for batch in given:
        fingerprints.add(batch)
    return fingerprints.guard()


def taken(batch: Batch, indices: Any) -> Batch:
    return Batch(each_tensor(batch.inputs, lambda tensor: tensor[indices]), batch.labels[indices])


WHOLE = images(256)
REPEATED: dict[str, list[Batch]] = {
    "reordered": [WHOLE, taken(WHOLE, torch.randperm(256, generator=torch.Generator().manual_seed(0)))],
    "cut otherwise": [*cut(WHOLE, 64), *cut(WHOLE, 32)],
    "overlapping by an eighth": [taken(WHOLE, slice(start, start + 64)) for start in range(0, 190, 56)],
    "single samples, twice": [*cut(taken(WHOLE, slice(0, 20)), 1)] * 2,
}


@pytest.mark.parametrize("kind", REPEATED)
def test_batches_with_common_samples_are_refused_and_with_disjoint_false_counted(kind: str) -> None:
    with pytest.raises(InvalidInput, match=r"(occurred in earlier batches|hold the same samples)\.\nD4 would mistake"):
        passed(REPEATED[kind])
    guard = passed(REPEATED[kind], disjoint=False)
    assert guard.status is GuardStatus.OFF
    assert guard.text.endswith(" samples occurred in an earlier batch")


def test_the_message_counts_the_samples_of_the_batch() -> None:
    with pytest.raises(InvalidInput, match=r"^256 of the 256 samples of batch 1 occurred in earlier batches\.\n"):
        passed(REPEATED["reordered"])


def test_a_few_samples_that_a_dataset_holds_twice_pass_and_are_counted() -> None:
    whole = images(1000)
    whole.inputs[990:] = whole.inputs[:10]
    whole.labels[990:] = whole.labels[:10]
    for size in (1, 100):
        assert str(passed(cut(whole, size))) == "passed: 10 of 1,000 samples occurred in an earlier batch"


@pytest.mark.parametrize("bits", [3, 6, 8])
@pytest.mark.parametrize("size", [50, 250])
def test_inputs_of_few_bits_meet_within_batches_as_often_as_across_and_pass(bits: int, size: int) -> None:
    generator = torch.Generator().manual_seed(bits)
    inputs = torch.randint(0, 2, (1000, bits), generator=generator).float()
    assert passed(cut(Batch(inputs, inputs.sum(1).long() % 2), size)).passed


def drawn_with_replacement(count: int, size: int, whole: Batch = WHOLE) -> list[Batch]:
    indices = torch.randint(0, len(whole.labels), (count,), generator=torch.Generator().manual_seed(0))
    return cut(taken(whole, indices), size)


@pytest.mark.parametrize("size", [50, 200])
def test_draws_with_replacement_are_found_within_batches_and_across(size: int) -> None:
    given = drawn_with_replacement(200, size)
    with pytest.raises(InvalidInput, match=r"(drawn with replacement|occurred in earlier batches)\.\nD4 would mistake"):
        passed(given)
    marks = [mark for batch in given for mark in sample_hashes(batch).tolist()]
    counted = [int(part.split(" of ")[0]) for part in passed(given, disjoint=False).text.split("; ")]
    assert sum(counted) == len(marks) - len(set(marks))


def test_one_batch_that_holds_samples_twice_is_refused_and_with_disjoint_false_counted() -> None:
    given = [taken(WHOLE, [*range(32), *range(32)])]
    with pytest.raises(
        InvalidInput, match=r"^32 of the 64 samples up to batch 0 occurred before, 32 of them in the same"
    ):
        passed(given)
    assert str(passed(given, disjoint=False)) == "switched off: 32 of 64 samples occurred in the same batch"


def test_token_numbers_that_repeat_are_counted_and_not_refused() -> None:
    """Short texts repeat by themselves, in batches and across."""
    inputs = torch.randint(0, 30, (256, 12), generator=torch.Generator().manual_seed(0))
    whole = drawn_with_replacement(200, 50, Batch(inputs, inputs.sum(1) % 2))
    guard = passed(whole)
    assert guard.passed
    assert "occurred in the same batch" in guard.text


def test_disjoint_batches_pass_without_a_word() -> None:
    assert passed(batches(8, 32)) == Guard(GuardStatus.PASSED)
    assert passed(batches(8, 32), disjoint=False) == Guard(GuardStatus.PASSED)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (7,), (3, 9, 9)])
def test_a_samples_hash_is_that_of_its_numbers_wherever_it_stands(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    inputs = (100 * torch.rand(20, *shape, generator=torch.Generator().manual_seed(0))).to(dtype)
    labels = torch.arange(20)
    whole = sample_hashes(Batch(inputs, labels))
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    assert np.array_equal(sample_hashes(Batch(inputs[order], labels[order])), whole[order.numpy()])
    alone = [sample_hashes(Batch(inputs[index : index + 1], labels[index : index + 1]))[0] for index in range(20)]
    assert np.array_equal(whole, np.array(alone))
    if len(shape) == 3:
        turned = inputs.contiguous(memory_format=torch.channels_last)
        assert np.array_equal(sample_hashes(Batch(turned, labels)), whole)


def test_one_number_anywhere_changes_the_hash() -> None:
    inputs, labels = torch.zeros(1, 3, 50, 50), torch.zeros(1).long()
    base, marks = sample_hashes(Batch(inputs, labels)), set()
    for place in range(0, inputs.numel(), 7):
        changed = inputs.clone()
        changed.view(-1)[place] = 1.0
        marks.add(int(sample_hashes(Batch(changed, labels))[0]))
    assert len(marks) == len(range(0, inputs.numel(), 7))
    assert int(base[0]) not in marks
    assert int(sample_hashes(Batch(inputs, labels + 1))[0]) != int(base[0])


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.0, 2.0), (-0.0, 0.0)])
@pytest.mark.parametrize("places", ["lower", "upper", "both alike"])
def test_samples_that_differ_in_one_half_of_their_words_have_hashes_of_their_own(
    values: tuple[float, float], places: str
) -> None:
    patterns = torch.tensor(values)[(torch.arange(4096)[:, None] >> torch.arange(12)) % 2]  # every 12-bit pattern
    inputs = torch.zeros(4096, 12, 2)
    inputs[..., {"lower": slice(0, 1), "upper": slice(1, 2), "both alike": slice(0, 2)}[places]] = patterns[..., None]
    hashes = sample_hashes(Batch(inputs.flatten(1), torch.zeros(4096).long()))
    assert len(np.unique(hashes)) == 4096


def test_a_hash_is_the_sum_of_folded_words_times_odd_weights() -> None:
    inputs, labels = torch.randn(3, 7, generator=torch.Generator().manual_seed(0)), torch.tensor([4, 0, 9])
    for row, label, given in zip(inputs, labels, sample_hashes(Batch(inputs, labels)), strict=True):
        total = 0
        for place, data in enumerate((row.numpy().tobytes() + bytes(4), int(label).to_bytes(8, "little"))):
            words = [int.from_bytes(data[start : start + 8], "little") for start in range(0, len(data), 8)]
            weights = fingerprints._weights(place, len(words)).tolist()
            assert all(weight % 2 for weight in weights)
            summed = sum(weight * (word ^ word >> 29) for weight, word in zip(weights, words, strict=True))
            total = (total ^ summed % 2**64) * 0x9E3779B97F4A7C15 % 2**64
        assert int(given) == total


@pytest.mark.parametrize("count", [0, 1, 2, 100])
@pytest.mark.parametrize("kinds", [1, 7, 1000])
def test_distinct_hashes_are_counted_as_numpy_counts_them(count: int, kinds: int) -> None:
    values = np.random.default_rng(count).integers(0, kinds, count, np.uint64) << np.uint64(40)
    for ours, theirs in zip(fingerprints._counted(values), np.unique(values, return_counts=True), strict=True):
        assert np.array_equal(ours, theirs)


def test_all_tensors_of_a_dict_or_tuple_count() -> None:
    x, y = images(4)
    forms = [
        (x, x + 1),
        (x + 1, x),
        {"a": x, "b": x + 2},
        {"a": x, "b": x + 3},
        (x, torch.zeros(7)),
        (x, torch.ones(7)),
    ]
    assert len({sample_hashes(Batch(form, y)).tobytes() for form in forms}) == len(forms)


def test_an_audit_refuses_overlapping_batches_or_reports_them() -> None:
    model, given = Branches(), [taken(WHOLE, slice(0, 64)), taken(WHOLE, slice(32, 96))]
    with pytest.raises(InvalidInput, match="32 of the 64 samples of batch 1 occurred in earlier batches"):
        audit(model, given)
    report = audit(model, given, disjoint=False)
    assert str(report.provenance.guards["disjoint"]) == ("switched off: 32 of 128 samples occurred in an earlier batch")
    assert str(audit(model, batches(2, 32)).provenance.guards["disjoint"]) == "passed"


class BatchStatistics(nn.Module):
    """Normalises by the batch in evaluation mode too."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(width, width), nn.BatchNorm1d(width, track_running_stats=False)

    def forward(self, h: Tensor) -> Tensor:
        out: Tensor = h + self.norm(self.linear(h))
        return out


@pytest.mark.parametrize("check_gradient", [True, False])
@pytest.mark.parametrize("size", [4, 8, 32])
def test_a_model_that_uses_batch_statistics_in_evaluation_mode_is_refused(size: int, check_gradient: bool) -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 12), BatchStatistics(12), BatchStatistics(12), nn.Linear(12, 5))
    with pytest.raises(
        ModelMismatch, match="for the same images differ by .* when other images of the batch are left out"
    ):
        audit(model, batches(2, size), check_gradient=check_gradient)
    said = audit(model, batches(2, size), check_gradient=check_gradient, independent=False)
    assert str(said.provenance.guards["independent"]).startswith("switched off: answers differ by ")
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean, module.running_var = torch.zeros(12), torch.ones(12)
            module.track_running_stats = True
    for independent in (True, False):
        report = audit(model, batches(2, size), check_gradient=check_gradient, independent=independent)
        assert str(report.provenance.guards["independent"]) == "passed"
