"""Penalised, frozen, shallow and ladder variants: the same rule in another scope."""

from __future__ import annotations

import math

import pytest
import torch
from tests.methods.conftest import small
from torch import nn

from creditscope.batch import Batch
from creditscope.errors import InvalidInput, UnknownName
from creditscope.methods.bp import Backprop
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.rule import CreditRule, Feedback, Moment, Scope
from creditscope.methods.wrappers import Frozen, Ladder, Penalty, Shallow, wrapped

DEPTH = 3


def learning_blocks(rule: CreditRule) -> list[int]:
    """The blocks that have a parameter in the rule's scope."""
    network = small("resmlp")
    names = rule.scope(network).parameters(network)
    return [index for index in range(DEPTH) if any(name.startswith(f"blocks.{index}.") for name in names)]


@pytest.mark.parametrize("rung", range(DEPTH + 1))
def test_rung_k_trains_the_last_k_blocks(rung: int) -> None:
    assert learning_blocks(Ladder(Backprop(), rung)) == list(range(DEPTH - rung, DEPTH))


def test_the_ladder_leads_from_frozen_to_fully_trained() -> None:
    network = small("resmlp")
    assert Ladder(Backprop(), 0).scope(network) == Frozen(Backprop()).scope(network)
    every = Ladder(Backprop(), DEPTH).scope(network).parameters(network)
    assert every.keys() == dict(network.named_parameters()).keys()


def test_embedding_and_readout_always_learn() -> None:
    network = small("resmlp")
    names = {name.split(".")[0] for name in Frozen(Backprop()).scope(network).parameters(network)}
    assert names == {"embed", "out_ln", "out_head"}


def test_ten_blocks_are_told_apart_from_one() -> None:
    """blocks.1. is not the beginning of blocks.10."""
    network = small("resmlp", depth=11)
    names = Ladder(Backprop(), 1).scope(network).parameters(network)
    assert {name.rsplit(".", 2)[0] for name in names if name.startswith("blocks.")} == {"blocks.10"}


def test_wrappers_nest_in_any_order(batch: Batch, generator: torch.Generator) -> None:
    """What is not learnt within does not learn without; credit and scope agree."""
    network = small("resmlp")
    feedback = DirectFeedback().feedback(network, batch, generator)
    pairs = [
        (Penalty(Frozen(DirectFeedback()), 0.1), Frozen(Penalty(DirectFeedback(), 0.1))),
        (Ladder(Frozen(DirectFeedback()), 2), Frozen(Ladder(DirectFeedback(), 2))),
        (Ladder(Penalty(DirectFeedback(), 0.1), 2), Penalty(Ladder(DirectFeedback(), 2), 0.1)),
        (Ladder(Ladder(DirectFeedback(), 1), 2), Ladder(DirectFeedback(), 1)),
    ]
    for one, other in pairs:
        assert one.scope(network) == other.scope(network)
        gradients = [rule.credit(network, feedback, batch).gradients for rule in (one, other)]
        assert gradients[0].keys() == gradients[1].keys() == one.scope(network).parameters(network).keys()
        assert all(torch.equal(gradients[0][name], gradients[1][name]) for name in gradients[0])


def test_a_penalty_of_zero_changes_no_bit(batch: Batch, generator: torch.Generator) -> None:
    network = small("resmlp")
    feedback = DirectFeedback().feedback(network, batch, generator)
    plain = DirectFeedback().credit(network, feedback, batch).gradients
    zero = Penalty(DirectFeedback(), 0.0).credit(network, feedback, batch).gradients
    assert all(torch.equal(plain[name], zero[name]) for name in plain)


def test_the_penalty_is_felt_by_the_blocks_alone(batch: Batch, generator: torch.Generator) -> None:
    network = small("resmlp")
    feedback = DirectFeedback().feedback(network, batch, generator)
    plain = DirectFeedback().credit(network, feedback, batch).gradients
    penalised = Penalty(DirectFeedback(), 1.0).credit(network, feedback, batch).gradients
    moved = {name.split(".")[0] for name in plain if not torch.equal(plain[name], penalised[name])}
    assert moved == {"blocks"}


