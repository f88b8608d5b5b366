"""A small step against the gradient lowers the loss, and the formula is what it says."""

from __future__ import annotations

import torch
from tests.probes.subjects import backprop, batches, network, pieces

from creditscope.probes.interventions import NUDGE, nudge
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture, cross_entropy, losses_at


def test_a_nudge_is_the_change_of_the_loss_after_the_step():
    net, (batch,) = network(), batches(6, 6)
    stream, (piece,) = find_stream(net), pieces(net, backprop(net), [batch])
    trace = capture(stream, batch)
    for layer, (h, a) in enumerate(zip(trace.hiddens, trace.gradients, strict=True)):
        rms = [vectors.square().mean(1, keepdim=True).sqrt() for vectors in (h, a)]
        for absolute, scale in ((False, rms[0]), (True, 1.0)):
            slow = losses_at(stream, batch, {layer: -NUDGE * scale * a / rms[1]}) - trace.losses
            found = nudge(stream, piece, trace, layer, absolute=absolute, loss_fn=cross_entropy)
            assert torch.allclose(found, slow.double(), atol=1e-5)
            assert (found < 0).all()


def test_the_size_of_the_credit_does_not_matter_but_its_sign_does():
    net, (batch,) = network(), batches(6, 6)
    stream, trace = find_stream(net), capture(find_stream(net), batch)
    changes = {}
    for scale in (1.0, 1e-20, -1.0):
        (piece,) = pieces(net, lambda b, scale=scale: [scale * a for a in backprop(net)(b)], [batch])
        changes[scale] = nudge(stream, piece, trace, 1, absolute=False, loss_fn=cross_entropy)
    assert torch.allclose(changes[1.0], changes[1e-20], atol=1e-6)
    assert (changes[-1.0] > 0).all()


def test_an_image_without_credit_has_no_nudge():
    net, (batch,) = network(), batches(6, 6)

    def silent_for_one(given):
        signals = backprop(net)(given)
        for signal in signals:
            signal[2] = 0.0
        return signals

    (piece,) = pieces(net, silent_for_one, [batch])
    stream = find_stream(net)
    found = nudge(stream, piece, capture(stream, batch), 1, absolute=False, loss_fn=cross_entropy)
    assert found.isnan().tolist() == [False, False, True, False, False, False]
