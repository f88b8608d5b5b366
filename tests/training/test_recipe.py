"""The recipe: optimiser, schedule and loss as named, each one a plain loop that anybody could write."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from tests.training.test_fit import CLASSES, RECIPE, images, network, trained

from creditscope.errors import InvalidInput
from creditscope.methods.bp import Backprop
from creditscope.methods.loss import LOSSES
from creditscope.runs.spec import LATER_FIELDS, RunSpec
from creditscope.training.recipe import OPTIMISERS, SCHEDULES, Recipe

OTHER = replace(RECIPE, optimiser="sgd", schedule="constant", loss="squared_error", augment=False, learning_rate=0.05)


def test_the_spec_names_what_the_recipe_knows():
    known = {"optimiser": OPTIMISERS, "schedule": SCHEDULES, "loss": LOSSES}
    for name, choices in known.items():
        assert set(get_args(RunSpec.model_fields[name].annotation)) == set(choices)
        assert LATER_FIELDS[name] == RunSpec.model_fields[name].default == getattr(Recipe(), name)


@pytest.mark.parametrize("name", ["optimiser", "schedule", "loss"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(InvalidInput, match=f"{name} is 'none'"):
        Recipe(**{name: "none"})


@pytest.mark.parametrize(("name", "kind"), [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam)])
def test_training_is_the_plain_loop_of_that_optimiser_and_loss(name, kind):
    data, twin = images(), network()
    recipe = replace(OTHER, optimiser=name)
    found = trained(Backprop(), recipe, data=data).network
    optimiser = kind(twin.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    generator = torch.Generator().manual_seed(0)
    generator.set_state(_order_of(42))
    for _ in range(recipe.epochs):
        order = torch.randperm(len(data.train.labels), generator=generator)
        for start in range(0, len(order) - recipe.batch_size + 1, recipe.batch_size):
            chosen = order[start : start + recipe.batch_size]
            batch = replace(data, crop=0, flip=False).training_batch(chosen, generator)
            wanted = F.one_hot(batch.labels, CLASSES).float()
            optimiser.zero_grad()
            ((twin(batch.inputs) - wanted) ** 2).sum(1).mean().div(2).backward()
            optimiser.step()
    for name_, parameter in twin.named_parameters():
        torch.testing.assert_close(found.get_parameter(name_), parameter, rtol=1e-4, atol=1e-5)


def _order_of(seed: int) -> torch.Tensor:
    from creditscope.methods.rule import run_generator

    return run_generator(seed).get_state()


def test_a_constant_schedule_keeps_the_rate():
    assert [Recipe(epochs=3, schedule="constant").rate(epoch) for epoch in range(3)] == [1e-3] * 3
    assert Recipe(epochs=3).rate(2) < 1e-3


def test_the_gradients_of_the_history_are_those_of_the_loss_that_is_trained():
    half = trained(Backprop(), replace(OTHER, epochs=1, learning_rate=1e-12)).record.history[-1]
    other = trained(Backprop(), replace(OTHER, epochs=1, learning_rate=1e-12, loss="sigmoid")).record.history[-1]
    assert half.gamma == pytest.approx((1.0,) * len(half.gamma))
    assert other.gamma == pytest.approx((1.0,) * len(other.gamma))
    assert half.gradient_norms[-1] != pytest.approx(other.gradient_norms[-1], rel=0.01)
