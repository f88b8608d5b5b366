"""A rule bound to any model: backprop is loss.backward(), local rules equal an explicit twin, nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.foreign_models import CLASSES, FEATURES, WIDTH, Branches, Stages, Tokens, draw, images
from tests.methods.bound_twins import chained, local_twin
from tests.methods.conftest import OPTIONS, small
from torch import Tensor, nn

import creditscope
from creditscope import InvalidInput, ModelMismatch, UnknownName, audit, rule
from creditscope.batch import Batch
from creditscope.methods import methods
from creditscope.methods.adapted import AdaptedNetwork
from creditscope.methods.binding import ModelRule
from creditscope.methods.forward_gradient import _by_sample
from creditscope.methods.rule import run_generator
from creditscope.stream.find import find_stream


def plain() -> nn.Sequential:
    layers = [nn.Linear(FEATURES, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 7), nn.Tanh()]
    built = nn.Sequential(*layers, nn.Linear(7, CLASSES))
    draw(built, 3)
    return built


def convolutional() -> nn.Sequential:
    def stage(channels: int, out: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU())

    built = nn.Sequential(
        stage(2, 4), stage(4, 4), stage(4, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, CLASSES)
    )
    draw(built, 4)
    return built


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "skip outside the block": (Branches, (FEATURES,)),
    "next state from the block": (Stages, (FEATURES,)),
    "tokens": (Tokens, (7, FEATURES)),
    "plain": (plain, (FEATURES,)),
}


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> tuple[nn.Module, Batch]:
    make, shape = CASES[request.param]
    return make().double().eval(), in_double(images(6, shape=shape))


def in_double(batch: Batch) -> Batch:
    return Batch(batch.inputs.double(), batch.labels)


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def of_backward(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    model.zero_grad()
    F.cross_entropy(model(batch.inputs), batch.labels).backward()
    return gradients(model)


def of_rule(bound: ModelRule, model: nn.Module, batch: Batch, **options: Any) -> dict[str, Tensor]:
    model.zero_grad()
    bound.backward(*batch, **options)
    return gradients(model)


def same(one: dict[str, Tensor], other: dict[str, Tensor], **close: float) -> None:
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], msg=lambda text, name=name: f"{name}: {text}", **close)


def test_backprop_is_loss_backward(case: tuple[nn.Module, Batch]) -> None:
    model, batch = case
    bound = rule("bp", model, example=batch)
    same(of_rule(bound, model, batch), of_backward(model, batch))
    torch.testing.assert_close(bound.backward(*batch), F.cross_entropy(model(batch.inputs), batch.labels).detach())


@pytest.mark.parametrize("name", ["dfa", "fa"])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_local_rules_equal_an_explicit_twin(name: str, penalty: float, case: tuple[nn.Module, Batch]) -> None:
    model, batch = case
    bound = rule(name, model, example=batch, seed=5, penalty=penalty)
    expected = local_twin(name, model, chained(model), batch, dict(bound.feedback.tensors), penalty)
    same(of_rule(bound, model, batch), expected)


EVERYWHERE = [name for name, entry in methods.items() if entry.at_states and entry.networks is None]


@pytest.mark.parametrize("on", list(OPTIONS))
@pytest.mark.parametrize("name", EVERYWHERE)
def test_on_our_networks_the_view_of_any_model_equals_the_present_path(name: str, on: str) -> None:
    network = small(on)
    batch = Batch(torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(1)).double(), torch.arange(5) % 4)
    view = AdaptedNetwork(network, find_stream(network))
    view.learn_structure(batch.inputs)
    chosen = methods[name]()
    feedback = chosen.feedback(network, batch, run_generator(0))
    seen = chosen.feedback(view, batch, run_generator(0))
    one, other = chosen.credit(network, feedback, batch), chosen.credit(view, seen, batch)
    same(one.gradients, other.gradients)
    for signal, again in zip(one.signals, other.signals, strict=True):
        torch.testing.assert_close(signal, again)


@pytest.mark.parametrize("on", ["resmlp", "student_net", "vit_mini"])
@pytest.mark.parametrize("name", ["ep", "predictive_coding", "state_bridge", "credit_bridge", "target_prop"])
@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_rules_that_run_stages_alone_find_the_same_states_in_any_model(name: str, on: str) -> None:
    """The same network through its hooks: its stages are run by replacing states in calls of the whole model."""
    network = small(on)
    batch = Batch(torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(1)).double(), torch.arange(5) % 4)
    view = AdaptedNetwork(network, find_stream(network, "blocks"))
    view.learn_structure(batch.inputs)
    chosen = methods[name]()
    try:
        feedback = chosen.feedback(network, batch, run_generator(0))
    except InvalidInput:
        with pytest.raises(InvalidInput):
            chosen.feedback(view, batch, run_generator(0))
        return
    seen = chosen.feedback(view, batch, run_generator(0))
    one, other = chosen.credit(network, feedback, batch), chosen.credit(view, seen, batch)
    for signal, again in zip(one.signals, other.signals, strict=True):
        torch.testing.assert_close(signal, again, rtol=1e-6, atol=1e-9)
    same(one.gradients, other.gradients, rtol=1e-6, atol=1e-9)


def test_a_replayed_stage_draws_the_same_dropout_and_moves_no_statistics() -> None:
    model, batch = Tokens().train(), images(6, shape=(7, FEATURES))
    bound = rule("ep", model, example=batch)
    states = bound.network.walk(batch.inputs).states
    for layer, found in enumerate(bound.network.stages_at(states[:-1])):
        torch.testing.assert_close(found, states[layer + 1])
    convolved, given = convolutional().train(), images(6, shape=(2, 6, 6))
    view = rule("ep", convolved, example=given, blocks=["1", "2"])
    with torch.no_grad():
        reached = view.network.walk(given.inputs).states
        before = [buffer.clone() for buffer in convolved.buffers()]
        view.network.readout(reached[-1])
    assert all(torch.equal(a, b) for a, b in zip(before, convolved.buffers(), strict=True))


def test_states_that_other_modules_read_cannot_be_replaced() -> None:
    class Around(Branches):
        def forward(self, x: Tensor) -> Tensor:
            h = self.inlet(x)
            for layer in self.layers:
                h = torch.tanh(h) + layer(h)
            return self.readout(h)

    with pytest.raises(ModelMismatch, match="may be read by other modules than its blocks"):
        rule("ep", Around(), example=images(6), blocks="layers")


def test_feedback_in_every_weight_with_the_weights_themselves_is_backprop() -> None:
    model, batch = Branches().double(), in_double(images(6))
    bound = rule("fa_weights", model, example=batch)
    for name, tensor in bound.feedback.tensors.items():
        bound.feedback.tensors[name] = model.get_parameter(name).detach().clone()  # type: ignore[index]
        assert tensor.shape == bound.feedback.tensors[name].shape
    same(of_rule(bound, model, batch), of_backward(model, batch))


def test_nothing_crosses_a_border(case: tuple[nn.Module, Batch]) -> None:
    """The gradients of a block do not move when the weights of another block above it move, credit held."""
    model, batch = case
    bound = rule("dfa", model, example=batch)
    seen = bound.network.in_pieces(batch.inputs, lambda block: True)
    for index, stage in enumerate(seen.stages):
        own = seen.parts.stages[index]  # type: ignore[attr-defined]
        blocks = {bound.network.block_of(name) for name in own}
        assert blocks == ({None} if index == 0 else {index - 1})
        assert own
        assert stage.requires_grad


def test_gradients_accumulate_and_frozen_parameters_stay_without() -> None:
    model, batch = Branches(), images(8)
    bound = rule("dfa", model, example=batch)
    once = of_rule(bound, model, batch)
    bound.backward(*batch)
    same(gradients(model), {name: 2 * gradient for name, gradient in once.items()})
    model.layers[1].requires_grad_(False)
    later = of_rule(bound, model, batch)
    assert {name for name in once if name not in later} == {n for n in once if n.startswith("layers.1.")}
    same(later, {name: once[name] for name in later})


def test_a_parameter_that_is_thawed_later_learns() -> None:
    model, batch = Branches(), images(8)
    whole = of_rule(rule("dfa", model, example=batch), model, batch)
    model.layers[0].requires_grad_(False)
    bound = rule("dfa", model, example=batch)
    model.layers[0].requires_grad_(True)
    same(of_rule(bound, model, batch), whole)


def test_dropout_and_batchnorm_run_as_in_one_plain_call() -> None:
    model, batch = Tokens().train(), images(6, shape=(7, FEATURES))
    bound = rule("bp", model, example=batch)
    assert model.training
    torch.manual_seed(4)
    expected = of_backward(model, batch)
    torch.manual_seed(4)
    same(of_rule(bound, model, batch), expected)


def test_batchnorm_statistics_move_once_per_step() -> None:
    model, batch = convolutional().train(), images(6, shape=(2, 6, 6))
    twin = convolutional().train()
    bound = rule("dfa", model, example=batch, blocks=["1", "2"])
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), twin.buffers(), strict=True))
    bound.backward(*batch)
    twin(batch.inputs)
    for a, b in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_it_runs_under_autocast() -> None:
    model, batch = Branches(), images(16)
    bound = rule("dfa", model, example=batch)
    exact = of_rule(bound, model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        rough = of_rule(bound, model, batch)
    for name, gradient in rough.items():
        assert gradient.dtype is torch.float32
        assert F.cosine_similarity(gradient.flatten(), exact[name].flatten(), 0) > 0.99, name


class Named(Branches):
    """Takes its input by name, beside a mask."""

    def forward(self, x: Tensor, *, mask: Tensor) -> Any:  # type: ignore[override]
        return {"logits": super().forward(x * mask)}


def test_inputs_in_a_dict_and_logits_in_one() -> None:
    model, batch = Named(), images(6)
    given = Batch({"x": batch.inputs, "mask": torch.ones(FEATURES)}, batch.labels)
    same(of_rule(rule("bp", model, example=given), model, given), of_backward(Branches(), batch))


def test_forward_gradients_belong_to_the_sample_however_its_inputs_are_passed() -> None:
    """Directions are drawn by a hash of the rows of a sample; a mask that all samples share is no part of it."""
    batch, mask = images(6), torch.ones(FEATURES)
    expected = rule("forward_gradient", Branches(), example=batch).signals(batch)
    given = Batch({"x": batch.inputs, "mask": mask}, batch.labels)
    bound = rule("forward_gradient", Named(), example=given)
    for signal, again in zip(bound.signals(given), expected, strict=True):
        torch.testing.assert_close(signal, again)
    part = Batch({"x": batch.inputs[2:5], "mask": mask}, batch.labels[2:5])
    for signal, again in zip(bound.signals(part), expected, strict=True):
        torch.testing.assert_close(signal, again[2:5])
    assert bound.backward(*given).isfinite()
    with pytest.raises(InvalidInput, match="one row for each of the 6 samples"):
        _by_sample({"mask": mask}, 1, [batch.inputs])


def test_a_loss_of_ones_own_may_be_per_sample_or_a_mean() -> None:
    model, batch = Branches(), images(6)

    def each(logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, reduction="none", label_smoothing=0.1)

    def mean(logits: Tensor, labels: Tensor) -> Tensor:
        return each(logits, labels).mean()

    for name in ("bp", "dfa", "fa"):
        bound = rule(name, model, example=batch, loss_fn=each)
        one = of_rule(bound, model, batch)
        same(one, of_rule(bound, model, batch, loss_fn=mean))
    model.zero_grad()
    mean(model(batch.inputs), batch.labels).backward()
    same(of_rule(rule("bp", model, example=batch, loss_fn=mean), model, batch), gradients(model))


def test_controls_give_gradients_to_the_last_blocks_only() -> None:
    model, batch = Branches(depth=3), images(6)
    whole = of_rule(rule("dfa", model, example=batch), model, batch)
    rung = of_rule(rule("dfa", model, example=batch, control="ladder-1"), model, batch)
    assert {name for name in whole if name not in rung} == {n for n in whole if n.startswith(("layers.0", "layers.1"))}
    same(rung, {name: whole[name] for name in rung})
    frozen = of_rule(rule("dfa", model, example=batch, control="frozen"), model, batch)
    assert not any(name.startswith("layers.") for name in frozen)
    with pytest.raises(InvalidInput, match="cannot be removed"):
        rule("dfa", model, example=batch, control="shallow")
    with pytest.raises(InvalidInput, match="rungs 0 to 3"):
        rule("dfa", model, example=batch, control="ladder-7")


def test_the_state_of_a_rule_is_saved_and_put_back() -> None:
    model, batch = Branches(), images(6)
    one, other = rule("dfa", model, example=batch, seed=1), rule("dfa", model, example=batch, seed=2)
    expected = of_rule(one, model, batch)
    other.load_state_dict(one.state_dict())
    same(of_rule(other, model, batch), expected)
    with pytest.raises(InvalidInput, match="that of the rule 'dfa', not of 'bp'"):
        rule("bp", model, example=batch).load_state_dict({**one.state_dict(), "feedback": {}})
    with pytest.raises(InvalidInput, match="does not fit this rule and model: B.0"):
        other.load_state_dict({**one.state_dict(), "feedback": {}})


def test_binding_changes_nothing_and_the_seed_fixes_the_feedback() -> None:
    model, batch = convolutional().train(), images(6, shape=(2, 6, 6))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.random.get_rng_state()
    one = rule("fa", model, example=batch, blocks=["1", "2"], seed=3)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    two = rule("fa", model, example=batch, blocks=["1", "2"], seed=3)
    assert all(torch.equal(one.feedback.tensors[name], two.feedback.tensors[name]) for name in one.feedback.tensors)


def test_audit_and_monitor_take_it_with_fresh_draws() -> None:
    model = Branches()
    given = [(b.inputs, b.labels) for b in (images(64, seed=seed) for seed in (1, 2))]
    bound = rule("dfa", model, example=given[0])
    report = audit(model, given, credit=bound)
    assert len(report.measures["gamma"].per_layer) == 4
    assert report.findings["D6"].value is not None
    assert report.findings["D9"].status == "pass"
    row = creditscope.Monitor(model, given, credit=bound).step(0)
    assert row is not None
    assert len(row.gamma) == 4


def test_the_rule_of_another_network_is_refused() -> None:
    given = [images(64, seed=1)]
    bound = rule("dfa", Branches(), example=given[0])
    with pytest.raises(ModelMismatch, match="bound to another Branches than the audited network"):
        audit(Branches(), given, credit=bound)
    with pytest.raises(ModelMismatch, match="bound to another Branches than the audited network"):
        creditscope.Monitor(Branches(), given, credit=bound)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_blocks_that_share_parameters_are_refused_for_local_rules_only() -> None:
    model, batch = Branches(), images(6)
    model.layers[2][1].weight = model.layers[0][1].weight
    with pytest.raises(ModelMismatch, match=r"use the same parameters: layers.0.1.weight \(block 0, block 2\)"):
        rule("dfa", model, example=batch)
    same(of_rule(rule("bp", model, example=batch), model, batch), of_backward(model, batch))


class Tied(nn.Module):
    """Token numbers in, a logit for each word out of the first token, by the matrix that embedded them."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(CLASSES, WIDTH)
        self.layers = Branches().layers
        self.outlet = nn.Linear(WIDTH, CLASSES)
        self.outlet.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        h = self.words(ids)
        for layer in self.layers:
            h = h + layer(h)
        out: Tensor = self.outlet(h)
        return out


