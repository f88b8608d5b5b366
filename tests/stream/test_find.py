"""The stream of a model is found, read by its rule, or its absence explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.foreign_models import CLASSES, FEATURES, WIDTH, Branches, Skip, Tokens, branch, draw, images, unchanged
from torch import Tensor, nn

from creditscope.errors import InvalidInput, ModelMismatch, UnknownName
from creditscope.networks.build import build
from creditscope.provenance import Guard, GuardStatus
from creditscope.stream.find import SearchedStream, find_stream, named_blocks
from creditscope.stream.hooked import HookStream
from creditscope.stream.published import HiddenStream, PublishedStream
from creditscope.stream.states import StagedStream, Stream
from creditscope.stream.trace import capture, cross_entropy, losses_at

BATCH = images(7)


class Parts(nn.Module):
    """embed, blocks that return f_l only, (out_ln, out_head) or (norm, head)."""

    names = ("embed", "out_ln", "out_head")

    def __init__(self, depth: int = 2, block: Callable[[], nn.Module] = branch) -> None:
        super().__init__()
        embed, norm, head = self.names
        setattr(self, embed, nn.Linear(FEATURES, WIDTH))
        self.blocks = nn.ModuleList(block() for _ in range(depth))
        if norm:
            setattr(self, norm, nn.LayerNorm(WIDTH))
        setattr(self, head, nn.Linear(WIDTH, CLASSES))
        draw(self, 0)

    def stage(self, h: Tensor, block: nn.Module) -> Tensor:
        out: Tensor = h + block(h)
        return out

    def states(self, x: Tensor) -> list[Tensor]:
        hiddens = [getattr(self, self.names[0])(x.flatten(1))]
        for block in self.blocks:
            hiddens.append(self.stage(hiddens[-1], block))
        return hiddens

    def readout(self, h: Tensor) -> Tensor:
        _, norm, head = self.names
        out: Tensor = getattr(self, head)(getattr(self, norm)(h) if norm else h)
        return out

    def forward(self, x: Tensor) -> Any:
        return self.readout(self.states(x)[-1])


class OtherParts(Parts):
    names = ("patch_embed", "norm", "head")


class Bare(Parts):
    names = ("embed", "", "out_head")


class Shown(Parts):
    """The published contract itself."""

    def forward(self, x: Tensor, return_hidden: bool = False) -> Any:
        hiddens = self.states(x)
        return (self.readout(hiddens[-1]), hiddens) if return_hidden else self.readout(hiddens[-1])


class ShownStages(Shown):
    """It shows its states, but its blocks return the next one."""

    def __init__(self) -> None:
        super().__init__(block=Skip)

    def stage(self, h: Tensor, block: nn.Module) -> Tensor:
        out: Tensor = block(h)
        return out


FOUND: list[tuple[Callable[[], nn.Module], type[Stream]]] = [
    (lambda: build("resmlp", FEATURES, CLASSES, 0, d=WIDTH, depth=2), StagedStream),
    (lambda: build("resmlp", FEATURES, CLASSES, 0, d=WIDTH, depth=2, residual=False, w2_std=0.3), StagedStream),
    (Parts, PublishedStream),
    (OtherParts, PublishedStream),
    (Bare, PublishedStream),
    (Shown, HiddenStream),
    (ShownStages, HiddenStream),
]


@pytest.mark.parametrize(("make", "kind"), FOUND)
def test_each_kind_of_model_shows_the_same_stream_as_hooks_on_its_blocks(
    make: Callable[[], nn.Module], kind: type[Stream]
) -> None:
    model = make()
    stream = find_stream(model)
    found = stream.resolved(BATCH.inputs) if isinstance(stream, SearchedStream) else stream
    assert type(found) is kind
    hooked = find_stream(model, "blocks")
    assert type(hooked) is HookStream
    with unchanged(model):
        one, other = capture(stream, BATCH), capture(hooked, BATCH)
        torch.testing.assert_close(one.logits, model(BATCH.inputs).detach())
        for name in ("hiddens", "gradients"):
            for ours, theirs in zip(getattr(one, name), getattr(other, name), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)
        shifts = {layer: images(7, seed=layer, shape=(WIDTH,)).inputs for layer in range(3)}
        torch.testing.assert_close(*(losses_at(each, BATCH, shifts) for each in (stream, hooked)))


@pytest.mark.parametrize(("make", "kind"), FOUND)
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_shift_changes_the_loss_as_the_gradient_says(
    make: Callable[[], nn.Module], kind: type[Stream], layer: int
) -> None:
    model, batch = make().double(), images(7)
    batch = batch._replace(inputs=batch.inputs.double())
    stream = find_stream(model)
    step = 1e-6 * torch.randn(7, WIDTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    forth, back = (losses_at(stream, batch, {layer: sign * step}) for sign in (1, -1))
    promised = (capture(stream, batch).gradients[layer] * step).sum(1)
    torch.testing.assert_close((forth - back) / 2, promised, rtol=1e-5, atol=1e-13)


@pytest.mark.parametrize(("make", "kind"), FOUND)
def test_frozen_parameters_change_nothing(make: Callable[[], nn.Module], kind: type[Stream]) -> None:
    model = make()
    free = capture(find_stream(model), BATCH)
    model.requires_grad_(False)
    for ours, theirs in zip(capture(find_stream(model), BATCH).gradients, free.gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_contract_that_the_forward_pass_does_not_keep_is_refused_and_the_blocks_are_found_by_structure() -> None:
    model = Parts(block=Skip)  # h + block(h) would add the skip twice
    model.stage = lambda h, block: block(h)  # type: ignore[method-assign]
    stream = find_stream(model)
    assert isinstance(stream, SearchedStream)
    assert type(stream.resolved(BATCH.inputs)) is HookStream
    torch.testing.assert_close(stream.run(BATCH.inputs).logits, model(BATCH.inputs))
    stream = PublishedStream(model, "auto")
    with pytest.raises(ModelMismatch, match="one after the other do not give the model's own logits") as caught:
        stream.verify(BATCH.inputs, stream.run(BATCH.inputs).logits)
    assert "Pass blocks= the path of its block list. Its lists of modules: blocks (2 x Skip)" in str(caught.value)
    find_stream(Parts()).verify(BATCH.inputs, Parts()(BATCH.inputs))


def test_a_contract_whose_blocks_neither_read_nor_add_to_the_states_cannot_be_shifted() -> None:
    class NormedOutside(Shown):
        def stage(self, h: Tensor, block: nn.Module) -> Tensor:
            out: Tensor = h + 0.5 * block(h * 2)
            return out

    stream = find_stream(NormedOutside())
    assert len(capture(stream, BATCH).gradients) == 3
    with pytest.raises(ModelMismatch, match="Block 0 of NormedOutside neither reads h_0 itself nor adds to it"):
        losses_at(stream, BATCH, {0: torch.zeros(7, WIDTH)})


def test_a_stage_that_writes_over_its_state_is_refused() -> None:
    model = Parts(block=lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(WIDTH, WIDTH)))
    with torch.no_grad(), pytest.raises(ModelMismatch, match=r"input of block 0 .*was changed in place"):
        find_stream(model).run(BATCH.inputs)


class Shows(Shown):
    """Returns something else than the contract says."""

    def __init__(self, answer: Callable[[Tensor, list[Tensor]], Any]) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x: Tensor, return_hidden: bool = False) -> Any:
        hiddens = self.states(x)
        return self.answer(self.readout(hiddens[-1]), hiddens)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda logits, hiddens: logits, r"did not return \(logits, \[h_0..h_L\]\)"),
        (lambda logits, hiddens: (logits, *hiddens), r"did not return \(logits, \[h_0..h_L\]\)"),
        (lambda logits, hiddens: (logits, hiddens[1:]), "has 2 blocks but returned 2 states, not h_0 to h_2"),
        (lambda logits, hiddens: (logits, [h.detach() for h in hiddens]), "does not depend on its h_0 as returned"),
        (lambda logits, hiddens: (logits, [h.clone() for h in hiddens]), "does not depend on its h_0 as returned"),
        (lambda logits, hiddens: (logits.detach(), hiddens), "does not depend on its h_0 as returned"),
    ],
)
def test_states_that_are_not_the_streams_own_are_refused(answer: Callable[..., Any], message: str) -> None:
    with pytest.raises(ModelMismatch, match=message):
        capture(find_stream(Shows(answer)), BATCH)


def test_states_that_are_all_the_same_tensor_are_refused() -> None:
    class Aliased(Shown):
        def states(self, x: Tensor) -> list[Tensor]:
            h = self.embed(x)
            hiddens = [h]
            for block in self.blocks:
                h += block(h)
                hiddens.append(h)
            return hiddens

    with pytest.raises(ModelMismatch, match="changed in place"):
        capture(find_stream(Aliased()), BATCH)


class Several(Branches):
    """Takes two tensors."""

    def forward(self, left: Tensor, right: Tensor) -> dict[str, Any]:  # type: ignore[override]
        return {"loss": None, "features": left, "logits": super().forward(left + right)}


@pytest.mark.parametrize("pack", [lambda a, b: (a, b), lambda a, b: [a, b], lambda a, b: {"right": b, "left": a}])
def test_several_inputs_come_as_a_tuple_or_by_name(pack: Callable[[Tensor, Tensor], Any]) -> None:
    model, half = Several(), BATCH.inputs / 2
    packed = capture(find_stream(model, "layers"), BATCH._replace(inputs=pack(half, half)))
    twin = Branches()
    torch.testing.assert_close(packed.logits, twin(BATCH.inputs).detach())
    torch.testing.assert_close(packed.gradients[0], capture(find_stream(twin, "layers"), BATCH).gradients[0])


def test_an_answer_may_carry_its_logits_as_an_attribute() -> None:
    class Answer:
        def __init__(self, logits: Tensor) -> None:
            self.logits = logits

    class Answering(Branches):
        def forward(self, x: Tensor) -> Any:
            return Answer(super().forward(x))

    torch.testing.assert_close(
        capture(find_stream(Answering(), "layers"), BATCH).logits, Branches()(BATCH.inputs).detach()
    )


def test_an_answer_without_logits_is_refused() -> None:
    class Silent(Branches):
        def forward(self, x: Tensor) -> Any:
            super().forward(x)

    with pytest.raises(ModelMismatch, match="The model returned NoneType, which holds no floating-point tensor"):
        find_stream(Silent(), "layers").run(BATCH.inputs)


STATE = torch.arange(2 * 3 * 4.0).view(2, 3, 4)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ("auto", STATE[:, 0]),
        ("first", STATE[:, 0]),
        (2, STATE[:, 2]),
        (-1, STATE[:, 2]),
        ("mean", STATE.sum(1)),
        ("all", STATE),
    ],
)
def test_the_read_rule_says_which_vector_stands_for_tokens(read: Any, expected: Tensor) -> None:
    stream = find_stream(Tokens(), "layers", read)
    assert torch.equal(stream.vectors(STATE), expected)
    assert torch.equal(stream.vectors(STATE[:, 0]), STATE[:, 0])


@pytest.mark.parametrize("read", ["auto", "first", "mean", 1])
def test_a_convolutional_gradient_is_summed_over_its_positions(read: Any) -> None:
    state = torch.arange(2 * 3 * 4 * 5.0).view(2, 3, 4, 5)
    slow = torch.stack([torch.stack([channel.sum() for channel in sample]) for sample in state])
    assert torch.allclose(find_stream(Tokens(), "layers", read).vectors(state), slow)
    every = find_stream(Tokens(), "layers", "all").vectors(state)
    assert every.shape == (2, 20, 3)
    assert torch.equal(every[1, 7], state[1, :, 1, 2])


def test_a_network_says_itself_which_vector_stands_for_its_tokens() -> None:
    vit = build("vit_mini", (3, 8, 8), CLASSES, 0, d=16, depth=1, patch=4, heads=2)
    assert find_stream(vit).rule == "first"
    vit.token = "mean"
    assert (find_stream(vit).rule, find_stream(vit, "blocks").rule, find_stream(vit, read="all").rule) == (
        "mean",
        "mean",
        "all",
    )
    foreign = Tokens()
    foreign.token = nn.Parameter(torch.zeros(3))  # a name that means something else there
    assert find_stream(foreign, "layers").rule == "auto"


def test_a_token_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="read=3 is outside a state of 3 tokens"):
        find_stream(Tokens(), "layers", 3).vectors(STATE)


@pytest.mark.parametrize("read", ["last", True, None, 1.0, torch.zeros(2)])
def test_a_rule_that_is_none_is_refused(read: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a rule for reading a state with tokens"):
        find_stream(Tokens(), "layers", read)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4, 5, 6, 7)])
def test_a_state_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ModelMismatch, match=r"is none of \(N, d\), \(N, tokens, d\), \(N, C, H, W\) and \(N, C, D, H, W\)"
    ):
        find_stream(Tokens(), "layers").vectors(torch.zeros(shape))


def test_a_model_that_shows_no_stream_is_told_which_lists_it_has() -> None:
    class Parallel(Branches):
        """h + Σ f(h): no block leads to the next."""

        def forward(self, x: Tensor) -> Tensor:
            h = self.inlet(x)
            return self.readout(h + sum(layer(h) for layer in self.layers))

    with pytest.raises(ModelMismatch) as caught:
        find_stream(Parallel()).run(BATCH.inputs)
    message = str(caught.value)
    assert message.startswith(
        "Parallel has no recognisable stream: it has neither `return_hidden=True` nor embed, blocks and read-out, and"
    )
    assert "or a list of module names. Its lists of modules: layers (3 x Sequential), layers.0 (4 x" in message
    with pytest.raises(ModelMismatch, match="It has no list of modules"):
        find_stream(nn.Linear(FEATURES, 2)).run(BATCH.inputs)


def test_blocks_are_found_by_the_path_of_their_list_or_one_by_one() -> None:
    model = Branches()
    layers = list(model.layers)
    assert named_blocks(model, "layers") == layers
    assert named_blocks(model, ["layers.0", "layers.2"]) == [layers[0], layers[2]]
    assert named_blocks(model, ("outlet",)) == [model.outlet]
    assert named_blocks(nn.Sequential(model, model.norm), "0.layers") == layers


@pytest.mark.parametrize("blocks", ["layer", ["layer"], ["layers.0", "layer"]])
def test_blocks_that_do_not_exist_are_answered_with_the_nearest_name(blocks: Any) -> None:
    with pytest.raises(UnknownName, match=r"no module in Branches called 'layer'\. Did you mean 'layers'\?"):
        find_stream(Branches(), blocks)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ("outlet", r"'outlet' is a Linear, not a list of blocks.*Its lists of modules: layers"),
        ("", r"'' is a Branches, not a list of blocks"),
        ([], r"blocks=\[\] names no block"),
    ],
)
def test_a_name_that_is_no_list_of_blocks_is_refused(blocks: Any, message: str) -> None:
    with pytest.raises(ModelMismatch, match=r"(?s)" + message):
        find_stream(Branches(), blocks)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (["layers.1", "layers.1", "layers.2"], r"names layers\.1 more than once.*would count as two layers"),
        (3, r"holds a int, not the name of a module"),
        (list(Branches().layers), r"holds a \w+, not the name of a module.*Its lists of modules: layers"),
    ],
)
def test_blocks_that_are_no_names_or_twice_the_same_are_refused(blocks: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=r"(?s)" + message):
        find_stream(Branches(), blocks)


@pytest.mark.parametrize(
    ("depth", "blocks", "texts"),
    [
        (3, "layers", {}),
        (1, "layers", {"h_L": "there is one block, and h_L is taken to be its output"}),
        (3, ["layers.0", "layers.2"], {}),  # the module that reads it shows it
    ],
)
def test_a_deepest_state_that_nothing_shows_is_called_a_guess(depth: int, blocks: Any, texts: dict[str, str]) -> None:
    stream = find_stream(Branches(depth), blocks)
    stream.run(images(5).inputs)
    assert stream.checks() == {name: Guard(GuardStatus.GUESS, text) for name, text in texts.items()}


@pytest.mark.parametrize("read", ["first", "mean", "all"])
def test_a_transformer_written_with_torchs_own_layers_has_its_true_gradients(read: Any) -> None:
    model, batch = Tokens().eval(), images(5, shape=(4, FEATURES))
    trace = capture(find_stream(model, "layers", read), batch)
    h = model.inlet(batch.inputs).detach().requires_grad_()
    state: Tensor = h
    for layer in model.layers:
        state = layer(state)
    (expected,) = torch.autograd.grad(cross_entropy(model.outlet(state[:, 0]), batch.labels).sum(), h)
    torch.testing.assert_close(trace.gradients[0], expected, rtol=1e-4, atol=1e-7)
    assert trace.gradients[0].shape == (5, 4, WIDTH)
