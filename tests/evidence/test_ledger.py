"""What is left of the batches does not depend on how they were cut, and nothing of a batch itself is left."""

from __future__ import annotations

import gc
import itertools
import math
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.foreign_models import CLASSES, FEATURES, WIDTH, Tokens, cut, images
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.diagnostics import examine_all
from creditscope.evidence.ledger import Ledger, _sum
from creditscope.evidence.norms import norm_table
from creditscope.evidence.records import Evidence
from creditscope.networks.build import build
from creditscope.stream.find import find_stream
from creditscope.stream.states import Stream
from creditscope.stream.trace import Trace, capture, cross_entropy


def network(**options: Any) -> nn.Module:
    return build("resmlp", FEATURES, CLASSES, 0, d=WIDTH, depth=3, w2_std=0.3, **options).eval()


def collect(stream: Stream, batches: list[Batch]) -> Evidence:
    ledger = Ledger(stream)
    for batch in batches:
        ledger.add(capture(stream, batch))
    return ledger.evidence()


def trace_of(gradient: Tensor, hidden: Tensor | None = None, error: Tensor | None = None) -> Trace:
    """A trace of two equal layers, written down by hand."""
    hidden = torch.ones_like(gradient) if hidden is None else hidden
    count = len(gradient)
    logits = torch.zeros(count, CLASSES)
    error = torch.ones(count, CLASSES) if error is None else error
    return Trace((hidden,) * 2, (gradient,) * 2, error, logits, torch.zeros(count).long(), torch.zeros(count))


def ledger(read: Any = "auto") -> Ledger:
    return Ledger(find_stream(Tokens(), "layers", read))


def test_norms_are_those_of_single_samples_and_medians_those_of_a_sorted_list() -> None:
    model, batch = network(), images(41)
    found = collect(find_stream(model), cut(batch, 8))
    for index in range(41):
        h = model.embedding(batch.inputs[index : index + 1])
        hiddens = [h]
        for block in model.blocks:
            hiddens.append(hiddens[-1] + block(hiddens[-1]))
        loss = cross_entropy(model.readout(hiddens[-1]), batch.labels[index : index + 1]).sum()
        for layer, gradient in enumerate(torch.autograd.grad(loss, hiddens)):
            slow = math.sqrt(math.fsum(float(value) ** 2 for value in gradient.flatten()))
            assert float(found.gradient_norms[layer, index]) == pytest.approx(slow, rel=1e-4)
            slow = math.sqrt(math.fsum(float(value) ** 2 for value in hiddens[layer].detach().flatten()))
            assert float(found.hidden_norms[layer, index]) == pytest.approx(slow, rel=1e-5)
    deepest = sorted(found.gradient_norms[-1].tolist())
    assert examine_all(found)["D2"].value == deepest[20] / 128


def test_error_norms_are_those_of_softmax_minus_onehot() -> None:
    model, batch = network(), images(10)
    found = collect(find_stream(model), [batch])
    error = torch.softmax(model(batch.inputs), 1) - torch.nn.functional.one_hot(batch.labels, CLASSES)
    torch.testing.assert_close(found.error_norms, error.detach().double().norm(dim=1))


@pytest.mark.parametrize("scale", [1e-25, 1e-19, 1.0, 1e19, 1e25])
def test_no_norm_overflows_or_underflows_and_nothing_small_is_called_zero(scale: float) -> None:
    vectors = images(300, shape=(WIDTH,)).inputs
    book = ledger()
    book.add(trace_of(vectors * scale, vectors * scale, vectors[:, :CLASSES] * scale))
    found = book.evidence()
    expected = vectors.double().norm(dim=1) * scale
    for norms in (found.hidden_norms[0], found.gradient_norms[1]):
        torch.testing.assert_close(norms, expected, rtol=1e-6, atol=0.0)
    torch.testing.assert_close(
        found.error_norms, vectors[:, :CLASSES].double().norm(dim=1) * scale, rtol=1e-6, atol=0.0
    )
    assert found.non_finite == {"states": 0, "gradients": 0, "logits": 0}
    plain = ledger()
    plain.add(trace_of(vectors))
    ours, theirs = (examine_all(book.evidence())["D4"].value for book in (book, plain))
    assert ours == pytest.approx(theirs, rel=1e-4)


def slow_norms(vectors: Tensor) -> Tensor:
    """One sample at a time, in float64."""
    return torch.stack([vector.double().square().sum().sqrt() for vector in vectors])


