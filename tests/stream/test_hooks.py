"""Hooked streams: states and shifts equal those of networks written out by hand, and the hooks are gone afterwards."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.foreign_models import (
    CLASSES,
    FEATURES,
    WIDTH,
    Branches,
    Skip,
    Stages,
    Wrapped,
    branch,
    draw,
    images,
    stages,
    unchanged,
)
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.errors import ModelMismatch
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture, cross_entropy, losses_at
from creditscope.stream.values import first_tensor

Pair = namedtuple("Pair", "state extra")
BATCH = images(9)


def by_hand(model: Branches, x: Tensor, shifts: dict[int, Tensor] | None = None) -> tuple[list[Tensor], Tensor]:
    """States, retained for their gradients, and logits, stage by stage."""
    shifts = shifts or {}
    h = model.inlet(x)
    hiddens = []
    for index, layer in enumerate([*model.layers, None]):
        h = h + shifts[index] if index in shifts else h
        if h.requires_grad:
            h.retain_grad()
        hiddens.append(h)
        if layer is not None:
            h = h + first_tensor(layer(h), "layer") if type(model) is Branches else layer(h)
    return hiddens, model.readout(hiddens[-1])


WRAPS: dict[str, Callable[[Tensor], Any]] = {
    "tensor": lambda f: f,
    "tuple": lambda f: (f, None),
    "list": lambda f: [f, "attention"],
    "later in a tuple": lambda f: (None, torch.arange(3), f),
    "dict": lambda f: {"mask": None, "state": f},
    "ordered": lambda f: OrderedDict(state=f, rest=f * 0),
    "named tuple": lambda f: Pair(f, 1),
    "nested": lambda f: ((f, 1), 2),
}


class Unwrapping(Branches):
    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.layers:
            h = h + first_tensor(layer(h), "layer")
        return self.readout(h)


@pytest.mark.parametrize("make", [Branches, stages, lambda: stages(1)])
@pytest.mark.parametrize("trained", [True, False])
def test_states_and_gradients_are_those_of_explicit_autograd(make: Callable[[], Branches], trained: bool) -> None:
    model = make()
    hiddens, logits = by_hand(model, BATCH.inputs)
    cross_entropy(logits, BATCH.labels).sum().backward()
    model.requires_grad_(trained)
    trace = capture(find_stream(model, "layers"), BATCH)
    assert len(trace.hiddens) == len(trace.gradients) == len(model.layers) + 1
    for layer, state in enumerate(hiddens):
        torch.testing.assert_close(trace.hiddens[layer], state.detach(), rtol=0, atol=0)
        assert state.grad is not None
        torch.testing.assert_close(trace.gradients[layer], state.grad, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(trace.logits, logits.detach(), rtol=0, atol=0)


def test_of_a_single_block_the_deepest_state_is_its_output() -> None:
    model = Branches(1)  # nothing tells a branch from a state here
    trace = capture(find_stream(model, "layers"), BATCH)
    torch.testing.assert_close(trace.hiddens[-1], model.layers[0](trace.hiddens[0]).detach())


def test_blocks_on_the_bare_input_of_a_frozen_network_have_their_whole_gradient() -> None:
    model = Branches().requires_grad_(False)
    model.inlet = nn.Identity()
    x = images(9, shape=(WIDTH,))
    trace = capture(find_stream(model, "layers"), x)
    leaf = x.inputs.clone().requires_grad_()
    cross_entropy(model(leaf), x.labels).sum().backward()
    assert leaf.grad is not None
    torch.testing.assert_close(trace.gradients[0], leaf.grad, rtol=1e-5, atol=1e-8)
    assert not x.inputs.requires_grad


@pytest.mark.parametrize("make", [Branches, stages])
@pytest.mark.parametrize("layer", range(4))
def test_a_shift_of_any_state_equals_the_network_recomputed_with_it(make: Callable[[], Branches], layer: int) -> None:
    model = make()
    shift = images(9, seed=5, shape=(WIDTH,)).inputs
    found = losses_at(find_stream(model, "layers"), BATCH, {layer: shift})
    expected = cross_entropy(by_hand(model, BATCH.inputs, {layer: shift})[1], BATCH.labels)
    torch.testing.assert_close(found, expected.detach())


class Halved(Branches):
    """h + f(h)/2: neither a branch of the plain sum nor the next state."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.layers:
            h = h + layer(h) / 2
        return self.readout(h)


