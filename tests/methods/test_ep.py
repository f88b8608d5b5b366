"""EP: nudged states settle, and what remains of their prediction errors is the gradient."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.methods.conftest import SHAPE, images, small
from tests.methods.twins import local_gradients
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.evidence.alignment import exact_cosines
from creditscope.methods.bp import Backprop
from creditscope.methods.ep import EquilibriumPropagation
from creditscope.methods.local import forward_in_pieces
from creditscope.methods.relaxation import Schedule, nudged_loss, relax
from creditscope.methods.rule import EVERYTHING, Diverged, Feedback, Moment
from creditscope.methods.wrappers import Frozen
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.networks.vit_mini import VisionTransformer
from creditscope.runs.run import train
from creditscope.runs.spec import RunSpec
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture

NOTHING = Feedback()


def nudged_energy(network: StagedNetwork, states: list[Tensor], x: Tensor, label: int, beta: float) -> Tensor:
    """E + βℓ of one sample, term by term."""
    energy = ((states[0] - network.embedding(x).detach()) ** 2).sum() / 2
    for block in range(network.depth):
        predicted = network.merge(block, states[block], network.branch(block, states[block]))
        energy = energy + ((states[block + 1] - predicted) ** 2).sum() / 2
    return energy - beta * torch.log_softmax(network.readout(states[-1]), 1)[0, label]


def slow_errors(
    network: StagedNetwork, x: Tensor, label: int, beta: float, steps: int, size: float
) -> tuple[list[Tensor], int]:
    """One sample: steps down the whole energy; one that raised it is taken back, and the next is half as long."""
    states = [state.detach() for state in network.states(x)]
    rejected = 0
    for _ in range(steps):
        leaves = [state.requires_grad_() for state in states]
        before = nudged_energy(network, leaves, x, label, beta)
        slopes = torch.autograd.grad(before, leaves)
        tried = [(state - size * slope).detach() for state, slope in zip(leaves, slopes, strict=True)]
        if nudged_energy(network, tried, x, label, beta) > before + 1e-13:
            size, rejected = size / 2, rejected + 1
        else:
            states = tried
        states = [state.detach() for state in states]
    errors = [states[0] - network.embedding(x)]
    for block in range(network.depth):
        errors.append(states[block + 1] - network.merge(block, states[block], network.branch(block, states[block])))
    return [error.detach() for error in errors], rejected


@pytest.mark.parametrize("step_size", [0.1, 0.9])
@pytest.mark.parametrize("two_sided", [False, True])
def test_credit_and_updates_agree_with_a_relaxation_sample_by_sample(
    network: StagedNetwork, batch: Batch, step_size: float, two_sided: bool
) -> None:
    rule = EquilibriumPropagation(beta=0.2, steps=9, step_size=step_size, two_sided=two_sided)
    credit = rule.credit(network, NOTHING, batch)
    sides = [0.2, -0.2] if two_sided else [0.2]
    slow = [
        [slow_errors(network, batch.inputs[i : i + 1], label, beta, 9, step_size) for beta in sides]
        for i, label in enumerate(batch.labels.tolist())
    ]
    signals = [
        [-sum(s * errors[layer][0] for s, (errors, _) in zip((1, -1), sample, strict=False)) / sum(map(abs, sides))
         for sample in slow]
        for layer in range(network.depth + 1)
    ]  # fmt: skip
    for found, expected in zip(credit.signals, signals, strict=True):
        torch.testing.assert_close(found, torch.stack(expected), rtol=1e-9, atol=1e-12)
    taken_back = [count for sample in slow for _, count in sample]
    assert credit.auxiliary["rejected"].item() == pytest.approx(sum(taken_back) / (9 * len(taken_back)))
    for name, gradient in local_gradients(network, batch, signals, 0.0, "none").items():
        if name in credit.gradients:
            torch.testing.assert_close(credit.gradients[name], gradient, rtol=1e-8, atol=1e-11)


def settled_error(
    network: StagedNetwork, batch: Batch, betas: Tensor, schedule: Schedule, two_sided: bool
) -> list[float]:
    """‖a - g‖/‖g‖ over all states, for each β; all β relax side by side, as samples of one batch."""
    many = Batch(batch.inputs.repeat(len(betas), *[1] * len(SHAPE)), batch.labels.repeat(len(betas)))
    beta = betas.repeat_interleave(len(batch.labels))
    states = tuple(state.detach() for state in network.states(many.inputs))
    signs = (1.0, -1.0) if two_sided else (1.0,)
    sides = [relax(network, states, many.labels, sign * beta, schedule).errors for sign in signs]
    credit = [-sum(s * e for s, e in zip(signs, es, strict=True)) / len(signs) for es in zip(*sides, strict=True)]
    gradients = capture(find_stream(network), many).gradients
    missed = [(a.flatten(1) / beta[:, None] - g.flatten(1)) for a, g in zip(credit, gradients, strict=True)]
    totals = torch.cat(missed, 1).square().view(len(betas), -1).sum(1).sqrt()
    return (totals / torch.cat([g.flatten(1) for g in gradients], 1)[: len(batch.labels)].norm()).tolist()


def slope(betas: Tensor, errors: list[float]) -> float:
    """Of log error against log β, by least squares."""
    x, y = betas.log(), torch.tensor(errors, dtype=torch.float64).log()
    return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())


@pytest.mark.parametrize(
    ("depth", "steps"), [(2, 700), pytest.param(4, 3000, marks=pytest.mark.slow)], ids=["two blocks", "four blocks"]
)
@pytest.mark.parametrize(("two_sided", "order"), [(False, 1), (True, 2)], ids=["one-sided", "two-sided"])
def test_credit_converges_to_the_gradient_with_beta_at_its_order(
    batch: Batch, depth: int, steps: int, two_sided: bool, order: int
) -> None:
    network = build("resmlp", SHAPE, 4, 5, d=12, depth=depth).double().eval()
    betas = torch.tensor([1e-1, 3e-2, 1e-2, 3e-3, 1e-3], dtype=torch.float64)
    errors = settled_error(network, batch, betas, Schedule(steps, 0.3), two_sided)
    assert slope(betas, errors) == pytest.approx(order, abs=0.1)


def test_settled_credit_points_along_the_gradient_at_every_layer(batch: Batch) -> None:
    network = build("resmlp", SHAPE, 4, 5, d=12, depth=4).double().eval()
    signals = EquilibriumPropagation(steps=100).credit(network, NOTHING, batch).signals
    for found, gradient in zip(signals, capture(find_stream(network), batch).gradients, strict=True):
        assert exact_cosines(found, gradient).min() > 0.99


@pytest.mark.slow
def test_settled_updates_are_those_of_backprop(network: StagedNetwork, batch: Batch) -> None:
    if isinstance(network, VisionTransformer):  # its class token starts so small that LayerNorm's slope there is steep
        with torch.no_grad():
            network.cls_token.mul_(50)
            network.pos_embed.mul_(50)
    rule = EquilibriumPropagation(beta=1e-3, steps=1000, step_size=0.2, two_sided=True)
    credit, truth = rule.credit(network, NOTHING, batch), Backprop().credit(network, NOTHING, batch)
    assert credit.gradients.keys() == truth.gradients.keys()
    for name, gradient in truth.gradients.items():
        assert (credit.gradients[name] - gradient).norm() < 1e-4 * gradient.norm(), name


def test_the_nudged_loss_is_cross_entropy_with_its_digits_kept(batch: Batch) -> None:
    network = small("resmlp")
    state = network.states(batch.inputs)[-1].detach()
    losses, gradient = nudged_loss(network, state, batch.labels, torch.full((5,), 3.0, dtype=torch.float64))
    torch.testing.assert_close(losses, F.cross_entropy(network(batch.inputs), batch.labels, reduction="none").detach())
    torch.testing.assert_close(gradient, 3 * capture(find_stream(network), batch).gradients[-1])


class TwoLogits(StagedNetwork):
    """A network whose logits are its input: the loss can be set at will."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(2, 2), nn.Linear(2, 2)
        self.blocks = nn.ModuleList()
        for layer in (self.embed, self.head):
            nn.init.eye_(layer.weight)
            nn.init.zeros_(layer.bias)

    def embedding(self, inputs: Tensor) -> Tensor:
        return self.embed(inputs)

    def readout(self, state: Tensor) -> Tensor:
        return self.head(state)


