"""ρ correlates what credit foretells with what the loss does."""

from __future__ import annotations

import math

import pytest
import torch
from tests.probes.subjects import backprop, batches, generator, network, noise, pieces

from creditscope.probes.images import losses_from
from creditscope.probes.interventions import intervene
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture, cross_entropy, losses_at


@pytest.fixture(scope="module")
def net():
    return network()


def scores(net, credit, count=1024):
    return intervene(find_stream(net), pieces(net, credit, batches(count)), cross_entropy, generator())


def test_the_gradient_foretells_the_loss_and_a_random_vector_does_not(net):
    true, random = scores(net, backprop(net)), scores(net, noise(net))
    assert min(true.rho) > 0.99
    assert true.rho == pytest.approx(true.rho_bp)
    assert max(map(abs, random.rho)) < 0.02
    assert random.rho_bp == pytest.approx(true.rho, abs=1e-3)


def test_the_opposite_of_the_gradient_scores_minus_one_and_its_size_does_not_matter(net):
    shrunk = scores(net, lambda batch: [-1e-20 * a for a in backprop(net)(batch)], 128)
    assert max(shrunk.rho) < -0.99


def test_zero_credit_has_no_correlation(net):
    found = scores(net, lambda batch: [0 * a for a in backprop(net)(batch)], 128)
    assert all(math.isnan(rho) for rho in (*found.rho, *found.rho_absolute, *found.nudge))
    assert min(found.rho_bp) > 0.99


def test_an_absolute_step_on_a_large_stream_drowns_in_rounding_while_a_relative_one_does_not():
    net = network()
    with torch.no_grad():
        net.embed.weight *= 1e7
        net.embed.bias *= 1e7
    found = scores(net, backprop(net), 256)
    assert min(found.rho) > 0.99
    assert all(math.isnan(rho) or abs(rho) < 0.5 for rho in found.rho_absolute_bp)


def test_losses_are_in_float64_where_rounding_would_show_and_the_model_comes_back_in_its_own(net):
    def lifted(logits, labels):
        return torch.nn.functional.cross_entropy(logits, labels, reduction="none") + 1e4

    assert scores(net, backprop(net), 64).precision == "float64"
    assert "own precision (float64 moves no ρ of 64 images by 0.001)" in scores(net, backprop(net), 128).precision
    rounded = intervene(find_stream(net), pieces(net, backprop(net), batches(128)), lifted, generator())
    assert rounded.precision == "float64"
    assert min(rounded.rho) > 0.99 > 0.9 > max(rounded.rho_absolute)
    assert {p.dtype for p in net.parameters()} == {torch.float32}


def test_few_directions_are_drawn_where_they_suffice_and_the_most_where_they_do_not(net):
    found = scores(net, noise(net), 128)
    assert set(found.directions) == {4}
    assert found.error < 0.01
    assert set(scores(net, noise(net), 32).directions) == {32}


def test_running_on_from_a_state_is_the_whole_run_with_a_shift(net):
    stream, batch = find_stream(net), batches(5, 5)[0]
    trace = capture(stream, batch)
    for layer in range(4):
        moves = 0.1 * torch.randn(2, 5, 48, generator=generator(layer))
        onward = losses_from(stream, batch, layer, trace.hiddens[layer], moves, cross_entropy)
        whole = torch.stack([losses_at(stream, batch, {layer: move}) for move in moves])
        assert torch.allclose(onward, whole, atol=1e-5)


@pytest.mark.parametrize("read", ["first", "mean", "all", 2])
@pytest.mark.parametrize("shape", [(3, 5, 4), (3, 4, 2, 2)])
def test_a_widened_change_does_to_the_loss_what_the_vectors_say(net, read, shape):
    """⟨g, widened(v)⟩ over all positions is ⟨vectors(g), v⟩: the reading of gradients is its transpose."""
    reading = find_stream(net, read=read).reading
    gradient = torch.randn(shape, generator=generator())
    vectors = torch.randn(reading.vectors(gradient).shape, generator=generator())
    change = reading.widened(vectors, gradient)
    assert change.shape == gradient.shape
    assert (change * gradient).sum().item() == pytest.approx(
        (reading.vectors(gradient) * vectors).sum().item(), rel=1e-5
    )


@pytest.mark.parametrize(("name", "shape"), [("vit_mini", (3, 8, 8)), ("small_cnn", (3, 8, 8))])
def test_tokens_and_channels_are_moved_where_they_are_read(name, shape):
    net = network(name, shape)
    found = intervene(find_stream(net), pieces(net, backprop(net), batches(6, 6, shape)), cross_entropy, generator())
    assert min(found.rho) > 0.99
    assert max(found.nudge) < 0
