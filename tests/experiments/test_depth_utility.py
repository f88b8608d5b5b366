"""Twins of somebody's own training: frozen blocks stay frozen, and D3 gets its evidence."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from creditscope.datasets import datasets
from creditscope.errors import CreditscopeError, InvalidInput
from creditscope.experiments.depth_utility import depth_utility
from creditscope.networks.build import build
from creditscope.verdict import Status

DATA = datasets["mnist1d"]()
INPUTS, LABELS = DATA.prepare(DATA.train.inputs[:1000]), DATA.train.labels[:1000]


def make(seed: int) -> nn.Module:
    return build("resmlp", (40,), 10, seed, d=32, depth=2)


def train(network: nn.Module, seed: int) -> None:
    """Ten epochs of somebody's own loop."""
    optimiser = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=3e-3)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(10):
        for batch in torch.randperm(len(INPUTS), generator=generator).split(100):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(INPUTS[batch]), LABELS[batch]).backward()
            optimiser.step()


def evaluate(network: nn.Module) -> float:
    return (network(INPUTS).argmax(1) == LABELS).double().mean().item()


def test_backprop_uses_its_depth():
    found = depth_utility(make, train, evaluate, seeds=[1, 2], variants=["trained", "frozen", "shallow"])
    assert found.seeds == (1, 2)
    assert found.finding.status is Status.PASS
    assert found.finding.per_seed == pytest.approx(
        [100 * (a - b) for a, b in zip(found.accuracy["trained"], found.accuracy["frozen"], strict=True)]
    )
    shallow = found.against("shallow")
    assert shallow.value > 10
    assert found.against("ladder-1").status is Status.SKIPPED


def test_every_rung_of_the_ladder_trains_one_block_more():
    learnt = {}

    def watch(network: nn.Module, seed: int) -> None:
        learnt[len(learnt)] = [any(p.requires_grad for p in block.parameters()) for block in network.blocks]
        network.embed.weight.data.add_(1)

    found = depth_utility(make, watch, lambda network: 0.1, seeds=[1], variants=["ladder", "trained", "shallow"])
    assert list(found.accuracy) == ["ladder-0", "ladder-1", "trained", "shallow"]
    assert list(learnt.values()) == [[False, False], [False, True], [], [True, True]]  # controls first


def test_twins_start_from_the_same_weights():
    began = []

    def watch(network: nn.Module, seed: int) -> None:
        began.append((seed, network.embed.weight.detach().clone()))
        network.embed.weight.data.add_(1)

    depth_utility(make, watch, lambda network: 0.1, seeds=[1, 2])
    assert [seed for seed, _ in began] == [1, 1, 2, 2]
    assert torch.equal(began[0][1], began[1][1])
    assert not torch.equal(began[0][1], began[2][1])


def test_a_trained_network_may_be_returned():
    fresh = make(9)
    found = depth_utility(
        make, lambda network, seed: fresh, lambda network: float(network is fresh), seeds=[1], variants=["trained"]
    )
    assert found.accuracy["trained"] == (1.0,)
    assert found.networks["trained"] == (fresh,)


def test_blocks_are_searched_with_an_example():
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, h: torch.Tensor) -> torch.Tensor:
            return h + self.inner(h).relu()

    def stranger(seed: int) -> nn.Module:
        return nn.Sequential(nn.Linear(40, 8), Block(), Block(), nn.Linear(8, 10))

    found = depth_utility(stranger, train, evaluate, seeds=[1], example=INPUTS[:8])
    frozen, trained = found.networks["frozen"][0], found.networks["trained"][0]
    assert [p.requires_grad for p in frozen.parameters()] == [True] * 2 + [False] * 4 + [True] * 2
    assert all(p.requires_grad for p in trained.parameters())
    with pytest.raises(CreditscopeError, match="not known before its first batch"):
        depth_utility(stranger, train, evaluate, seeds=[1])


def test_a_loop_that_moves_frozen_blocks_is_refused():
    def careless(network: nn.Module, seed: int) -> None:
        for parameter in network.parameters():
            parameter.data.mul_(0.9)

    with pytest.raises(InvalidInput, match="Training changed blocks.0.* that the control froze"):
        depth_utility(make, careless, evaluate, seeds=[1])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seeds": []}, "at least one seed is needed"),
        ({"seeds": [1], "variants": ["forzen"]}, "Did you mean 'frozen'?"),
        ({"seeds": [1], "variants": ["ladder-7"]}, "The ladder has rungs 0 to 2 on this network, got 7"),
        ({"seeds": [1], "blocks": "blcks"}, "Did you mean 'blocks'?"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, told):
    with pytest.raises(CreditscopeError, match=told.replace("?", r"\?")):
        depth_utility(make, train, evaluate, **options)


@pytest.mark.parametrize("value", [55.0, float("nan"), True])
def test_an_evaluation_that_returns_no_share_is_refused(value):
    with pytest.raises(InvalidInput, match=r"evaluate\(model\) = .* is not a"):
        depth_utility(make, lambda network, seed: None, lambda network: value, seeds=[1])