def test_a_tiny_loss_keeps_its_digits_in_float32() -> None:
    network = TwoLogits()
    losses, _ = nudged_loss(network, torch.tensor([[25.0, 0.0]]), torch.tensor([0]), torch.ones(1))
    assert losses.item() == pytest.approx(math.log1p(math.exp(-25)), rel=1e-5)
    assert F.cross_entropy(torch.tensor([[25.0, 0.0]]), torch.tensor([0])).item() == 0


def test_a_saturated_sample_has_no_credit_and_disturbs_no_other() -> None:
    network, rule = TwoLogits(), EquilibriumPropagation()
    mixed = rule.credit(network, NOTHING, Batch(torch.tensor([[300.0, 0.0], [0.3, 0.0]]), torch.tensor([0, 0])))
    alone = rule.credit(network, NOTHING, Batch(torch.tensor([[0.3, 0.0]]), torch.tensor([0])))
    assert torch.equal(mixed.signals[0][0], torch.zeros(2))
    torch.testing.assert_close(mixed.signals[0][1:], alone.signals[0])


@pytest.mark.parametrize("guard", [True, False])
def test_the_guard_never_lets_a_sample_end_above_its_start(network: StagedNetwork, batch: Batch, guard: bool) -> None:
    states = tuple(state.detach() for state in network.states(batch.inputs))
    beta = torch.full((5,), 0.5, dtype=torch.float64)
    settled = relax(network, states, batch.labels, beta, Schedule(25, 3.0, guard))
    start = beta * F.cross_entropy(network(batch.inputs), batch.labels, reduction="none")
    assert bool((settled.objective <= start).all()) is guard
    assert (settled.rejected.item() > 0) is guard


