"""Drift is the relative distance from the initial weights, stage by stage."""

from __future__ import annotations

import pytest
import torch
from tests.probes.subjects import batches, network

from creditscope import audit
from creditscope.errors import InvalidInput
from creditscope.probes.weight_drift import weight_drift


def grown(**factors: float):
    """A network whose stages were multiplied, and the network before."""
    net, before = network(), network()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            for part, factor in factors.items():
                if name.startswith(part.replace("_", ".", 1) if part.startswith("blocks") else part):
                    parameter *= factor
    return net, before


def test_every_stage_drifts_by_its_own_factor():
    net, before = grown(embed=3.0, blocks_1=1.5, out=0.5)
    found = weight_drift(net, before, list(net.blocks))
    assert found == pytest.approx([2.0, 0.0, 0.5, 0.0, 0.5])
    assert weight_drift(net, before.state_dict(), list(net.blocks)) == found


def test_an_audit_puts_the_drift_beside_the_states_that_the_stages_make():
    net, before = grown(blocks_2=2.0, out=1.25)
    measure = audit(net, batches(256), initial=before).measures["weight_drift"]
    assert measure.per_layer == pytest.approx((0.0, 0.0, 0.0, 1.0))
    assert measure.value == pytest.approx(1 / 3)
    assert "read-out 0.25" in measure.note


def test_weights_of_another_network_are_refused():
    net = network()
    with pytest.raises(InvalidInput, match=r"initial= lacks or misshapes .* parameters: blocks.0.ln.weight"):
        weight_drift(net, {"embed.weight": net.embed.weight, "embed.bias": net.embed.bias}, list(net.blocks))
    with pytest.raises(InvalidInput, match="misshapes"):
        weight_drift(net, network(d=32), list(net.blocks))
    with pytest.raises(InvalidInput, match="initial is a list, neither a network nor its state_dict"):
        audit(net, batches(256), initial=[1])