class Shortcut(Branches):
    """A block whose shortcut is a projection among plain residual ones."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for index, layer in enumerate(self.layers):
            h = layer(h) + (h.roll(1, 1) if index == 1 else h)
        return self.readout(h)


class EarlyShortcut(Branches):
    """The same with the shortcut taken before the block: a hook comes too late for it."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for index, layer in enumerate(self.layers):
            h = (h.roll(1, 1) if index == 1 else h) + layer(h)
        return self.readout(h)


class Distant(Stages):
    """The state after the embedding is used again at the end."""

    def forward(self, x: Tensor) -> Tensor:
        first = h = self.inlet(x)
        for layer in self.layers:
            h = layer(h)
        return self.readout(h + first)


@pytest.mark.parametrize("make", [Branches, stages, Halved, Shortcut, EarlyShortcut, lambda: Distant(layer=Skip)])
@pytest.mark.parametrize("layer", range(4))
def test_whatever_else_the_model_does_with_a_state_its_shift_does_what_its_gradient_says(
    make: Callable[[], Branches], layer: int
) -> None:
    model, batch = make().double(), Batch(BATCH.inputs.double(), BATCH.labels)
    stream = find_stream(model, "layers")
    shift = 1e-6 * images(9, seed=5, shape=(WIDTH,)).inputs.double()
    with unchanged(model):
        forth, back = (losses_at(stream, batch, {layer: sign * shift}) for sign in (1, -1))
        promised = (capture(stream, batch).gradients[layer] * shift).sum(1)
    if type(model) is EarlyShortcut and layer == 1:
        assert not stream.certain(layer)
        return
    torch.testing.assert_close((forth - back) / 2, promised, rtol=1e-5, atol=1e-13)


@pytest.mark.parametrize(
    ("make", "certain"),
    [(Branches, [1, 1, 1, 1]), (stages, [1, 1, 1, 1]), (Halved, [1, 1, 1, 1]), (Shortcut, [1, 0, 1, 1])],
)
def test_a_shift_is_certain_where_blocks_add_to_the_stream_or_return_it(
    make: Callable[[], Branches], certain: list[int]
) -> None:
    stream = find_stream(make(), "layers")
    stream.run(BATCH.inputs)
    assert [stream.certain(layer) for layer in range(4)] == [bool(each) for each in certain]


def test_a_state_that_is_the_models_own_tensor_is_never_written_into() -> None:
    class Queries(Branches):
        def __init__(self) -> None:
            super().__init__(layer=Skip)
            self.queries = nn.Parameter(images(9, shape=(WIDTH,)).inputs)

        def forward(self, x: Tensor) -> Tensor:
            h: Tensor = self.queries
            for layer in self.layers:
                h = layer(h)
            return self.readout(h + self.inlet(x))

    model = Queries()
    with unchanged(model):
        losses_at(find_stream(model, "layers"), BATCH, {0: torch.ones(9, WIDTH)})


@pytest.mark.parametrize("make", [Branches, stages])
def test_shifts_of_all_states_at_once_add_up_on_the_way(make: Callable[[], Branches]) -> None:
    model = make()
    shifts = {layer: images(9, seed=layer, shape=(WIDTH,)).inputs for layer in range(4)}
    found = losses_at(find_stream(model, "layers"), BATCH, shifts)
    expected = cross_entropy(by_hand(model, BATCH.inputs, shifts)[1], BATCH.labels)
    torch.testing.assert_close(found, expected.detach())