def test_a_tied_weight_learns_where_the_caller_says() -> None:
    model, ids = Tied(), torch.arange(10) % CLASSES
    batch = Batch(ids, ids.roll(1))
    with pytest.raises(ModelMismatch, match='words.weight of Tied serves both.*\n.*tied="embedding" or tied="readout"'):
        rule("dfa", model, example=batch)
    below = of_rule(rule("dfa", model, example=batch, tied="embedding"), model, batch)["words.weight"]
    above = of_rule(rule("dfa", model, example=batch, tied="readout"), model, batch)["words.weight"]
    model.outlet.weight = nn.Parameter(model.words.weight.detach().clone())
    apart = of_rule(rule("dfa", model, example=batch), model, batch)
    torch.testing.assert_close(below, apart["words.weight"])
    torch.testing.assert_close(above, apart["outlet.weight"])


class Silent(Branches):
    def forward(self, x: Tensor) -> Any:
        return str(super().forward(x))


class Idle(Branches):
    def forward(self, x: Tensor) -> Any:
        return {"answer": "yes"}


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"model": Silent()}, ModelMismatch, "returned str, which holds no floating-point tensor.\nWithout logits"),
        ({"model": Idle()}, ModelMismatch, "returned dict, which holds no floating-point tensor.\nWithout logits"),
        ({"example": images(4).inputs}, InvalidInput, r"example is a tensor.*not one batch \(inputs, labels\)"),
        ({"example": (images(4).inputs, [1, 2])}, InvalidInput, "example is a tuple of Tensor, list"),
        ({"example": (images(4).inputs, torch.zeros(0))}, InvalidInput, "there is no sample"),
        ({"example": (torch.zeros(4, 99), torch.zeros(4).long())}, ModelMismatch, "could not run on the example"),
        ({"example": (images(4).inputs, torch.rand(4))}, InvalidInput, r"not class numbers \(N,\)"),
        ({"example": (images(4).inputs, torch.zeros(4, 5).long())}, InvalidInput, r"not class numbers \(N,\)"),
        ({"example": (images(4).inputs, torch.full((4,), 9))}, InvalidInput, "from 9 to 9, but the model has 5 logits"),
        ({"example": (images(4).inputs, torch.zeros(3).long())}, InvalidInput, "for 3 labels"),
        ({"name": "dfaa"}, UnknownName, "Did you mean 'dfa'"),
        ({"normalization": "none"}, UnknownName, "Did you mean 'normalisation'"),
        ({"blocks": "nowhere"}, UnknownName, "nowhere"),
        ({"penalty": -1.0}, InvalidInput, "penalty must be"),
        ({"penalty": "big"}, InvalidInput, "penalty must be a finite number of at least 0, got 'big'"),
        ({"tied": "both"}, InvalidInput, "tied must be 'embedding' or 'readout', got 'both'"),
        ({"loss_fn": "mse"}, InvalidInput, "loss_fn is a str, not a function"),
        ({"control": "iced"}, UnknownName, "Known: none, frozen"),
        ({"loss_fn": lambda logits, labels: 3.0}, InvalidInput, "What loss_fn returned is a float"),
        ({"loss_fn": lambda logits, labels: logits.detach().sum()}, InvalidInput, "is cut from the logits"),
    ],
)
def test_bad_input_is_refused_before_anything_long_runs(change: dict[str, Any], error: type, text: str) -> None:
    given = {"name": "dfa", "model": Branches(), "example": images(4), **change}
    with pytest.raises(error, match=text):
        rule(given.pop("name"), given.pop("model"), **given)


