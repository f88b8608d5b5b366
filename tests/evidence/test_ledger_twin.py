"""Every number of a ledger against sums over plain numbers, in every shape that a state can have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from creditscope.evidence.ledger import Ledger, _Columns, _Grouped
from creditscope.evidence.records import NO_ERRORS
from creditscope.stream.reading import Read, Reading
from creditscope.stream.trace import Trace

SIZES = (5, 3)  # images of two batches
CLASSES = 4
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "flat": [(3,), (3,), (4,), (4,)],
    "one state": [(3,)],
    "two states": [(3,), (3,)],
    "two states of tokens": [(3, 4), (2, 4)],
    "tokens": [(3, 4), (3, 4), (3, 4)],
    "tokens of another number": [(3, 4), (2, 4), (2, 4)],
    "tokens, then flat": [(3, 4), (4,), (4,)],
    "one state of tokens": [(3, 4)],
    "maps": [(4, 2, 3), (4, 2, 3), (4, 1, 3)],
}


@dataclass(frozen=True)
class Reads:
    """All that a ledger asks of a stream."""

    reading: Reading


def ledger(rule: Read = "first") -> Ledger:
    return Ledger(Reads(Reading(rule)))


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def traces(shapes: list[tuple[int, ...]], outputs: tuple[int, ...] = ()) -> list[Trace]:
    """One trace for each of SIZES; `outputs` are the positions that have logits of their own."""
    made = []
    for batch, count in enumerate(SIZES):
        states = tuple(drawn(10 * batch + n, count, *shape) for n, shape in enumerate(shapes))
        gradients = tuple(drawn(100 + 10 * batch + n, count, *shape) for n, shape in enumerate(shapes))
        error, logits = (drawn(seed + batch, count, *outputs, CLASSES) for seed in (200, 300))
        made.append(Trace(states, gradients, error, logits, logits.argmax(-1), torch.zeros(count)))
    return made


def positions(tensor: Tensor) -> list[list[float]]:
    """The vectors of one sample, position by position."""
    if tensor.dim() > 2:
        return [list(map(float, row)) for row in tensor.flatten(1).T]
    return [list(map(float, row)) for row in tensor] if tensor.dim() == 2 else [list(map(float, tensor))]


def norm(vector: list[float]) -> float:
    return math.sqrt(math.fsum(number**2 for number in vector))


def length(state: Tensor, rule: Read) -> float:
    """Of the vector that is read, or the root of the mean square over positions where they are pooled."""
    rows = positions(state)
    if rule == "mean" or state.dim() > 2:
        return math.sqrt(math.fsum(norm(row) ** 2 for row in rows) / len(rows))
    return norm(rows[0])


def direction(gradient: Tensor, rule: Read) -> list[float]:
    rows = positions(gradient)
    return (
        [math.fsum(column) for column in zip(*rows, strict=True)] if rule == "mean" or gradient.dim() > 2 else rows[0]
    )


def products(state: Tensor, gradient: Tensor) -> float:
    return math.fsum(norm(h) * norm(g) for h, g in zip(positions(state), positions(gradient), strict=True))


def table(given: list[Trace], rows: Any) -> list[list[float]]:
    """A table with one column per image of all traces; `rows` gives the column of one image."""
    columns = [rows(trace, image) for trace in given for image in range(len(trace.labels))]
    return [list(row) for row in zip(*columns, strict=True)]


def close(found: Tensor | None, expected: list[list[float]]) -> None:
    assert found is not None
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=1e-7, equal_nan=True)


def step(trace: Trace, image: int, layer: int) -> Tensor | None:
    before, after = trace.hiddens[layer][image], trace.hiddens[layer + 1][image]
    return after - before if before.shape == after.shape else None


@pytest.mark.parametrize(("kind", "rule"), [(kind, rule) for kind in SHAPES for rule in ("first", "mean")])
def test_every_table_is_that_of_its_images_one_by_one(kind: str, rule: Read) -> None:
    given, book = traces(SHAPES[kind]), ledger(rule)
    for trace in given:
        book.add(trace)
    found, layers = book.evidence(), range(len(SHAPES[kind]))
    close(found.hidden_norms, table(given, lambda t, i: [length(t.hiddens[n][i], rule) for n in layers]))
    close(found.gradient_norms, table(given, lambda t, i: [norm(direction(t.gradients[n][i], rule)) for n in layers]))
    assert isinstance(found.error_norms, Tensor)
    close(found.error_norms[None], table(given, lambda t, i: [norm(t.error[i].tolist())]))
    shaped = any(len(shape) > 1 for shape in SHAPES[kind])
    if shaped:
        rows = table(given, lambda t, i: [products(t.hiddens[n][i], t.gradients[n][i]) for n in layers])
        close(found.state_products, rows)
        assert found.step_norms is None
    if shaped and len(layers) > 1:
        close(found.step_products, table(given, lambda t, i: [moved(t, i, n) for n in layers[:-1]]))
    else:
        assert found.step_products is None
    if not shaped:
        assert found.state_products is None
    if not shaped and len(layers) > 1:
        close(found.step_norms, table(given, lambda t, i: [length_of(step(t, i, n), rule) for n in layers[:-1]]))
    if rule == "first" and all(len(shape) == 2 for shape in SHAPES[kind]):
        close(found.position_norms, table(given, lambda t, i: [length(t.hiddens[n][i], "mean") for n in layers]))
    else:
        assert found.position_norms is None
    assert found.same_shape == tuple(a == b for a, b in pairwise(SHAPES[kind]))
    assert (found.images, found.batches, book.images, book.batches) == (8, 2, 8, 2)
    assert found.non_finite == {"states": 0, "gradients": 0, "logits": 0}
    assert (book.accuracy, book.predictions) == (1.0, 8)
    assert book.widths == tuple(len(direction(gradient[0], rule)) for gradient in given[0].gradients)


def moved(trace: Trace, image: int, layer: int) -> float:
    change = step(trace, image, layer)
    return math.nan if change is None else products(change, trace.gradients[layer + 1][image])


def length_of(state: Tensor | None, rule: Read) -> float:
    return math.nan if state is None else length(state, rule)


def test_where_all_positions_count_each_has_a_column() -> None:
    given, book = traces([(3, 4)] * 3, outputs=(3,)), ledger("all")
    for trace in given:
        book.add(trace)
    found = book.evidence()
    states = [torch.cat([t.hiddens[n].flatten(0, 1) for t in given]).double() for n in range(3)]
    close(found.hidden_norms, [[norm(row.tolist()) for row in state] for state in states])
    close(found.step_norms, [[norm(row.tolist()) for row in after - before] for before, after in pairwise(states)])
    errors = torch.cat([t.error.flatten(0, 1) for t in given])
    assert isinstance(found.error_norms, Tensor)
    close(found.error_norms[None], [[norm(row.tolist()) for row in errors]])
    assert found.state_products is None
    assert found.step_products is None
    assert (book.predictions, found.images) == (24, 8)


def test_an_error_of_the_sample_stands_behind_each_of_its_positions() -> None:
    (trace, _), book = traces([(3, 4)] * 2), ledger("all")
    book.add(trace)
    found = book.evidence().error_norms
    assert isinstance(found, Tensor)
    assert found.tolist() == pytest.approx([norm(row) for row in trace.error.tolist() for _ in range(3)])


def test_an_error_of_several_positions_is_one_number_where_one_position_is_read() -> None:
    (trace, _), book = traces([(3, 4)] * 2, outputs=(3,)), ledger("first")
    book.add(trace)
    found = book.evidence().error_norms
    assert isinstance(found, Tensor)
    assert found.tolist() == pytest.approx([norm(row.flatten().tolist()) for row in trace.error])


def test_a_ledger_without_batches_or_errors_says_so() -> None:
    empty = ledger().evidence()
    assert (empty.hidden_norms.shape, empty.gradient_norms.shape) == ((1, 0), (1, 0))
    assert empty.error_norms is NO_ERRORS
    assert empty.directions is None
    assert ledger().accuracy is None
    assert ledger().predictions == 0


@pytest.mark.parametrize("counts", [(1500,), (1023, 1, 1, 2000), (1024, 1), (1, 1024)])
def test_a_table_keeps_its_columns_however_often_it_grows(counts: tuple[int, ...]) -> None:
    columns, given = _Columns(), torch.arange(2.0 * sum(counts)).view(2, -1)
    for part in given.split(counts, dim=1):
        assert torch.equal(columns.add(list(part)), part)
    assert torch.equal(columns.table(9), given.double())
    assert columns.whole().dtype == torch.float64


def test_rows_that_are_put_or_scaled_are_those_of_the_latest_columns() -> None:
    columns = _Columns()
    assert columns.whole() is None
    assert columns.table(3).shape == (3, 0)
    assert columns.put(0, [torch.ones(2)]).tolist() == [[1.0, 1.0]]
    columns.scale([2.0])
    columns.add([torch.ones(2), torch.ones(2), torch.ones(2)])
    columns.add([torch.ones(1), torch.ones(1), torch.ones(1)])
    exact = torch.tensor([1e-300], dtype=torch.float64)
    assert columns.put(1, [exact, 2 * exact]).tolist() == [[1e-300], [2e-300]]
    columns.scale([2.0, 1.0])
    columns.add([torch.full((1,), 5.0)] * 3)
    assert columns.table(0).tolist() == [[1.0, 1.0, 2.0, 5.0], [1.0, 1.0, 1e-300, 5.0], [1.0, 1.0, 2e-300, 5.0]]


def slow_units(gradients: Tensor, size: int | None, batches: list[int]) -> list[Tensor]:
    """The unit vector of each full group's summed gradient, where it has one."""
    parts = gradients.double().split(batches if size is None else size)
    whole = [part for part in parts if size is None or len(part) == size]
    return [part.sum(0) / part.sum(0).norm() for part in whole if part.sum(0).any()]


