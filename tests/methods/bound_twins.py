"""Slow and obvious: the updates of local rules on models of other people, stage by stage from detached states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from tests.foreign_models import Branches, Stages, Tokens
from tests.methods.twins import normalised
from torch import Tensor, nn

from creditscope.batch import Batch

Step = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Chain:
    """A model written out: embedding, stages, read-out, and whether each stage adds to its input."""

    embedding: Step
    stages: list[Step]
    readout: Step
    residual: bool


def chained(model: nn.Module) -> Chain:
    """The forward pass of each test model, by hand."""
    if isinstance(model, Tokens):
        return Chain(model.inlet, list(model.layers), lambda h: model.outlet(h[:, 0]), True)
    if isinstance(model, Stages):
        return Chain(model.inlet, list(model.layers), model.readout, False)
    if isinstance(model, Branches):
        return Chain(model.inlet, [lambda h, layer=layer: h + layer(h) for layer in model.layers], model.readout, True)
    assert isinstance(model, nn.Sequential)
    return Chain(model[:2], [model[2:4], model[4:6]], model[6], False)


def local_twin(
    name: str, model: nn.Module, chain: Chain, batch: Batch, feedback: dict[str, Tensor], penalty: float
) -> dict[str, Tensor]:
    """Gradients by name; DFA with each sample's rms, FA with the batch's, as the rules do by default."""
    states = [chain.embedding(batch.inputs).detach()]
    for stage in chain.stages:
        states.append(stage(states[-1]).detach())
    signals = credit(name, chain, states, batch, feedback)
    how = "sample" if name == "dfa" else "batch"
    losses = [F.cross_entropy(chain.readout(states[-1]), batch.labels)]
    for layer, signal in enumerate(signals):
        received = torch.stack(normalised(list(signal), how))
        after = chain.embedding(batch.inputs) if layer == 0 else chain.stages[layer - 1](states[layer - 1])
        losses.append((after * received).sum() / len(batch.labels))
        if layer:
            branch = after - states[layer - 1] if chain.residual else after
            losses.append(penalty * branch.square().sum() / len(batch.labels))
    named = dict(model.named_parameters())
    total = torch.autograd.grad(torch.stack(losses).sum(), list(named.values()))
    return dict(zip(named, total, strict=True))


def credit(name: str, chain: Chain, states: list[Tensor], batch: Batch, feedback: dict[str, Tensor]) -> list[Tensor]:
    """a_0..a_L, from the formulas: e B_l, or g_L carried down by B_l."""
    last = states[-1].clone().requires_grad_()
    logits = chain.readout(last)
    (deepest,) = torch.autograd.grad(F.cross_entropy(logits, batch.labels, reduction="sum"), last)
    if name == "dfa":
        error = (F.softmax(logits, 1) - F.one_hot(batch.labels, logits.shape[1])).detach()
        rows = [error @ feedback[f"B.{layer}"].to(error) for layer in range(len(states))]
        return [
            row[:, None].expand_as(state) if state.dim() == 3 else row for row, state in zip(rows, states, strict=True)
        ]
    signals = [deepest]
    for layer in reversed(range(len(states) - 1)):
        signals.insert(0, signals[0] @ feedback[f"B.{layer}"].to(deepest))
    return signals