def test_samples_settle_independently_of_each_other(network: StagedNetwork, batch: Batch) -> None:
    rule = EquilibriumPropagation(step_size=0.8)
    together = rule.credit(network, NOTHING, batch).signals
    order = torch.tensor([4, 2, 0])
    apart = rule.credit(network, NOTHING, Batch(batch.inputs[order], batch.labels[order])).signals
    for all_of_them, some in zip(together, apart, strict=True):
        torch.testing.assert_close(all_of_them[order], some, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["small_cnn", "small_resnet"])
def test_batchnorm_keeps_the_statistics_of_the_free_phase(name: str) -> None:
    network, batch = small(name).train(), Batch(images(3, 12), torch.arange(12) % 4)
    once, held = copy.deepcopy(network), copy.deepcopy(network)
    for layer in held.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0  # the running statistics become those of the batch
    free = held.states(batch.inputs)
    once.states(batch.inputs)
    sizes = {n: layer.training for n, layer in network.named_modules()}
    rule = EquilibriumPropagation(steps=8)
    signals = rule.credit(network, NOTHING, batch).signals
    assert {n: layer.training for n, layer in network.named_modules()} == sizes
    for key, value in once.state_dict().items():
        assert torch.equal(network.state_dict()[key], value), key  # moved by one forward pass, not by eight
    for layer in held.modules():
        if isinstance(layer, nn.BatchNorm2d):  # the running variance is the unbiased one; a forward pass uses the other
            assert layer.running_var is not None
            layer.running_var *= 1 - 1 / positions(layer, held, batch)
    expected = rule.credit(held.eval(), NOTHING, batch).signals
    torch.testing.assert_close(held.states(batch.inputs)[-1], free[-1])
    for found, wanted in zip(signals, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-10)


def positions(layer: nn.BatchNorm2d, network: StagedNetwork, batch: Batch) -> int:
    """How many numbers a channel's statistics are made of."""
    counts: list[int] = []
    hook = layer.register_forward_pre_hook(lambda _, inputs: counts.append(inputs[0].numel() // inputs[0].shape[1]))
    with torch.no_grad():
        copy_of_modes = network.training
        network.eval()(batch.inputs)
        network.train(copy_of_modes)
    hook.remove()
    return counts[0]


@pytest.mark.parametrize(("share", "stops"), [(0.501, True), (0.499, False)])
def test_a_run_stops_when_more_than_half_of_its_steps_were_taken_back(share: float, stops: bool) -> None:
    objection = EquilibriumPropagation(step_size=7.0).objection({"rejected": share})
    assert (objection is not None) is stops
    if objection:
        assert "took back 50%" in objection
        assert "step_size = 7" in objection


def test_a_relaxation_that_diverges_touches_no_weight(batch: Batch) -> None:
    network = small("resmlp")
    rule = EquilibriumPropagation(step_size=1e30, guard=False, steps=30)
    with pytest.raises(Diverged, match=r"E \+ βℓ was"):
        rule.learn(network, NOTHING, batch, Moment(0.0, torch.Generator()))


def test_a_diverging_run_ends_with_a_clear_record_and_finite_weights() -> None:
    options: dict[str, Any] = {"guard": False, "step_size": 100.0}
    spec = RunSpec(method="ep", method_options=options, network_options={"d": 16, "depth": 2}, epochs=2)
    checkpoint = train(spec)
    assert checkpoint.record.diverged is not None
    assert (checkpoint.record.diverged.epoch, checkpoint.record.diverged.step) == (0, 0)
    assert "E + βℓ" in checkpoint.record.diverged.why
    assert all(bool(tensor.isfinite().all()) for tensor in checkpoint.network.state_dict().values())


def test_the_frozen_twin_trains_embedding_and_readout_by_the_same_credit(batch: Batch) -> None:
    network, rule = small("resmlp"), EquilibriumPropagation()
    whole, frozen = rule.credit(network, NOTHING, batch), Frozen(rule).credit(network, NOTHING, batch)
    assert {name.split(".")[0] for name in frozen.gradients} == {"embed", "out_ln", "out_head"}
    for name, gradient in frozen.gradients.items():
        assert torch.equal(gradient, whole.gradients[name])
    for one, other in zip(frozen.signals, whole.signals, strict=True):
        assert torch.equal(one, other)


def test_nudges_are_a_share_of_the_state_over_the_slope(batch: Batch) -> None:
    network = small("resmlp")
    seen = forward_in_pieces(network, batch, EVERYTHING)
    beta = EquilibriumPropagation(kappa=0.05).nudge(network, seen)
    gradient = capture(find_stream(network), batch).gradients[-1]
    torch.testing.assert_close(beta, 0.05 * seen.hiddens[-1].norm(dim=1) / gradient.norm(dim=1))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"kappa": 0.0}, "kappa must be a positive number, got 0.0"),
        ({"kappa": math.nan}, "kappa must be a positive number, got nan"),
        ({"step_size": -0.1}, "step_size must be a positive number, got -0.1"),
        ({"beta": -1.0}, "beta must be a finite number of at least 0, got -1.0"),
        ({"normalisation": "half"}, "normalisation must be .*, got 'half'"),
        ({"updates_at": "both"}, "updates_at must be 'free' or 'nudged', got 'both'"),
        ({"updates_at": "nudged", "two_sided": True}, "given together with two_sided"),
    ],
)
def test_options_under_which_nothing_settles_are_refused(options: dict[str, Any], found: str) -> None:
    with pytest.raises(InvalidInput, match=found):
        EquilibriumPropagation(**options)