def test_labels_of_another_kind_are_refused_in_every_step() -> None:
    model, batch = Branches(), images(4)
    with pytest.raises(InvalidInput, match="not class numbers"):
        rule("dfa", model, example=batch).backward(batch.inputs, torch.rand(4))


@pytest.mark.parametrize("name", ["bp", "dfa", "fa_weights"])
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda labels: labels.tolist(), "a list of int, int, int, ..., not class numbers"),
        (lambda labels: labels + 9, "but the model has 5 logits"),
        (lambda labels: torch.full_like(labels, -100), "from -100 to -100"),
        (lambda labels: labels[:2], r"shape \(4, 5\) for 2 labels"),
        (lambda labels: labels[:0], "The batch holds no label"),
    ],
)
def test_labels_that_name_no_class_are_refused_in_every_step(
    name: str, change: Callable[[Tensor], Any], text: str
) -> None:
    model, batch = Branches(), images(4)
    bound = rule(name, model, example=batch)
    with pytest.raises(InvalidInput, match=text):
        bound.backward(batch.inputs, change(batch.labels))


def test_inference_mode_is_refused() -> None:
    batch = images(4)
    bound = rule("dfa", Branches(), example=batch)
    with torch.inference_mode(), pytest.raises(InvalidInput, match="inside torch.inference_mode"):
        bound.backward(batch.inputs, batch.labels)