def test_the_shallow_network_has_no_blocks(batch: Batch) -> None:
    network = small("resmlp")
    shallow = Shallow(Backprop()).prepare(network, batch)
    assert shallow.depth == 0
    assert torch.equal(shallow(batch.inputs), network.readout(network.embedding(batch.inputs)))


@pytest.mark.parametrize("name", ["small_cnn", "small_resnet"])
def test_without_blocks_a_readout_of_another_width_is_refused_and_the_network_left_whole(
    name: str, batch: Batch
) -> None:
    network = small(name)
    before, modes = dict(network.state_dict()), [module.training for module in network.modules()]
    with pytest.raises(InvalidInput, match="cannot run without its blocks: its read-out cannot take h_0") as found:
        Shallow(Backprop()).prepare(network, batch)
    assert "Use the frozen control" in str(found.value)
    assert network.state_dict().keys() == before.keys()
    assert modes == [module.training for module in network.modules()]


def test_looking_at_an_example_leaves_the_statistics_alone(batch: Batch, generator: torch.Generator) -> None:
    network = small("small_cnn").train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    DirectFeedback().feedback(network, batch, generator)
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    assert all(module.training for module in network.modules())


def test_modes_come_back_one_by_one(batch: Batch, generator: torch.Generator) -> None:
    network = small("small_cnn").train()
    network.blocks[1].eval()
    DirectFeedback().feedback(network, batch, generator)
    assert [block.training for block in network.blocks] == [True, False, True]


def test_a_wrapper_passes_everything_else_on(batch: Batch, generator: torch.Generator) -> None:
    class Talking(Backprop):
        def objection(self, auxiliary: object) -> str:
            return "enough"

        def learn(self, *args: object) -> str:  # type: ignore[override]
            return "learnt"

    rule = Frozen(Penalty(Talking(), 0.1))
    assert rule.objection({}) == "enough"
    assert rule.innermost == Talking()
    assert rule.learn(small("resmlp"), Feedback(), batch, Moment(0.0, generator)) == "learnt"
    assert rule.prepare(network := small("resmlp"), batch) is network


@pytest.mark.parametrize("control", ["none", "frozen", "shallow", "ladder-0", "ladder-12"])
def test_controls_have_names(control: str) -> None:
    rule = wrapped(Backprop(), penalty=0.1, control=control)
    kind = {"none": Penalty, "frozen": Frozen, "shallow": Shallow}.get(control, Ladder)
    assert isinstance(rule, kind)
    assert rule.innermost == Backprop()
    if isinstance(rule, Ladder):
        assert rule.blocks == int(control.removeprefix("ladder-"))


def test_without_penalty_and_control_the_rule_is_bare() -> None:
    assert wrapped(Backprop()) == Backprop()


def test_an_unknown_control_is_refused() -> None:
    with pytest.raises(UnknownName, match="There is no control called 'thawed'"):
        wrapped(Backprop(), control="thawed")


@pytest.mark.parametrize("strength", [-1e-9, math.nan, math.inf])
def test_a_penalty_that_is_none_is_refused(strength: float) -> None:
    with pytest.raises(InvalidInput, match="penalty must be a finite number of at least 0, got") as found:
        wrapped(Backprop(), penalty=strength)
    assert "Common values" in str(found.value)


@pytest.mark.parametrize("rung", [-1, DEPTH + 1])
def test_a_rung_beyond_the_ladder_is_refused(rung: int) -> None:
    with pytest.raises(InvalidInput, match=f"rungs 0 to {DEPTH} on this network, got {rung}") as found:
        Ladder(Backprop(), rung).scope(small("resmlp"))
    assert "The rung is the number of last blocks that learn" in str(found.value)


def test_a_scope_counts_a_module_list_of_any_kind() -> None:
    network = small("vit_mini")
    assert isinstance(network.blocks, nn.ModuleList)
    assert not any(name.startswith("blocks.") for name in Scope(frozenset()).parameters(network))