@pytest.mark.parametrize("size", [None, 1, 2, 5])
@pytest.mark.parametrize("batches", [[7, 1, 9, 4], [1] * 40, [40], [5, 5]])
def test_directions_are_sums_of_the_groups_units(size: int | None, batches: list[int]) -> None:
    layers = [drawn(n, sum(batches), width) for n, width in enumerate((3, 3, 2))]
    layers[1][: batches[0] if size is None else size] = 0.0
    groups = _Grouped(size)
    for parts in zip(*(layer.split(batches) for layer in layers), strict=True):
        groups.add(list(parts))
    expected = [slow_units(layer, size, batches) for layer in layers]
    found = groups.directions()
    assert groups.count == len(expected[0])
    if groups.count < 2:
        assert found is None
        return
    assert found is not None
    assert (found.groups, found.vanished, found.size) == (len(expected[0]), (0, 1, 0), size)
    for total, units in zip(found.sums, expected, strict=True):
        torch.testing.assert_close(total, torch.stack(units).sum(0), rtol=1e-5, atol=1e-6)


def test_of_two_full_groups_the_directions_are_those_and_of_fewer_those_of_the_batches() -> None:
    for count, expected in ((256, (2, 128)), (255, (3, None))):
        gradient, book = drawn(0, count, 2), ledger()
        for part in gradient.split([128, 1, count - 129]):
            book.add_states([part, part], [part, part])
        found = book.evidence().directions
        assert found is not None
        assert (found.groups, found.size) == expected


