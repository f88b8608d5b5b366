"""The model comes back as it was given; what is not deterministic, or not a gradient, is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.foreign_models import (
    CLASSES,
    FEATURES,
    WIDTH,
    Branches,
    Stages,
    Tokens,
    branch,
    draw,
    images,
    stages,
    unchanged,
)
from torch import Tensor, nn

from creditscope.batch import Batch, first_images
from creditscope.errors import ModelMismatch, NotDeterministic, NotTheGradient
from creditscope.networks.build import build
from creditscope.provenance import Guard, GuardStatus
from creditscope.stream import gradient_check
from creditscope.stream.find import find_stream
from creditscope.stream.gradient_check import check_gradient, images_needed
from creditscope.stream.guards import FEW_IMAGES, PROBE_IMAGES, answers, check_answers, check_deterministic
from creditscope.stream.isolation import as_float64, in_float64, undisturbed
from creditscope.stream.trace import capture, cross_entropy

BATCH = images(PROBE_IMAGES)


def network(**options: Any) -> nn.Module:
    return build("resmlp", FEATURES, CLASSES, 0, **{"d": WIDTH, "depth": 3, "w2_std": 0.3, **options}).eval()


def checked(model: nn.Module, blocks: str | None = None, batch: Batch = BATCH) -> Guard:
    with unchanged(model):
        return check_gradient(find_stream(model, blocks), batch, cross_entropy)


# --- the model comes back ---


class Noisy(nn.Module):
    """BatchNorm, dropout, a buffer that counts and one that is replaced, in the residual branch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.dropout = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(1, WIDTH))

    def forward(self, h: Tensor) -> Tensor:
        self.calls += 1
        self.last = h.detach().mean(0, keepdim=True)
        out: Tensor = self.dropout(self.norm(self.linear(h)))
        return out


def test_modes_buffers_and_random_states_come_back_one_by_one() -> None:
    model = Branches(layer=Noisy).train()
    model.layers[1].eval()
    model.layers[2].dropout.eval()
    with unchanged(model), undisturbed(model):
        assert not any(module.training for module in model.modules())
        model(BATCH.inputs)
        torch.rand(3)
        model.layers[0].train()(torch.randn(4, WIDTH))
        model.layers[0].register_buffer("extra", torch.zeros(1))


def test_they_come_back_after_an_error_too() -> None:
    model = Branches(layer=Noisy).train()
    with unchanged(model), pytest.raises(KeyboardInterrupt), undisturbed(model):
        model(BATCH.inputs)
        raise KeyboardInterrupt


def test_a_backward_pass_under_way_is_not_spoilt() -> None:
    model = Branches(layer=Noisy).train()
    for layer in model.layers:
        layer.forward = lambda h, layer=layer: layer.norm(layer.linear(h))
    loss = model(BATCH.inputs).sum()
    with undisturbed(model):
        model(BATCH.inputs)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_under_inference_mode_gradients_can_be_taken_and_the_mode_comes_back() -> None:
    model = network()
    with torch.inference_mode():
        with undisturbed(model), torch.enable_grad():
            assert model(BATCH.inputs.clone()).requires_grad
        assert torch.is_inference_mode_enabled()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_in_float64_the_own_tensors_come_back_with_their_gradients(dtype: torch.dtype) -> None:
    model = Branches(layer=Noisy).to(dtype)
    for parameter in model.layers.parameters():
        parameter.grad = torch.ones_like(parameter)
    model.inlet.requires_grad_(False)
    with unchanged(model), pytest.raises(ValueError, match="whatever happens"), undisturbed(model), in_float64(model):
        assert {tensor.dtype for tensor in model.parameters()} == {torch.float64}
        assert model.eval()(BATCH.inputs.double()).dtype is torch.float64
        for layer in model.layers:
            layer.calls.zero_()
        model.train()
        raise ValueError("whatever happens")


