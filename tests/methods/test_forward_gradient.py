"""Forward gradients: unbiased, as noisy as predicted, and without a backward pass."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from tests.methods.conftest import images, small

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods.adapted import adapted
from creditscope.methods.forward_gradient import ForwardGradient, estimate
from creditscope.methods.local import forward_in_pieces
from creditscope.methods.rule import EVERYTHING, Feedback, Moment
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture


def drawn(shape: torch.Size, count: int, seed: int) -> torch.Tensor:
    return torch.randn((count, *shape), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_estimate_is_the_slope_along_each_direction_times_the_direction(
    network: StagedNetwork, batch: Batch
) -> None:
    """mean over K of ⟨g_l, v⟩ v, with the g_l of backprop."""
    seen = forward_in_pieces(network, batch, EVERYTHING)
    directions = [drawn(state.shape, 3, 10 + layer) for layer, state in enumerate(seen.hiddens)]
    gradients = capture(find_stream(network), batch).gradients
    for found, v, g in zip(estimate(network, seen, directions), directions, gradients, strict=True):
        expected = torch.zeros_like(found)
        for k in range(3):
            for sample in range(len(found)):
                expected[sample] += (v[k, sample] * g[sample]).sum() * v[k, sample] / 3
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", ["resmlp", "vit_mini"])
def test_through_the_hooks_of_any_model_it_is_the_same_estimate(name: str, batch: Batch) -> None:
    own = small(name)
    other = adapted(own, batch.inputs, blocks="blocks")
    assert other.own is not other
    expected, found = (
        ForwardGradient(draws=2).signals(network, Feedback(), forward_in_pieces(network, batch, EVERYTHING))
        for network in (own, other)
    )
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two)


def test_no_backward_pass_is_run(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    network = small("resmlp")
    seen = forward_in_pieces(network, batch, EVERYTHING)
    expected = ForwardGradient().signals(network, Feedback(), seen)

    def refused(*args: object, **kwargs: object) -> None:
        raise AssertionError("a backward pass")

    monkeypatch.setattr(torch.autograd, "grad", refused)
    monkeypatch.setattr(torch.autograd, "backward", refused)
    monkeypatch.setattr(torch.Tensor, "backward", refused)
    with torch.no_grad():
        found = ForwardGradient().signals(network, Feedback(), seen)
    assert all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))


def learnt(rule: ForwardGradient, network: StagedNetwork, batch: Batch, generator: torch.Generator) -> Credit:
    return rule.learn(network, Feedback(), batch, Moment(0.5, generator))


@pytest.mark.parametrize("asked", ["learn", "credit"])
def test_it_is_unbiased(batch: Batch, asked: str) -> None:
    """Over 4,000 draws of the rule itself the mean is g, with z-scores of N(0, 1); ⟨g, v⟩ v_j varies by ‖g‖² + g_j²."""
    network, draws = small("mlp"), 4000
    rule, generator = ForwardGradient(draws=draws), torch.Generator().manual_seed(20)
    found = learnt(rule, network, batch, generator) if asked == "learn" else rule.credit(network, Feedback(), batch)
    for mean, g in zip(found.signals, capture(find_stream(network), batch).gradients, strict=True):
        error = ((g.square().sum(1, keepdim=True) + g.square()) / draws).sqrt()
        z = (mean - g) / error
        assert z.abs().max() < 5
        assert z.square().mean().item() == pytest.approx(1, abs=5 * math.sqrt(2 / z.numel()))


def test_a_step_draws_for_every_sample_and_state_and_the_next_step_again() -> None:
    """The credit of one draw lies along its direction."""
    network, rule, generator = small("resmlp"), ForwardGradient(), torch.Generator().manual_seed(20)
    same = Batch(images(1, 1).expand(4, -1, -1, -1), torch.zeros(4, dtype=torch.long))  # one sample, four times
    steps = [torch.stack(learnt(rule, network, same, generator).signals) for _ in range(2)]
    directions = torch.stack(steps).flatten(0, 2)  # two steps of four states of four samples
    cosines = F.cosine_similarity(directions[:, None], directions[None], dim=-1).abs()
    assert len(directions) == 32
    assert (cosines - torch.eye(32)).max() < 0.99


@pytest.mark.parametrize("draws", [16, 64])
@pytest.mark.parametrize("width", [32, 128])
def test_its_cosine_to_the_gradient_is_the_predicted_one(draws: int, width: int) -> None:
    """E cos ≈ √(K/(K + d + 1)), within 5 % for K >= 16."""
    network = build("mlp", 20, 4, 0, widths=(width,), depth=2, activation="tanh").double()
    inputs = drawn(torch.Size((20,)), 400, 1)
    batch, rule = Batch(inputs, torch.arange(400) % 4), ForwardGradient(draws=draws)
    signals = rule.credit(network, Feedback(), batch).signals
    for signal, g in zip(signals, capture(find_stream(network), batch).gradients, strict=True):
        cosine = F.cosine_similarity(signal, g).mean().item()
        assert cosine == pytest.approx(rule.noise_cosine(width), rel=0.05)


def test_a_sample_has_the_same_credit_in_any_batch_and_another_sample_another(batch: Batch) -> None:
    network, rule = small("student_net"), ForwardGradient()
    whole = rule.credit(network, Feedback(), batch).signals[1]
    part = rule.credit(network, Feedback(), Batch(batch.inputs[2:4], batch.labels[2:4])).signals[1]
    torch.testing.assert_close(part, whole[2:4])
    assert F.cosine_similarity(whole[0], whole[1], 0).abs() < 0.99


@pytest.mark.parametrize("draws", [0, -1])
def test_no_draw_is_refused(draws: int) -> None:
    with pytest.raises(InvalidInput, match="draws must be a whole number of at least 1"):
        ForwardGradient(draws=draws)


def test_another_loss_is_refused(batch: Batch) -> None:
    network = small("resmlp")
    network.loss_fn = lambda logits, labels: F.cross_entropy(logits, labels, reduction="none")
    with pytest.raises(InvalidInput, match="not another loss_fn"):
        ForwardGradient().credit(network, Feedback(), batch)
