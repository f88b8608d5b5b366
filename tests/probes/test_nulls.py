"""A null is the same rule by chance, on the same images."""

from __future__ import annotations

from statistics import fmean, stdev

import pytest
import torch
from tests.probes.subjects import backprop, batches, bound, dfa, fa, generator, network, noise, pieces
from torch import nn

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.evidence.alignment import exact_cosines
from creditscope.methods.bp import Backprop
from creditscope.probes.nulls import DRAWS, PERMUTATIONS, label_dependence, null, random_gammas
from creditscope.probes.source import FunctionSource
from creditscope.statistics.layers import deep_mean, z_score
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture
from creditscope.verdict import Missing, Reason


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


def test_credit_without_feedback_has_no_null_and_a_function_is_told_what_to_pass(net):
    function, rule = drawn(net, FunctionSource(backprop(net))), drawn(net, bound(Backprop(), net))
    assert (function.reason, rule.reason) == (Reason.NOT_GIVEN, Reason.NOT_APPLICABLE)
    assert "pass redraw=" in function.text
    assert "no random feedback" in rule.text


def direct(net, generator):
    """DFA as a user writes it: the function, and the same function with other matrices."""
    matrices = [torch.randn(10, 48, generator=generator) for _ in range(4)]

    def credit(batch):
        error = net(batch.inputs).detach().softmax(1) - nn.functional.one_hot(batch.labels, 10)
        return [error @ matrix.to(error) for matrix in matrices]

    return credit


def test_a_function_with_redraw_gets_the_null_of_its_own_draws(net):
    source = FunctionSource(direct(net, generator(3)), redraw=lambda drawn: direct(net, drawn))
    found = drawn(net, source)
    stream = generator()
    again = [slow_gamma(net, FunctionSource(direct(net, stream)), batches(256)) for _ in range(DRAWS)]
    for quick, slow in zip(found.draws, again, strict=True):
        assert quick == pytest.approx(slow, abs=1e-5)
    assert found.own == pytest.approx(slow_gamma(net, source, batches(256)), abs=1e-5)


def test_random_feedback_never_passes_without_a_redraw_and_with_one_only_as_often_as_chance_allows(net):
    """z is Student's t with 19 degrees of freedom times √(21/20): |z| > 3 once in 120 draws."""
    stream, given = find_stream(net), batches(1024)
    scores = []
    for seed in range(20):
        source = FunctionSource(direct(net, generator(100 + seed)), redraw=lambda drawn: direct(net, drawn))
        kept = pieces(net, source, given)
        assert isinstance(null(stream, FunctionSource(source.function), kept, generator()), Missing)
        found = null(stream, source, kept, generator(seed))
        scores.append(z_score(deep_mean(found.own), [deep_mean(draw) for draw in found.draws]))
    assert sum(abs(z) >= 3 for z in scores) <= 1
    assert sum(z >= 3 for z in scores) <= 1
    assert 0.5 < stdev(scores) < 1.7  # and it is a z: its spread is about one


@pytest.mark.parametrize(
    ("redraw", "message"),
    [
        (lambda drawn: [torch.zeros(3)], "redraw returned a list, not a credit function"),
        (lambda drawn: lambda batch: [torch.zeros(len(batch.labels), 3)] * 4, "With fresh feedback the credit has the"),
    ],
)
def test_a_redraw_that_does_not_return_such_a_function_is_refused(net, redraw, message):
    with pytest.raises(InvalidInput, match=message):
        drawn(net, FunctionSource(backprop(net), redraw=redraw))


def dependence(net, source, count=256):
    return label_dependence(find_stream(net), source, pieces(net, source, batches(count)), generator())


def test_label_dependence_is_gamma_of_other_peoples_labels_one_by_one(net):
    source = FunctionSource(backprop(net))
    found, stream, orders = dependence(net, source), find_stream(net), generator()
    cosines = [[[] for _ in range(4)] for _ in range(PERMUTATIONS)]
    for batch in batches(256):
        gradients = capture(stream, batch).gradients
        for permutation in cosines:
            other = batch.labels[torch.randperm(len(batch.labels), generator=orders)]
            for layer, signal in enumerate(backprop(net)(Batch(batch.inputs, other))):
                permutation[layer].append(exact_cosines(signal, gradients[layer]))
    slow = [[torch.cat(layer).mean().item() for layer in permutation] for permutation in cosines]
    for quick, by_hand in zip(found.draws, slow, strict=True):
        assert quick == pytest.approx(by_hand, abs=1e-5)
    assert found.own == pytest.approx([1.0] * 4, abs=1e-6)
    assert max(map(max, found.draws)) < 0.5


def test_credit_that_ignores_the_labels_does_not_depend_on_them(net):
    fixed = torch.randn(48, generator=generator())
    found = dependence(net, FunctionSource(lambda batch: [fixed.expand(len(batch.labels), 48)] * 4))
    assert all(draw == pytest.approx(found.own, abs=1e-7) for draw in found.draws)


def test_images_of_one_class_tell_nothing_about_labels(net):
    source = FunctionSource(backprop(net))
    one = [Batch(batch.inputs, torch.zeros_like(batch.labels)) for batch in batches(256)]
    found = label_dependence(find_stream(net), source, pieces(net, source, one), generator())
    assert "the same label" in found.text


def test_a_random_vector_scores_nothing_on_1024_images(net):
    kept = pieces(net, FunctionSource(noise(net)), batches(1024))
    assert max(map(abs, random_gammas(kept, generator()))) < 0.02
    assert max(map(abs, dependence(net, FunctionSource(noise(net)), 1024).own)) < 0.02


def test_credit_as_small_as_float32_allows_keeps_its_cosine(net):
    whole, tiny = (
        dependence(net, FunctionSource(lambda b, s=scale: [s * a for a in backprop(net)(b)])) for scale in (1.0, 1e-30)
    )
    assert tiny.own == pytest.approx(whole.own, abs=1e-5)


def test_the_same_generator_gives_the_same_null(net):
    assert drawn(net, dfa(net)) == drawn(net, dfa(net))