def test_a_relaxation_too_short_to_reach_the_first_state_is_refused(batch: Batch, generator: torch.Generator) -> None:
    network = small("resmlp", depth=3)
    EquilibriumPropagation(steps=4).feedback(network, batch, generator)
    with pytest.raises(InvalidInput, match="steps must be at least 4 for 3 blocks"):
        EquilibriumPropagation(steps=3).feedback(network, batch, generator)
    reached = EquilibriumPropagation(steps=4).credit(network, NOTHING, batch).signals[0]
    missed = EquilibriumPropagation(steps=3).credit(network, NOTHING, batch).signals[0]
    assert reached.norm() > 0
    assert missed.norm() == 0
    EquilibriumPropagation(steps=1, too_short=True).feedback(network, batch, generator)
    *below, top = EquilibriumPropagation(steps=1, step_size=0.5, too_short=True).credit(network, NOTHING, batch).signals
    assert all(signal.norm() == 0 for signal in below)  # one step moves h_L alone: a_L = step size · g_L
    torch.testing.assert_close(top, 0.5 * capture(find_stream(network), batch).gradients[-1])


def test_updates_at_the_nudged_states_descend_the_energy_there(batch: Batch) -> None:
    network, beta = small("resmlp"), 0.2
    rule = EquilibriumPropagation(beta=beta, steps=9, step_size=0.1, guard=False, updates_at="nudged")
    found, free = rule.credit(network, NOTHING, batch), replace(rule, updates_at="free").credit(network, NOTHING, batch)
    states = tuple(state.detach() for state in network.states(batch.inputs))
    nudge = torch.full((5,), beta, dtype=torch.float64)
    settled = relax(network, states, batch.labels, nudge, Schedule(9, 0.1, guard=False)).states
    errors = [h - predicted for h, predicted in zip(settled[1:], network.stages_at(settled[:-1]), strict=True)]
    energy = sum((error**2).sum() for error in errors) / 2 / beta / len(batch.labels)
    names = [name for name, _ in network.named_parameters() if name.startswith("blocks")]
    expected = torch.autograd.grad(energy, [network.get_parameter(name) for name in names])
    for name, gradient in zip(names, expected, strict=True):
        torch.testing.assert_close(found.gradients[name], gradient, rtol=1e-8, atol=1e-12)
    assert not torch.equal(found.gradients["blocks.0.w1.weight"], free.gradients["blocks.0.w1.weight"])
    for name in free.gradients.keys() - set(names):
        assert torch.equal(found.gradients[name], free.gradients[name])


@pytest.mark.slow
def test_without_the_guard_a_long_step_wrecks_training_and_with_it_it_does_not() -> None:
    guarded, plain = (
        train(
            RunSpec(
                method="ep",
                method_options={"step_size": 0.3, "guard": guard},
                network_options={"d": 64},
                epochs=6,
            )
        ).record.history
        for guard in (True, False)
    )
    assert guarded[-1].accuracy > plain[-1].accuracy + 0.1
    assert guarded[-1].accuracy == max(row.accuracy for row in guarded)
    assert plain[-1].accuracy < max(row.accuracy for row in plain)
