"""Trains one network by backprop and one by direct feedback alignment, with their frozen controls, in plain PyTorch.

Writes bp.safetensors and dfa.safetensors for the audits in the README, and prints the accuracies. It takes two minutes
on one core.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from creditscope.datasets import datasets
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork

Loss = Callable[[StagedNetwork, Tensor, Tensor, Tensor], Tensor]
EPOCHS, BATCH, SEED = 100, 128, 42
data = datasets["mnist1d"]()


def backprop(network: StagedNetwork, inputs: Tensor, labels: Tensor, feedback: Tensor) -> Tensor:
    """The loss itself."""
    return F.cross_entropy(network(inputs), labels)


def direct_feedback(network: StagedNetwork, inputs: Tensor, labels: Tensor, feedback: Tensor) -> Tensor:
    """Local losses ⟨f_l(h_l), e B_{l+1}⟩, each sample's credit at rms 1; the read-out learns by its own gradient."""
    with torch.no_grad():
        states = network.states(inputs)
        error = F.softmax(network.readout(states[-1]), 1) - F.one_hot(labels, data.classes)
        credit = torch.einsum("nc,lcd->lnd", error, feedback)
        credit = credit / credit.square().mean(2, keepdim=True).sqrt().clamp_min(1e-30)
    outputs = [network.embedding(inputs), *(network.branch(index, states[index]) for index in range(network.depth))]
    local = sum((output * signal).sum(1).mean() for output, signal in zip(outputs, credit, strict=True))
    return F.cross_entropy(network.readout(states[-1]), labels) + local


def train(loss_of: Loss, *, frozen: bool) -> tuple[StagedNetwork, float]:
    """A trained network and its test accuracy; `frozen` leaves the blocks as they were drawn."""
    network = build("resmlp", data.shape, data.classes, SEED)
    network.blocks.requires_grad_(not frozen)
    generator = torch.Generator().manual_seed(SEED)
    feedback = torch.randn(network.depth + 1, data.classes, 256, generator=generator) / data.classes**0.5
    optimiser = torch.optim.AdamW([p for p in network.parameters() if p.requires_grad], lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    for _ in range(EPOCHS):
        order = torch.randperm(len(data.train.labels), generator=generator)
        for chosen in order.split(BATCH)[:-1]:
            optimiser.zero_grad()
            loss_of(network, *data.training_batch(chosen, generator), feedback).backward()
            optimiser.step()
        schedule.step()
    with torch.no_grad():
        right = sum((network(inputs).argmax(1) == labels).sum().item() for inputs, labels in data.test_batches(BATCH))
    return network, right / len(data.test.labels)


if __name__ == "__main__":
    for name, loss_of in (("bp", backprop), ("dfa", direct_feedback)):
        network, accuracy = train(loss_of, frozen=False)
        _, control = train(loss_of, frozen=True)
        save_file(network.state_dict(), f"{name}.safetensors")
        print(f"{name}: accuracy {accuracy:.3f}, with frozen blocks {control:.3f}")
