"""The reference is compared with itself in float64."""

from __future__ import annotations

import math

import pytest
import torch
from tests.probes.subjects import backprop, batches, images, network, pieces
from torch import nn

from creditscope.probes.precision import precision
from creditscope.stream.find import find_stream
from creditscope.stream.trace import cross_entropy
from creditscope.verdict import Missing


def agreement(net, given):
    return precision(find_stream(net), pieces(net, backprop(net), given), cross_entropy)


@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_float32_keeps_the_direction_of_the_gradient_even_on_an_exploded_stream(scale):
    net = network()
    with torch.no_grad():
        net.embed.weight *= scale
    found = agreement(net, batches(128))
    assert found.dtype == "float32"
    assert min(found.cosines) > 1 - 3e-8


def test_half_precision_loses_a_small_gradient_and_bfloat16_keeps_it():
    worst = {}
    for dtype in (torch.float16, torch.bfloat16):
        net = network()
        with torch.no_grad():
            net.embed.weight *= 3e3
            net.out_head.weight *= 1e-4
        net = net.to(dtype)
        few = images(64)
        worst[dtype] = min(agreement(net, [few._replace(inputs=few.inputs.to(dtype))]).cosines)
    assert worst[torch.float16] < 0.99
    assert worst[torch.bfloat16] > worst[torch.float16]


def test_a_gradient_that_rounding_made_zero_has_lost_its_direction():
    net, (batch,) = network(), batches(8, 8)
    (piece,) = pieces(net, backprop(net), [batch])
    piece.gradients[1].zero_()
    found = precision(find_stream(net), [piece], cross_entropy)
    assert found.cosines[1] == 0.0
    assert found.cosines[0] == pytest.approx(1.0)


def test_images_without_any_gradient_say_nothing():
    net, (batch,) = network(), batches(8, 8)
    with torch.no_grad():
        net.out_head.weight.zero_()
    found = agreement(net, [batch])
    assert all(math.isnan(cosine) for cosine in found.cosines)


class Stubborn(nn.Module):
    def forward(self, x):
        if x.dtype != torch.float32:
            raise TypeError("float32 only")
        return x


def test_a_layer_that_insists_on_its_precision_is_named_as_the_reason():
    net = network()
    net.out_ln = nn.Sequential(net.out_ln, Stubborn())
    found = agreement(net, batches(16, 16))
    assert isinstance(found, Missing)
    assert "float32 only" in found.text
    assert {p.dtype for p in net.parameters()} == {torch.float32}


def test_a_gradient_that_overflowed_has_lost_its_direction():
    from creditscope.probes.precision import _agreement

    wide = torch.ones(4, 3, dtype=torch.float64)
    own = wide.half().clone()
    own[:3] = math.inf
    assert _agreement(own, wide).tolist() == [0.0, 0.0, 0.0, pytest.approx(1.0)]