def test_the_weights_can_be_trained_on_afterwards() -> None:
    model = network()
    expected = torch.autograd.grad(model(BATCH.inputs).sum(), list(model.parameters()))
    with in_float64(model):
        model(BATCH.inputs.double()).sum().backward()
        model.zero_grad()
    model(BATCH.inputs).sum().backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert parameter.grad is not None
        assert parameter.grad.dtype is torch.float32
        torch.testing.assert_close(parameter.grad, gradient)


def test_first_images_are_copies_in_whatever_form_inputs_come() -> None:
    x = BATCH.inputs
    few = first_images(Batch({"a": x, "b": (x, [x, 3])}, BATCH.labels), 2)
    assert torch.equal(few.inputs["a"], x[:2])
    assert torch.equal(few.inputs["b"][1][0], x[:2])
    assert few.inputs["b"][1][1] == 3
    assert torch.equal(few.labels, BATCH.labels[:2])
    assert few.inputs["a"].untyped_storage().nbytes() == 2 * FEATURES * 4  # a view would keep the batch alive


def test_only_floating_point_numbers_are_widened() -> None:
    wide = as_float64(Batch((BATCH.inputs, BATCH.labels), BATCH.labels))
    assert [tensor.dtype for tensor in (*wide.inputs, wide.labels)] == [torch.float64, torch.int64, torch.int64]


# --- a deterministic forward pass ---


def test_a_deterministic_model_gives_its_logits() -> None:
    model = network()
    assert torch.equal(check_deterministic(find_stream(model), BATCH), model(BATCH.inputs))


class AlwaysDropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = branch()

    def forward(self, h: Tensor) -> Tensor:
        return F.dropout(self.f(h), 0.5)


def test_dropout_that_is_always_on_is_refused() -> None:
    model = Branches(layer=AlwaysDropping).eval()
    with undisturbed(model), pytest.raises(NotDeterministic) as caught:
        check_deterministic(find_stream(model, "layers"), BATCH)
    message = str(caught.value)
    assert message.startswith("Branches returned two different logits for the same images in evaluation mode, up to ")
    assert "Medians and gradients would vary from run to run." in message
    assert message.endswith("Is dropout or noise applied regardless of .training?")


def test_the_answers_within_a_larger_batch_are_the_second_ones() -> None:
    model = network().eval()
    stream, few = find_stream(model), first_images(BATCH, 3)
    asked: list[int] = []
    model.embed.register_forward_pre_hook(lambda module, args: asked.append(len(args[0])))
    first = answers(stream, few)
    assert check_answers(stream, few, first, model(BATCH.inputs)[:3]) == Guard(GuardStatus.PASSED)
    assert asked == [3, PROBE_IMAGES]
    assert check_answers(stream, few, first) == Guard(GuardStatus.PASSED)
    assert asked == [3, PROBE_IMAGES, 2]  # one pass over some of them answers both questions


def test_dropout_shows_within_a_larger_batch_too() -> None:
    model = Branches(layer=AlwaysDropping).eval()
    stream, few = find_stream(model, "layers"), first_images(BATCH, 3)
    for within in (None, answers(stream, BATCH)[:3]):
        with undisturbed(model), pytest.raises(NotDeterministic):
            check_answers(stream, few, answers(stream, few), within)


