"""A null is the same rule by chance, on the same images."""

from __future__ import annotations

from statistics import fmean, stdev

import pytest
import torch
from tests.probes.subjects import backprop, batches, dfa, fa, generator, network, noise, pieces

from creditscope.evidence.alignment import exact_cosines
from creditscope.probes.nulls import DRAWS, null
from creditscope.probes.source import FunctionSource
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture


@pytest.fixture(scope="module")
def net():
    return network()


def drawn(net, source, count=256):
    return null(find_stream(net), source, pieces(net, source, batches(count)), generator())


def slow_gamma(net, source, given):
    """Γ per layer, one draw, one batch after the other."""
    stream = find_stream(net)
    rows = [
        [exact_cosines(a, g) for a, g in zip(source.signals(batch), capture(stream, batch).gradients, strict=True)]
        for batch in given
    ]
    return [torch.cat(layer).mean().item() for layer in zip(*rows, strict=True)]


@pytest.mark.parametrize("rule", [dfa, fa])
def test_fresh_feedback_drawn_in_one_pass_is_fresh_feedback_drawn_one_by_one(net, rule):
    source = rule(net)
    found = drawn(net, source)
    stream, again = generator(), []
    for _ in range(DRAWS):
        again.append(slow_gamma(net, source.redrawn(stream), batches(256)))
    assert found.kind == "fresh feedback"
    assert len(found.draws) == DRAWS
    for quick, slow in zip(found.draws, again, strict=True):
        assert quick == pytest.approx(slow, abs=1e-5)
    assert found.own == pytest.approx(slow_gamma(net, source, batches(256)), abs=1e-5)
    assert found.images == 256


def test_fresh_feedback_points_nowhere_and_the_exact_layer_stays_exact(net):
    found = drawn(net, fa(net))
    by_layer = list(zip(*found.draws, strict=True))
    assert by_layer[-1] == pytest.approx([1.0] * DRAWS)
    for layer in by_layer[:-1]:
        assert abs(fmean(layer)) < 4 * stdev(layer) / DRAWS**0.5
        assert stdev(layer) < 0.1


def test_a_rule_without_feedback_is_compared_with_other_peoples_labels(net):
    found = drawn(net, FunctionSource(backprop(net)), 1024)
    assert found.kind == "shuffled labels"
    assert found.own == pytest.approx([1.0] * 4, abs=1e-6)
    assert max(max(draw) for draw in found.draws) < 0.5
    assert len(set(found.draws)) == DRAWS


def test_a_random_vector_scores_nothing_on_1024_images(net):
    found = drawn(net, FunctionSource(noise(net)), 1024)
    assert max(map(abs, found.random)) < 0.02
    assert max(map(abs, found.own)) < 0.02


def test_credit_as_small_as_float32_allows_keeps_its_cosine(net):
    whole, tiny = (
        drawn(net, FunctionSource(lambda b, s=scale: [s * a for a in backprop(net)(b)])) for scale in (1.0, 1e-30)
    )
    assert tiny.own == pytest.approx(whole.own, abs=1e-5)


def test_the_same_generator_gives_the_same_null(net):
    assert drawn(net, dfa(net)) == drawn(net, dfa(net))