@pytest.mark.parametrize(
    "labels", [torch.tensor([[0, 1, -100], [2, -100, -100]]), torch.tensor([[0, 1, 2], [2, 0, 1]])]
)
def test_positions_without_a_label_are_no_predictions(labels: Tensor) -> None:
    logits = torch.nn.functional.one_hot(labels.clamp_min(0), CLASSES).float()
    book = ledger()
    book.add_predictions(logits, labels)
    assert book.predictions == int((labels >= 0).sum())
    assert book.accuracy == 1.0
    book.add_predictions(-logits, labels)
    assert book.predictions == 2 * int((labels >= 0).sum())
    assert book.accuracy == 0.5


@pytest.mark.parametrize("place", ["states", "gradients"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (3, 2, 2)])
def test_infinite_numbers_are_counted_where_they_are(place: str, shape: tuple[int, ...]) -> None:
    good, bad = torch.ones(4, *shape), torch.ones(4, *shape)
    bad.view(-1)[-1], bad.view(-1)[0] = math.inf, math.nan
    book = ledger()
    for _ in range(2):
        book.add_states(*(([good, bad], [good, good]) if place == "states" else ([good, good], [bad, good])))
    expected = {"states": 0, "gradients": 0, place: 4}
    assert book.evidence().non_finite == expected


def test_a_number_whose_square_is_infinite_is_finite_itself() -> None:
    for layers in (1, 2):
        huge, book = torch.full((4, 3), 1e30), ledger()
        book.add_states([huge] * layers, [huge] * layers)
        assert book.evidence().non_finite == {"states": 0, "gradients": 0}
        assert book.evidence().hidden_norms.flatten().tolist() == pytest.approx([1e30 * 3**0.5] * 4 * layers)


def test_a_state_without_any_number_is_counted_whole() -> None:
    nothing, book = torch.full((4, 3), math.nan), ledger()
    book.add_states([nothing], [torch.ones(4, 3)])
    assert book.evidence().non_finite == {"states": 12, "gradients": 0}


@pytest.mark.parametrize("shape", [(2, 4), (2, 3, 4)])
def test_a_token_that_is_not_read_is_counted_beside_flat_states_and_others(shape: tuple[int, ...]) -> None:
    tokens, other, book = torch.ones(2, 3, 4), torch.ones(shape), ledger()
    tokens[1, 2, 3] = math.nan
    book.add_states([tokens, other], [torch.ones(2, 3, 4), other])
    assert book.evidence().non_finite == {"states": 1, "gradients": 0}