class Centred(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        return h - h.mean(0)


def test_a_network_whose_answers_depend_on_the_other_images_is_refused() -> None:
    model = Branches(layer=Centred).eval()
    stream, few = find_stream(model, "layers"), first_images(BATCH, 3)
    for within in (None, answers(stream, BATCH)[:3]):
        with pytest.raises(ModelMismatch) as caught:
            check_answers(stream, few, answers(stream, few), within)
        what, why, todo = str(caught.value).partition("\n")[0], *str(caught.value).partition("\n")[2].split(". ", 1)
        assert what.startswith("The answers of Branches for the same images differ by ")
        assert why == "States and gradients of an image would depend on how the images are batched"
        assert todo.startswith("Does a normalisation use batch statistics in evaluation mode")


@pytest.mark.parametrize("kind", ["exploded", "chaotic", "bfloat16", "float32 only"])
def test_rounding_is_not_taken_for_dependence(kind: str) -> None:
    model = {
        "exploded": lambda: network(w2_std=1e11),
        "chaotic": lambda: Branches(12, scale=1e3),
        "bfloat16": lambda: Branches(6).bfloat16(),
        "float32 only": lambda: Branches(layer=Float32Only),
    }[kind]().eval()
    blocks = None if kind == "exploded" else "layers"
    batch = Batch(BATCH.inputs.to(next(model.parameters()).dtype), BATCH.labels)
    stream = find_stream(model, blocks)
    assert check_answers(stream, batch, answers(stream, batch)).passed


def test_a_single_image_and_a_fixed_number_of_images_cannot_be_told() -> None:
    stream, one = find_stream(network()), first_images(BATCH, 1)
    assert check_answers(stream, one, answers(stream, one)).status is GuardStatus.NOT_POSSIBLE

    class Fixed(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            return h.reshape(PROBE_IMAGES, WIDTH).tanh()

    stream = find_stream(Branches(layer=Fixed).eval(), "layers")
    assert check_answers(stream, BATCH, answers(stream, BATCH)).status is GuardStatus.NOT_POSSIBLE


def test_dropout_that_listens_is_not() -> None:
    model = Branches(layer=lambda: nn.Sequential(branch(), nn.Dropout(0.5))).train()
    with undisturbed(model):
        check_deterministic(find_stream(model, "layers"), BATCH)


def test_a_network_of_nan_is_deterministic() -> None:
    model = network()
    with torch.no_grad():
        model.embed.weight[0, 0] = float("nan")
    assert check_deterministic(find_stream(model), BATCH).isnan().all()


# --- a backward pass that is the gradient ---


class OwnBackward(torch.autograd.Function):
    """A linear map whose backward pass goes through another matrix."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(back)
        return F.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (back,) = ctx.saved_tensors
        return gradient @ back.to(gradient), None, None


class Feedback(nn.Module):
    """W₂ tanh(W₁ LN(h)) with backward(W₁) in place of W₁ᵀ."""

    def __init__(self, backward: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.backward = branch(), backward

    def forward(self, h: Tensor) -> Tensor:
        norm, first, act, second = self.inner
        weight = first.weight
        out: Tensor = second(act(OwnBackward.apply(norm(h), weight, self.backward(weight)) + first.bias))
        return out


def random_feedback(weight: Tensor) -> Tensor:
    drawn = torch.randn(weight.shape, generator=torch.Generator().manual_seed(9))
    return drawn * float(weight.detach().std())


WRONG: dict[str, Callable[[Tensor], Tensor]] = {
    "random": random_feedback,
    "fresh at every call": lambda weight: torch.tensor([[random.gauss(0, 1) for _ in row] for row in weight]),
    "scaled": lambda weight: 0.5 * weight,
    "sign": torch.sign,
    "zero": torch.zeros_like,
    "negative": torch.neg,
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("frozen", [False, True])
def test_a_layer_with_a_backward_of_its_own_is_refused(wrong: str, frozen: bool) -> None:
    model = Branches(layer=lambda: Feedback(WRONG[wrong])).requires_grad_(not frozen)
    with pytest.raises(NotTheGradient) as caught:
        checked(model, "layers") if wrong != "fresh at every call" else check_gradient(
            find_stream(model, "layers"), BATCH, cross_entropy
        )
    changes, why, todo = str(caught.value).splitlines()
    assert changes.startswith("Along a random direction the loss changes by ")
    assert ", but the backward pass of Branches promises " in changes
    assert why == "A diagnostic would compare credit with something that is not a gradient."
    assert todo == (
        "Does a layer define its own backward? Pass reference=creditscope.plain_twin(model), or your own plain copy."
    )


@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_one_such_layer_is_enough_wherever_it_lies_and_however_little_it_adds(layer: int, scale: float) -> None:
    model = Branches(scale=scale)
    false = Feedback(random_feedback)
    false.inner = model.layers[layer]
    model.layers[layer] = false
    with pytest.raises(NotTheGradient):
        checked(model, "layers")


def test_the_same_layer_with_its_true_backward_passes() -> None:
    assert checked(Branches(layer=lambda: Feedback(lambda weight: weight)), "layers").passed


def test_a_scaled_backward_of_the_loss_is_not_the_models_fault_but_is_refused() -> None:
    def doubled(logits: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(2 * logits - logits.detach(), labels)

    with pytest.raises(NotTheGradient):
        check_gradient(find_stream(network()), BATCH, doubled)


def fitted(model: nn.Module, sharpness: float, blocks: Any = None) -> Batch:
    """Sharpen the read-out, and take the model's own answers for labels."""
    head = model.out_head if hasattr(model, "out_head") else model.outlet
    with torch.no_grad():
        head.weight.mul_(sharpness)
        head.bias.mul_(0)
    return Batch(BATCH.inputs, model(BATCH.inputs).argmax(1))


HONEST: dict[str, Callable[[], tuple[nn.Module, str | None]]] = {
    "residual": lambda: (network(), None),
    "at initialisation": lambda: (network(w2_std=0.01), None),
    "without a terminal norm": lambda: (network(terminal_ln=False), None),
    "not residual": lambda: (network(residual=False), None),
    "exploded": lambda: (network(w2_std=1e3), None),
    "exploded beyond float32's squares": lambda: (network(w2_std=1e11), None),
    "tiny": lambda: (draw(network(), 0, 1e-6), None),
    "branches": lambda: (Branches(), "layers"),
    "stages": lambda: (stages(), "layers"),
    "relu": lambda: (
        Branches(5, layer=lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))),
        "layers",
    ),
    "plain relu": lambda: (Stages(4, layer=lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())), "layers"),
    "deep relu": lambda: (Stages(40, layer=lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())), "layers"),
    "deep residual relu": lambda: (
        Branches(40, layer=lambda: nn.Sequential(nn.ReLU(), nn.Linear(WIDTH, WIDTH))),
        "layers",
    ),
    "frozen": lambda: (Branches().requires_grad_(False), "layers"),
    "bfloat16": lambda: (network().bfloat16(), None),
    "float16": lambda: (network().half(), None),
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_networks_pass(kind: str) -> None:
    model, blocks = HONEST[kind]()
    batch = Batch(BATCH.inputs.to(next(model.parameters()).dtype), BATCH.labels)
    assert str(checked(model.eval(), blocks, batch)) == "passed: finite difference within 0.01 %, in float64"


