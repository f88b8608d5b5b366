"""State Bridge: a learned jump from any state to the last one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from creditscope.methods import method
from creditscope.methods.bridge import WIDTH, AuxiliaryLoss, BridgeRule, drawn_layers, module, positions
from creditscope.methods.local import LocalPass
from creditscope.methods.loss import each_loss
from creditscope.methods.rule import Feedback
from creditscope.networks.staged import StagedNetwork

BRIDGE = "bridge"


@method(
    "state_bridge",
    summary="State Bridge: a network G learns to predict h_L from h_l; credit is the loss gradient at its output.",
    formula="a_l = ∂ℓ(readout(G(h_l, l/L, e)))/∂h_l,  e held constant,  G trained on mean‖G - h_L‖² / mean‖h_L‖²",
    paper="Hao, Wan and Zhai (2026)",
    networks=("resmlp", "student_net", "mlp", "mupc_mlp"),
    identities={
        "with an oracle for G the credit is the gradient": (
            "tests/methods/test_state_bridge.py::test_with_an_oracle_for_a_bridge_credit_is_the_gradient"
        ),
    },
    fails="Credit is the slope of G, but only the values of G are taught: a bridge that predicts h_L well can have "
    "the wrong slope. Streams must be flat and of one width.",
)
@dataclass(frozen=True)
class StateBridge(BridgeRule):
    """A network G learns to predict h_L from h_l; credit is the gradient of the loss at its prediction.

    G = MLP([h_l, l/L, e]) → d has 2 hidden layers of 256 with SiLU. One layer l < L is drawn per sample and step; G is
    never trained at l = L, where its credit is used all the same. The bridge residual is the median of
    ‖G - h_L‖/‖h_L‖. Without `relative` G is trained on mean‖G - h_L‖²/d, which grows with the stream.
    """

    relative: bool = True

    def auxiliary(self, width: int, classes: int, generator: torch.Generator) -> nn.ModuleDict:
        """G."""
        widths = [width + 1 + classes, WIDTH, WIDTH, width]
        return nn.ModuleDict({BRIDGE: self.bridge_network(widths, generator)})

    def auxiliary_loss(
        self, network: StagedNetwork, feedback: Feedback, seen: LocalPass, generator: torch.Generator
    ) -> AuxiliaryLoss:
        """mean‖G(h_l) - h_L‖² / mean‖h_L‖², or per feature where it is not relative."""
        layers, rows = drawn_layers(network.depth, seen.error, generator)
        position = positions(network.depth, seen.error)[layers, None]
        with torch.enable_grad():
            predicted = module(feedback, BRIDGE)(torch.stack(seen.hiddens)[layers, rows], position, seen.error)
            missed = (predicted - seen.hiddens[-1]).square().sum(-1)
            size = seen.hiddens[-1].square().sum(-1)
            loss = missed.mean() / (size.mean() if self.relative else predicted.shape[-1])
        return AuxiliaryLoss(loss, (missed.detach() / size).sqrt().median())

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        """All layers in one pass through the bridge and the read-out."""
        with torch.enable_grad():
            states = torch.stack(seen.hiddens).requires_grad_()
            position = positions(network.depth, seen.error)[:, None, None]
            arrived = module(feedback, BRIDGE)(states, position, seen.error)
            logits = network.readout(arrived.flatten(0, 1))
            loss = each_loss(network.loss_fn, logits, torch.cat([seen.labels] * len(states))).sum()
            (signals,) = torch.autograd.grad(loss, states)
        return tuple(signals)
