"""Slow and obvious: the updates of local rules, sample by sample and stage by stage."""

from __future__ import annotations

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.networks.staged import StagedNetwork
from creditscope.networks.student_net import StudentNet


def errors(network: StagedNetwork, batch: Batch) -> list[Tensor]:
    """e of each sample: the probabilities, less one at the label."""
    rows = []
    for logits, label in zip(network(batch.inputs).detach(), batch.labels.tolist(), strict=True):
        weights = [torch.exp(logit - logits.max()) for logit in logits]
        rows.append(torch.stack([w / sum(weights) - (1 if c == label else 0) for c, w in enumerate(weights)]))
    return rows


def normalised(signal: list[Tensor], how: str) -> list[Tensor]:
    """One signal, sample by sample, divided by the root of its mean square."""
    if how == "none":
        return signal
    pool = [[a] for a in signal] if how == "sample" else [signal] * len(signal)
    scales = [(sum(float((a**2).sum()) for a in seen) / sum(a.numel() for a in seen)) ** 0.5 for seen in pool]
    return [a / scale if scale else torch.zeros_like(a) for a, scale in zip(signal, scales, strict=True)]


def local_gradients(
    network: StagedNetwork, batch: Batch, received: list[list[Tensor]], penalty: float, how: str
) -> dict[str, Tensor]:
    """Gradients of the stages' local losses; received[s][i] is what sample i's credit says to stage s (0: embedding).

    One sample at a time: ⟨h_0, â⟩ for the embedding, ⟨f_l(h_l), â⟩ + λ‖f_l(h_l)‖² for a block, the cross-entropy for
    the read-out; the mean over the samples.
    """
    told = [normalised(signal, how) for signal in received]
    total = {name: torch.zeros_like(p) for name, p in network.named_parameters()}
    for i, label in enumerate(batch.labels.tolist()):
        x = batch.inputs[i : i + 1]
        states = [state.detach() for state in network.states(x)]
        losses = [(network.embedding(x) * told[0][i]).sum()]
        for block in range(network.depth):
            branch = network.branch(block, states[block])
            losses.append((branch * told[block + 1][i]).sum() + penalty * (branch**2).sum())
        losses.append(-torch.log_softmax(network.readout(states[-1]), 1)[0, label])
        for loss in losses:
            found = torch.autograd.grad(loss, list(network.parameters()), allow_unused=True)
            for name, gradient in zip(total, found, strict=True):
                total[name] += 0 if gradient is None else gradient / len(batch.labels)
    return total


def student_gradients(
    network: StudentNet, batch: Batch, received: list[list[Tensor]], penalty: float, how: str
) -> dict[str, Tensor]:
    """The same for the student with α = 1, by hand: no autograd anywhere.

    z = W h + b,  f = tanh z;  ∂/∂W = δ hᵀ,  ∂/∂b = δ,  δ = (â + 2λ f)(1 - f²);  ∂/∂W_embed = â_0 xᵀ;  head: e h_Lᵀ
    """
    weights = {name: p.detach() for name, p in network.named_parameters()}
    total = {name: torch.zeros_like(p) for name, p in weights.items()}
    told = [normalised(signal, how) for signal in received]
    for i, error in enumerate(errors(network, batch)):
        x = batch.inputs[i].flatten()
        state = weights["embed.weight"] @ x + weights["embed.bias"]
        updates = [("embed", told[0][i], x)]
        for block in range(network.depth):
            f = torch.tanh(weights[f"blocks.{block}.w.weight"] @ state + weights[f"blocks.{block}.w.bias"])
            updates.append((f"blocks.{block}.w", (told[block + 1][i] + 2 * penalty * f) * (1 - f**2), state))
            state = state + f if network.residual else f
        updates.append(("head", error, state))
        for layer, delta, incoming in updates:
            total[f"{layer}.weight"] += torch.outer(delta, incoming) / len(batch.labels)
            total[f"{layer}.bias"] += delta / len(batch.labels)
    return total