def test_kolen_pollack_takes_the_steps_of_the_loops_own_optimiser() -> None:
    """B - W shrinks by (1 - ηλ) in every step of SGD, whatever the gradients."""
    model, batch = Branches(), images(16)
    with pytest.raises(InvalidInput, match="how the network's weights step"):
        rule("kolen_pollack", model, example=batch).backward(*batch)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5)
    bound = rule("kolen_pollack", model, example=batch, optimizer=optimiser)

    def gap() -> Tensor:
        state = bound.state_dict()["auxiliary"]
        (matrix,) = [tensor for name, tensor in state.items() if tuple(tensor.shape) == (CLASSES, WIDTH)]
        return matrix - model.outlet.weight.detach()

    first = gap()
    for _ in range(4):
        optimiser.zero_grad()
        bound.backward(*batch)
        optimiser.step()
    torch.testing.assert_close(gap(), first * (1 - 0.1 * 0.5) ** 4)


@pytest.mark.parametrize("name", ["fa_weights", "sign_symmetry"])
def test_rules_inside_every_weight_run_under_autocast(name: str) -> None:
    model, batch = Branches(), images(16)
    bound = rule(name, model, example=batch)
    exact = of_rule(bound, model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        rough = of_rule(bound, model, batch)
    for key, gradient in rough.items():
        assert F.cosine_similarity(gradient.flatten(), exact[key].flatten(), 0) > 0.98, key


def test_a_weight_that_is_multiplied_by_hand_is_refused_inside_every_weight() -> None:
    class ByHand(Branches):
        def readout(self, h: Tensor) -> Tensor:
            return torch.addmm(self.outlet.bias, self.norm(h), self.outlet.weight.t())

    with pytest.raises(ModelMismatch, match="is multiplied by addmm"):
        rule("fa_weights", ByHand(), example=images(4))


def test_attention_that_bypasses_its_layers_is_refused_inside_every_weight() -> None:
    with pytest.raises(ModelMismatch, match=r"MultiheadAttention"):
        rule("fa_weights", Tokens(), example=images(4, shape=(7, FEATURES)))