@pytest.mark.parametrize("form", WRAPS)
def test_a_block_may_answer_in_any_form_that_holds_its_state(form: str) -> None:
    model = Unwrapping(layer=lambda: Wrapped(WRAPS[form]))
    plain = Unwrapping(layer=lambda: Wrapped(WRAPS["tensor"]))
    one, other = (capture(find_stream(m, "layers"), BATCH) for m in (model, plain))
    for ours, theirs in zip((*one.hiddens, *one.gradients), (*other.hiddens, *other.gradients), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    shifts = {layer: images(9, seed=layer, shape=(WIDTH,)).inputs for layer in range(4)}
    torch.testing.assert_close(*(losses_at(find_stream(m, "layers"), BATCH, shifts) for m in (model, plain)))


@pytest.mark.parametrize("empty", [None, (), {}, "text", torch.arange(3)])
def test_a_block_that_returns_no_state_is_refused(empty: Any) -> None:
    model = Branches(layer=lambda: Wrapped(lambda f: empty))
    model.forward = lambda x: [layer(model.inlet(x)) for layer in model.layers]  # type: ignore[method-assign]
    with pytest.raises(ModelMismatch, match=r"block 0 \(Wrapped\) returned \w+, which holds no floating-point tensor"):
        find_stream(model, "layers").run(BATCH.inputs)


class Keyword(Branches):
    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.layers:
            h = h + layer(torch.arange(3), state=h, mask=None)
        return self.readout(h)


class TakesKeywords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = branch()

    def forward(self, positions: Tensor, *, state: Tensor, mask: None) -> Tensor:
        out: Tensor = self.f(state)
        return out


def test_the_state_may_come_as_a_keyword() -> None:
    model, twin = Keyword(layer=TakesKeywords), Branches()
    twin.load_state_dict({key.replace(".f.", "."): value for key, value in model.state_dict().items()})
    one, other = (capture(find_stream(m, "layers"), BATCH) for m in (model, twin))
    torch.testing.assert_close(one.hiddens[-1], other.hiddens[-1])
    torch.testing.assert_close(one.gradients[0], other.gradients[0])
    shifts = {1: images(9, seed=3, shape=(WIDTH,)).inputs}
    torch.testing.assert_close(*(losses_at(find_stream(m, "layers"), BATCH, shifts) for m in (model, twin)))


def test_a_block_that_takes_no_numbers_is_refused() -> None:
    class Counting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x

    model = nn.Sequential(Counting(), Counting())
    with pytest.raises(ModelMismatch, match=r"block 0 \(Counting\) takes no floating-point tensor"):
        find_stream(model, "").run(torch.arange(4))


class Looped(Branches):
    """Runs its layers in the order that it is given."""

    order = (0, 0, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for index in self.order:
            h = h + self.layers[index](h)
        return self.readout(h)


@pytest.mark.parametrize(
    ("order", "calls"),
    [((0, 0, 1), "3 calls"), ((0, 0), "2 calls"), ((1, 0), "2 calls"), ((0,), "1 calls"), ((), "none of")],
)
def test_blocks_that_do_not_run_once_and_in_order_are_refused(order: tuple[int, ...], calls: str) -> None:
    model = Looped(2)
    model.order = order
    with pytest.raises(ModelMismatch, match=rf"2 blocks were named, but .*{calls}") as caught:
        find_stream(model, "layers").run(BATCH.inputs)
    assert "A state would stand for the wrong layer." in str(caught.value)


def test_a_block_inside_a_block_is_refused() -> None:
    with pytest.raises(ModelMismatch, match="exactly once, in order"):
        find_stream(Branches(2), ["layers.0", "layers.0.1"]).run(BATCH.inputs)


class InPlace(Branches):
    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.layers:
            h += layer(h)
        return self.readout(h)


@pytest.mark.parametrize("trained", [True, False])
def test_a_state_that_was_written_over_is_refused(trained: bool) -> None:
    model = InPlace().requires_grad_(trained)
    with pytest.raises(ModelMismatch, match=r"input of block 0 \(Sequential\) was changed in place") as caught:
        capture(find_stream(model, "layers"), BATCH)
    assert "Write h = h + f(h) instead of h += f(h)" in str(caught.value)


def test_a_last_state_that_is_written_over_is_kept() -> None:
    class Overwriting(Stages):
        def forward(self, x: Tensor) -> Tensor:
            h = self.inlet(x)
            for layer in self.layers:
                h = layer(h)
            return self.readout(h.relu_())

    model = Overwriting(layer=Skip)
    trace = capture(find_stream(model, "layers"), BATCH)
    h = trace.hiddens[-1].requires_grad_()
    logits = model.readout(h.relu())
    torch.testing.assert_close(trace.logits, logits)
    cross_entropy(logits, BATCH.labels).sum().backward()
    torch.testing.assert_close(trace.gradients[-1], h.grad)


def test_a_model_may_write_into_its_inputs_without_writing_into_the_batch() -> None:
    class Centred(Branches):
        def forward(self, x: Tensor) -> Tensor:
            x -= 1.0
            return super().forward(x)

    model, x = Centred(), BATCH.inputs.clone()
    stream = find_stream(model, "layers")
    with torch.no_grad():
        first, second = stream.run(x).logits, stream.run(x).logits
    capture(stream, BATCH)
    assert torch.equal(first, second)
    assert torch.equal(x, BATCH.inputs)


def test_a_stream_may_change_its_width() -> None:
    model = nn.Sequential()
    for index, (before, after) in enumerate([(FEATURES, 8), (8, 20), (20, CLASSES)]):
        model.add_module(f"stage{index}", nn.Sequential(nn.Linear(before, after), nn.Tanh()))
    draw(model, 0)
    trace = capture(find_stream(model, ["stage0", "stage1", "stage2"]), BATCH)
    assert [state.shape[1] for state in trace.hiddens] == [FEATURES, 8, 20, CLASSES]
    assert [gradient.shape for gradient in trace.gradients] == [state.shape for state in trace.hiddens]
    torch.testing.assert_close(trace.gradients[-1], trace.error)


def test_a_stream_that_explodes_inside_its_blocks_is_not_taken_for_branches() -> None:
    model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3)])
    with torch.no_grad():
        for layer in model:
            layer.weight.copy_(1e4 * torch.eye(WIDTH))
    found = capture(find_stream(model, ""), Batch(torch.ones(2, WIDTH), torch.zeros(2).long())).hiddens
    assert [float(state[0, 0]) for state in found] == pytest.approx([1, 1e4, 1e8, 1e12], rel=1e-6)  # not 1e12 + 1e8


@pytest.mark.parametrize("make", [Branches, stages])
def test_a_network_of_nan_gives_states_of_nan_and_no_crash(make: Callable[[], Branches]) -> None:
    model = make()
    with torch.no_grad():
        next(model.layers[1].parameters()).fill_(float("nan"))
    trace = capture(find_stream(model, "layers"), BATCH)
    assert trace.hiddens[1].isfinite().all()
    assert trace.hiddens[2].isnan().all()
    assert trace.gradients[0].isnan().any()


@pytest.mark.parametrize("make", [Branches, stages, InPlace, lambda: Looped(2)])
def test_hooks_are_gone_after_a_run_and_after_an_error(make: Callable[[], Branches]) -> None:
    model = make()
    with unchanged(model):
        try:
            capture(find_stream(model, "layers"), BATCH)
            losses_at(find_stream(model, "layers"), BATCH, {0: torch.zeros(9, WIDTH)})
        except ModelMismatch:
            assert type(model) not in (Branches, Stages)