@given(st.lists(st.sampled_from([1e-25, 1.0, 1e25]), min_size=1, max_size=5), st.booleans())
def test_norms_are_exact_whatever_scales_came_before(scales: list[float], states: bool) -> None:
    parts = [images(1 + 300 * (i == 3), seed=i, shape=(WIDTH,)).inputs * scale for i, scale in enumerate(scales)]
    book = ledger()
    for part in parts:
        book.add(trace_of(torch.ones_like(part), part) if states else trace_of(part))
    found = book.evidence()
    scaled, ones = (found.hidden_norms, found.gradient_norms)[:: 1 if states else -1]
    torch.testing.assert_close(scaled[1], slow_norms(torch.cat(parts)), rtol=1e-6, atol=0.0)
    torch.testing.assert_close(ones, torch.full_like(ones, WIDTH**0.5), rtol=1e-6, atol=0.0)
    assert found.non_finite == {"states": 0, "gradients": 0, "logits": 0}


@given(st.integers(2, 60), st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_directions_of_many_groups_and_layers_of_any_width_are_sums_of_unit_vectors(
    groups: int, widths: list[int]
) -> None:
    layers = [images(8 * groups, seed=i, shape=(width,)).inputs + 0.1 for i, width in enumerate(widths)]
    layers[0][:8] = 0.0
    book = ledger()
    for parts in zip(*(layer.split(8) for layer in layers), strict=True):
        like = trace_of(torch.ones(8, 2))
        book.add(Trace(parts, parts, like.error, like.logits, like.labels, like.losses))
    book._groups = type(book._groups)(8)  # as few as a test can afford
    for parts in zip(*(layer.split(5) for layer in layers), strict=True):
        book._groups.add(list(parts))
    found = book.evidence().directions
    assert found is not None
    assert found.groups == groups
    assert found.vanished == (1, *[0] * (len(widths) - 1))
    for layer, total in zip(layers, found.sums, strict=True):
        means = [group.double().mean(0) for group in layer.split(8)]
        units = [mean / mean.norm() for mean in means if mean.any()]
        torch.testing.assert_close(total, torch.stack(units).sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["states", "gradients", "logits"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_every_number_that_is_not_finite_is_counted_once_per_layer(kind: str, bad: float) -> None:
    trace = trace_of(torch.ones(5, 3))
    spoilt = torch.ones(5, 3)
    spoilt[2, 1] = spoilt[4, 0] = bad
    if kind == "states":
        trace = trace_of(torch.ones(5, 3), spoilt)
    elif kind == "gradients":
        trace = trace_of(spoilt)
    else:
        error = torch.ones(5, CLASSES)  # -inf for a class that is not the label leaves the error finite
        trace = Trace(trace.hiddens, trace.gradients, error, spoilt, trace.labels, trace.losses)
    book = ledger()
    book.add(trace)
    book.add(trace_of(torch.ones(2, 3)))
    expected = {"states": 0, "gradients": 0, "logits": 0, kind: 2 if kind == "logits" else 4}
    assert book.evidence().non_finite == expected


def test_a_number_outside_the_vector_that_is_read_counts_too() -> None:
    state = torch.ones(5, 4, 3)
    state[1, 3, 2] = math.nan  # token 3; token 0 is read
    book = ledger("first")
    book.add(trace_of(torch.ones(5, 4, 3), state))
    assert book.evidence().non_finite["states"] == 2
    assert book.evidence().hidden_norms.isfinite().all()


@pytest.mark.parametrize("size", [16, 128, 640])
def test_the_same_images_in_other_batches_give_the_same_answers(size: int) -> None:
    stream, batch = find_stream(network()), images(1280)
    whole, pieces = (examine_all(collect(stream, batches)) for batches in ([batch], cut(batch, size)))
    for code in ("D1", "D2", "D4"):
        assert pieces[code].value == pytest.approx(whole[code].value, rel=1e-5)
        assert pieces[code].per_layer == pytest.approx(whole[code].per_layer, rel=1e-4)
    assert pieces["D4"].note == "layer 2; 10 groups of 128 images"


def slow_drift(gradients: Tensor, sizes: list[int]) -> float:
    """Mean over pairs of groups of the cosine between their mean gradients."""
    means = [group.mean(0) for group in gradients.double().split(sizes)]
    cosines = [float(a @ b) / float(a.norm() * b.norm()) for a, b in itertools.combinations(means, 2)]
    return sum(cosines) / len(cosines)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=6).filter(lambda sizes: sum(sizes) >= 256))
def test_drift_takes_groups_of_128_consecutive_images_however_they_arrive(sizes: list[int]) -> None:
    gradients = images(sum(sizes), shape=(WIDTH,)).inputs + 0.1
    book = ledger()
    for part in gradients.split(sizes):
        book.add(trace_of(part))
    groups = len(gradients) // 128
    found = book.evidence().directions
    assert found is not None
    assert (found.groups, found.size) == (groups, 128)
    value = examine_all(book.evidence())["D4"].value
    assert value == pytest.approx(slow_drift(gradients[: 128 * groups], [128] * groups), abs=1e-6)


@given(st.lists(st.integers(1, 120), min_size=2, max_size=6).filter(lambda sizes: sum(sizes) < 256))
def test_with_fewer_than_two_groups_the_batches_serve(sizes: list[int]) -> None:
    gradients = images(sum(sizes), shape=(WIDTH,)).inputs + 0.1
    book = ledger()
    for part in gradients.split(sizes):
        book.add(trace_of(part))
    finding = examine_all(book.evidence())["D4"]
    assert finding.value == pytest.approx(slow_drift(gradients, sizes), abs=1e-6)
    assert finding.note == f"layer 1; {len(sizes)} batches (the limit was calibrated on 8 groups of 128 images)"


@pytest.mark.parametrize("count", [1, 128, 255])
def test_one_batch_of_less_than_two_groups_has_no_drift(count: int) -> None:
    book = ledger()
    book.add(trace_of(torch.ones(count, WIDTH)))
    assert book.evidence().directions is None


def test_one_batch_of_two_groups_has_one() -> None:
    book = ledger()
    book.add(trace_of(torch.ones(256, WIDTH)))
    assert examine_all(book.evidence())["D4"].value == pytest.approx(1.0)


def test_a_group_whose_gradients_cancel_has_no_direction() -> None:
    ones = torch.ones(64, WIDTH)
    book = ledger()
    book.add(trace_of(torch.cat([ones, -ones, ones, ones])))
    found = book.evidence()
    assert found.directions is not None
    assert found.directions.vanished == (1, 1)
    assert examine_all(found)["D4"].status == "undefined"


def test_drift_does_not_move_when_gradients_are_scaled_and_does_when_they_share_an_offset() -> None:
    gradients = images(512, shape=(WIDTH,)).inputs
    values = []
    for vectors in (gradients, 1e-20 * gradients, gradients + 3.0):
        book = ledger()
        book.add(trace_of(vectors))
        values.append(examine_all(book.evidence())["D4"].value)
    assert values[1] == pytest.approx(values[0], abs=1e-6)
    assert values[2] > 0.99


@given(st.integers(2, 5))
def test_medians_do_not_move_when_all_images_are_duplicated(copies: int) -> None:
    stream, batch = find_stream(network()), images(31)
    many = Batch(batch.inputs.repeat(copies, 1), batch.labels.repeat(copies))
    once, more = (examine_all(collect(stream, [each])) for each in (batch, many))
    assert more["D1"].value == pytest.approx(once["D1"].value, rel=1e-5)
    assert more["D2"].value == pytest.approx(once["D2"].value, rel=1e-5)


@given(st.randoms(use_true_random=False))
def test_medians_do_not_move_when_images_are_permuted(randomness: Any) -> None:
    stream, batch = find_stream(network()), images(60)
    order = randomness.sample(range(60), 60)
    once, other = (
        examine_all(collect(stream, cut(each, 20))) for each in (batch, Batch(batch.inputs[order], batch.labels[order]))
    )
    assert other["D1"].value == pytest.approx(once["D1"].value, rel=1e-5)
    assert other["D2"].value == pytest.approx(once["D2"].value, rel=1e-5)


@pytest.mark.parametrize("read", ["first", "mean", "all", -1])
def test_tokens_are_read_by_the_rule_in_states_gradients_and_directions(read: Any) -> None:
    states, gradients = (images(256, seed=seed, shape=(3, WIDTH)).inputs for seed in (1, 2))

    def by_rule(tensor: Tensor) -> Tensor:
        if read == "all":
            return tensor.reshape(-1, WIDTH)
        return tensor.sum(1) if read == "mean" else tensor[:, 0 if read == "first" else read]

    book = ledger(read)
    book.add(trace_of(gradients, states))
    found = book.evidence()
    lengths = by_rule(states).double().norm(dim=1)
    if read == "mean":
        lengths = states.double().norm(dim=2).square().mean(1).sqrt()
    torch.testing.assert_close(found.hidden_norms[0], lengths, rtol=1e-6, atol=0)
    torch.testing.assert_close(found.gradient_norms[0], by_rule(gradients).double().norm(dim=1), rtol=1e-6, atol=0)
    assert found.error_norms.shape == found.gradient_norms[0].shape
    rows = len(by_rule(gradients)) // 2
    assert examine_all(found)["D4"].value == pytest.approx(slow_drift(by_rule(gradients), [rows] * 2), abs=1e-6)
    assert found.images == 256


def test_predictions_are_counted_only_where_labels_are_classes() -> None:
    stream, batch = find_stream(network()), images(50)
    book = Ledger(stream)
    for part in cut(batch, 20):
        book.add(capture(stream, part))
    right = int((stream.model(batch.inputs).argmax(1) == batch.labels).sum())
    assert (book.accuracy, book.predictions, book.images, book.batches) == (right / 50, 50, 50, 3)
    for labels in (torch.zeros(4, 2).long(), torch.rand(4)):
        trace = trace_of(torch.ones(4, 3))
        book = ledger()
        book.add(Trace(trace.hiddens, trace.gradients, trace.error, trace.logits, labels, trace.losses))
        assert book.accuracy is None


def test_of_a_batch_nothing_stays_but_its_norms() -> None:
    stream = find_stream(network())
    book, gone = Ledger(stream), []
    for batch in cut(images(640), 64):
        trace = capture(stream, batch)
        gone += [weakref.ref(tensor) for tensor in (*trace.hiddens, *trace.gradients, trace.logits, trace.error)]
        book.add(trace)
        del trace
    gc.collect()
    assert not any(reference() is not None for reference in gone)
    assert book.evidence().hidden_norms.shape == (4, 640)


def live_tensors() -> Iterator[Tensor]:
    gc.collect()
    return (each for each in gc.get_objects() if issubclass(type(each), Tensor))


def test_the_number_of_tensors_does_not_grow_with_the_number_of_batches() -> None:
    stream, counts = find_stream(network()), []
    book = Ledger(stream)
    for index, batch in enumerate(cut(images(800), 20)):
        book.add(capture(stream, batch))
        if index in (9, 39):  # the table of norms has grown once or twice in between
            counts.append(len(list(live_tensors())))
    assert counts[1] <= counts[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_in_half_precision_are_summed_without_rounding_the_sum(dtype):
    ones = torch.ones(4099, 3, dtype=dtype)  # no float16 and no bfloat16 between 4096 and 4100
    assert _sum(ones).tolist() == [4099.0] * 3
    assert _sum(ones[:, None].expand(-1, 2, -1)).tolist() == [8198.0] * 3
    large = torch.full((4, 1), 60_000.0).to(dtype)  # their sum is beyond float16
    assert _sum(large).item() == large.double().sum().item()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_norms_of_half_precision_are_those_of_float64(dtype):
    vectors = [torch.linspace(1, 300, 7 * 33).view(7, 33).to(dtype) for _ in range(2)]
    expected = torch.stack([(vector.double() ** 2).sum(-1).sqrt() for vector in vectors])
    assert torch.allclose(norm_table(vectors), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(3, WIDTH), (WIDTH, 2, 3)])
def test_positions_are_moved_each_by_its_own_size_for_the_sensitivity(shape: tuple[int, ...]) -> None:
    """Σ_p ‖h_p‖·‖g_p‖ by hand; flat states need no table of their own."""
    states, gradients = (images(8, seed=seed, shape=shape).inputs for seed in (1, 2))
    book = ledger("mean")
    book.add(trace_of(gradients, states))
    found = book.evidence()
    rows = [tensor.double() if len(shape) == 2 else tensor.double().flatten(2).mT for tensor in (states, gradients)]
    slow = [sum(float(h.norm() * g.norm()) for h, g in zip(*sample, strict=True)) for sample in zip(*rows, strict=True)]
    assert found.state_products is not None
    assert found.state_products[0].tolist() == pytest.approx(slow)
    flat = ledger("mean")
    flat.add(trace_of(gradients.flatten(1), states.flatten(1)))
    assert flat.evidence().state_products is None