@pytest.mark.parametrize("sharpness", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("explosion", [0.1, 1e3, 1e8])
def test_well_fitted_networks_pass_exploded_or_not(sharpness: float, explosion: float) -> None:
    model = network(w2_std=explosion)
    assert checked(model, None, fitted(model, sharpness)).passed


@pytest.mark.parametrize("read", ["first", "mean"])
def test_transformers_pass(read: str) -> None:
    tokens = images(PROBE_IMAGES, shape=(4, FEATURES))
    assert check_gradient(find_stream(Tokens().eval(), "layers", read), tokens, cross_entropy).passed
    vit = build("vit_mini", (3, 8, 8), CLASSES, 0, d=16, depth=2, patch=4, heads=2).eval()
    assert checked(vit, None, images(PROBE_IMAGES, shape=(3, 8, 8))).passed


@pytest.mark.parametrize("name", ["small_cnn", "small_resnet"])
def test_convolutional_networks_pass_run_by_stages_or_by_hooks(name: str) -> None:
    model = build(name, (3, 16, 16), CLASSES, 0).eval()
    for blocks in (None, "blocks"):
        assert checked(model, blocks, images(4, shape=(3, 16, 16))).passed


def test_a_shortcut_that_hooks_cannot_reach_is_not_taken_for_a_false_backward() -> None:
    class EarlyShortcut(Branches):
        def forward(self, x: Tensor) -> Tensor:
            h = self.inlet(x)
            for index, layer in enumerate(self.layers):
                h = (h.roll(1, 1) if index == 1 else h) + layer(h)
            return self.readout(h)

    assert checked(EarlyShortcut(), "layers").passed
    with pytest.raises(NotTheGradient):
        checked(EarlyShortcut(layer=lambda: Feedback(random_feedback)), "layers")


def test_a_saturated_network_cannot_be_checked_and_is_not_refused() -> None:
    model = network()
    batch = fitted(model, 1e5)
    assert str(checked(model, None, batch)) == "not possible: the loss does not move beyond rounding"


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_diverged_network_cannot_be_checked_and_is_not_refused(bad: float) -> None:
    model = network()
    with torch.no_grad():
        model.blocks[1].w1.weight[0, 0] = bad
    assert str(checked(model)) == "not possible: the numbers are not finite"


class Float32Only(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = branch()

    def forward(self, h: Tensor) -> Tensor:
        if h.dtype is torch.float64:
            raise RuntimeError("this kernel knows no float64")
        out: Tensor = self.f(h)
        return out


@pytest.mark.parametrize("sharpness", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_where_float64_is_impossible_a_coarser_check_passes_honest_networks(sharpness: float, scale: float) -> None:
    model = Branches(layer=Float32Only, scale=scale)
    message = checked(model, "layers", fitted(model, sharpness))
    assert message.passed
    assert message.text.endswith("%, in float32")


def test_it_refuses_false_ones_there_too() -> None:
    class False32(Feedback):
        def forward(self, h: Tensor) -> Tensor:
            return super().forward(h.float()) if h.dtype is not torch.float64 else h @ torch.zeros(1)

    with pytest.raises(NotTheGradient):
        checked(Branches(layer=lambda: False32(torch.neg)), "layers")


def test_a_saturated_network_in_float32_is_not_refused() -> None:
    model = Branches(layer=Float32Only)
    assert checked(model, "layers", fitted(model, 3e3)).status is GuardStatus.NOT_POSSIBLE


def test_half_precision_alone_is_too_coarse_to_check() -> None:
    model = Branches(layer=Float32Only).bfloat16()
    message = checked(model, "layers", Batch(BATCH.inputs.bfloat16(), BATCH.labels))
    assert str(message) == "not possible: the model runs in half precision only"


# --- forward passes that are coarser than float64, and states of several tensors ---


class UpcastNorm(nn.Module):
    """RMSNorm that computes in float32 whatever comes in, as language models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, h: Tensor) -> Tensor:
        single = h.to(torch.float32)
        single = single * torch.rsqrt(single.square().mean(-1, keepdim=True) + 1e-6)
        return self.weight * single.to(h.dtype)


def upcast_branch(inner: Callable[[], nn.Module] = branch) -> nn.Sequential:
    return nn.Sequential(UpcastNorm(), inner())


PARTS = "%, in float64 with parts in float32"


@pytest.mark.parametrize("depth", [1, 3, 8])
@pytest.mark.parametrize("scale", [0.1, 1.0, 1e3])
def test_a_norm_that_upcasts_to_float32_is_no_false_backward(depth: int, scale: float) -> None:
    guard = checked(Branches(depth, scale=scale, layer=upcast_branch), "layers")
    if guard.passed:
        assert guard.text.endswith(("%, in float64", PARTS))
    else:  # a tanh of weights of 1e3, eight times over, is chaotic: no step tells right from wrong
        assert (scale, guard.text) == (1e3, "the loss is too rough for a finite difference at any step")


def test_rounding_inside_is_noticed_and_the_check_is_as_exact_as_it_allows() -> None:
    guard = checked(Branches(layer=lambda: nn.Sequential(branch(), UpcastNorm())), "layers")
    assert guard.text.endswith(PARTS)
    assert float(guard.text.removeprefix("finite difference within ").removesuffix(f" {PARTS}")) < 1


@pytest.mark.parametrize("wrong", [name for name in WRONG if name != "fresh at every call"])
def test_behind_such_a_norm_a_false_backward_is_refused(wrong: str) -> None:
    with pytest.raises(NotTheGradient):
        checked(Branches(layer=lambda: upcast_branch(lambda: Feedback(WRONG[wrong]))), "layers")


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_behind_such_norms_one_false_layer_is_enough(layer: int) -> None:
    model = Branches(layer=upcast_branch)
    false = Feedback(random_feedback)
    false.inner = model.layers[layer][1]
    model.layers[layer][1] = false
    with pytest.raises(NotTheGradient):
        checked(model, "layers")


class FalseUpcast(torch.autograd.Function):
    """A cast to float32 whose gradient is too small."""

    @staticmethod
    def forward(ctx: Any, h: Tensor) -> Tensor:
        return h.to(torch.float32).to(h.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 0.9 * gradient


def test_a_false_cast_is_refused_and_a_true_one_passes() -> None:
    class Cast(nn.Module):
        def __init__(self, cast: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            self.f, self.cast = branch(), cast

        def forward(self, h: Tensor) -> Tensor:
            out: Tensor = h + self.f(self.cast(h))
            return out

    true = Stages(layer=lambda: Cast(lambda h: h.to(torch.float32).to(h.dtype)))
    assert checked(true, "layers").passed
    with pytest.raises(NotTheGradient):
        checked(Stages(layer=lambda: Cast(FalseUpcast.apply)), "layers")


def binary(logits: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits[:, 0], labels.float(), reduction="none")


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "binary, labels cast": binary,
    "binary, both cast": lambda logits, labels: binary(logits.float(), labels),
    "binary, labels as they are": lambda logits, labels: F.binary_cross_entropy_with_logits(
        logits[:, 0], labels, reduction="none"
    ),
    "probabilities": lambda logits, labels: F.binary_cross_entropy(
        logits[:, 0].sigmoid(), labels.float(), reduction="none"
    ),
    "cross-entropy in float32": lambda logits, labels: F.cross_entropy(logits.float(), labels.long(), reduction="none"),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_float_labels_and_losses_in_float32_pass(loss: str, dtype: torch.dtype) -> None:
    if loss == "binary, labels as they are" and dtype is torch.int64:
        dtype = torch.float64
    batch = Batch(BATCH.inputs, (BATCH.labels > 2).to(dtype))
    assert check_gradient(find_stream(Branches(), "layers"), batch, LOSSES[loss]).passed
    with pytest.raises(NotTheGradient):
        check_gradient(
            find_stream(Branches(layer=lambda: Feedback(lambda weight: 0.5 * weight)), "layers"), batch, LOSSES[loss]
        )
    with pytest.raises(NotTheGradient):
        check_gradient(
            find_stream(Branches(), "layers"),
            batch,
            lambda logits, labels: LOSSES[loss](2 * logits - logits.detach(), labels),
        )


class Reversible(torch.autograd.Function):
    """y₁ = x₁ + f(x₂), y₂ = x₂ + g(y₁), undone on the way back; `kept` scales one term of the gradient."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, block: Any, kept: float, *parameters: Tensor) -> Any:
        ctx.block, ctx.kept = block, kept
        one = first + block.f(second)
        two = second + block.g(one)
        ctx.save_for_backward(one, two)
        return one, two

    @staticmethod
    def backward(ctx: Any, by_one: Tensor, by_two: Tensor) -> Any:
        one, two = (tensor.detach().requires_grad_() for tensor in ctx.saved_tensors)
        f, g = ctx.block.f, ctx.block.g
        with torch.enable_grad():
            added = g(one)
        through, *of_g = torch.autograd.grad(added, [one, *g.parameters()], by_two)
        by_one = by_one + ctx.kept * through
        second = (two - added).detach().requires_grad_()
        with torch.enable_grad():
            added = f(second)
        through, *of_f = torch.autograd.grad(added, [second, *f.parameters()], by_one)
        return by_one, by_two + through, None, None, *of_f, *of_g


class Coupled(nn.Module):
    """A reversible block on a pair of tensors."""

    kept = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.f, self.g = branch(), branch()

    def forward(self, pair: tuple[Tensor, Tensor]) -> Any:
        return Reversible.apply(*pair, self, self.kept, *self.f.parameters(), *self.g.parameters())


class FalselyCoupled(Coupled):
    kept = 0.9


class PlainCoupled(Coupled):
    """The same by autograd: y₁ is used inside the block, before it is a state."""

    def forward(self, pair: tuple[Tensor, Tensor]) -> Any:
        one = pair[0] + self.f(pair[1])
        return one, pair[1] + self.g(one)


class Swapped(PlainCoupled):
    """(x₁, x₂) -> (x₂, x₁ + f(x₂)): the state that comes out went in as the other half."""

    def forward(self, pair: tuple[Tensor, Tensor]) -> Any:
        return pair[1], pair[0] + self.f(pair[1])


class FalselySwapped(Swapped):
    def __init__(self) -> None:
        super().__init__()
        self.f = Feedback(random_feedback)


class Pairs(Branches):
    """A stream of pairs, twice the embedding at first."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        pair = (h, h)
        for layer in self.layers:
            pair = layer(pair)
        return self.readout(pair[0] + pair[1])


@pytest.mark.parametrize("block", [Coupled, PlainCoupled, Swapped])
def test_reversible_networks_pass(block: Callable[[], nn.Module]) -> None:
    assert checked(Pairs(layer=block), "layers").passed
    assert checked(Pairs(layer=block)).passed


@pytest.mark.parametrize("block", [FalselyCoupled, FalselySwapped])
def test_false_reversible_networks_are_refused(block: Callable[[], nn.Module]) -> None:
    with pytest.raises(NotTheGradient):
        checked(Pairs(layer=block), "layers")


def test_the_custom_and_the_plain_reversible_network_have_the_same_gradients() -> None:
    custom, plain = Pairs(layer=Coupled), Pairs(layer=PlainCoupled)
    ours, theirs = (capture(find_stream(model, "layers"), BATCH).gradients for model in (custom, plain))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_a_loss_too_steep_for_the_first_steps_is_compared_at_a_smaller_one() -> None:
    class Steep(Stages):
        def readout(self, h: Tensor) -> Tensor:
            return (3e5 * super().readout(h)).sin()

    model = Steep(3)
    guard = check_gradient(find_stream(model), images(6), cross_entropy)
    assert (guard.status, guard.text) == (GuardStatus.PASSED, "finite difference within 0.01 %, in float64")


# --- models whose float64 copy is too large, and fewer images ---


def test_a_large_model_is_cleared_in_its_own_precision_and_copied_only_if_that_does_not_clear_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gradient_check, "COPIED", 0)
    guard = checked(network())
    assert guard.passed
    assert guard.text.endswith("%, in float32")
    with pytest.raises(NotTheGradient):
        checked(Branches(layer=lambda: Feedback(lambda weight: 0.5 * weight)), "layers")

    def no_copy(model: nn.Module) -> None:
        raise AssertionError("a float64 copy was made")

    monkeypatch.setattr(gradient_check, "float64_copies", no_copy)
    assert checked(network()) == guard


def test_states_with_positions_need_fewer_images() -> None:
    flat, tokens, maps = torch.zeros(1, 5), torch.zeros(1, 3, 5), torch.zeros(1, 5, 2, 8)
    assert images_needed([flat, tokens]) == PROBE_IMAGES
    assert images_needed([tokens, maps]) == 3
    assert images_needed([maps]) == FEW_IMAGES


def test_parameters_of_blocks_are_constants_unless_a_block_needs_them() -> None:
    plain, custom = find_stream(Branches(), "layers"), find_stream(Pairs(layer=Coupled), "layers")
    for stream in (plain, custom):
        capture(stream, BATCH)
    assert (plain.constant_blocks, custom.constant_blocks) == (True, False)
    assert all(parameter.requires_grad for model in (plain.model, custom.model) for parameter in model.parameters())


def test_constant_parameters_change_no_gradient() -> None:
    frugal, whole = (find_stream(Branches(), "layers") for _ in range(2))
    whole.constant_blocks = False
    for one, other in zip(capture(frugal, BATCH).gradients, capture(whole, BATCH).gradients, strict=True):
        assert torch.equal(one, other)
