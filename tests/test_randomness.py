"""The random states of the CPU and of every device in use are restored together, wherever something was seeded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.datasets.tensors import Dataset
from creditscope.experiments.functions import UserFunctions
from creditscope.methods.adapted import AdaptedNetwork, adapted
from creditscope.methods.bp import Backprop
from creditscope.networks.build import build
from creditscope.networks.factory import Factory
from creditscope.randomness import forked_rng, rng_states
from creditscope.stream.isolation import undisturbed
from creditscope.training.recipe import Recipe
from creditscope.training.run import begin

INPUTS, LABELS = torch.linspace(-1, 1, 192).view(32, 6), torch.arange(32) % 3


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> torch.Generator:
    """The generator of a CUDA device that is not there; it is seeded when torch is."""
    own = torch.Generator().manual_seed(5)
    for name, function in {
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "get_rng_state": lambda device: own.get_state(),
        "set_rng_state": lambda state, device: own.set_state(state),
        "manual_seed_all": own.manual_seed,
    }.items():
        monkeypatch.setattr(torch.cuda, name, function)
    return own


class Noisy(nn.Module):
    """A block whose noise is drawn on the device."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self._generator = generator

    def forward(self, state: Tensor) -> Tensor:
        out: Tensor = state + self.inner(state) * torch.rand(state.shape, generator=self._generator)
        return out


def noisy(generator: torch.Generator) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6), Noisy(generator), Noisy(generator), nn.Linear(6, 3))


def factory() -> nn.Module:
    return nn.Linear(2, 2)


def an_epoch() -> None:
    data = Dataset("few", Batch(INPUTS, LABELS), Batch(INPUTS, LABELS), 3, (0.0,), (1.0,))
    begin(build("resmlp", 6, 3, 0, d=8, depth=1), Backprop(), data, Recipe(epochs=1, batch_size=16), 0).epoch()


def an_experiment() -> None:
    def evaluate(model: nn.Module) -> float:
        torch.manual_seed(7)
        return 0.5

    functions = UserFunctions(lambda seed: nn.Linear(6, 3), lambda model, seed: None, evaluate)
    functions.evaluated(functions.fresh(0))


def an_evaluation() -> None:
    with undisturbed(nn.Identity()):
        torch.manual_seed(7)


@pytest.mark.parametrize(
    "seeding",
    [
        an_epoch,
        an_experiment,
        an_evaluation,
        lambda: Factory(f"{__name__}:factory")((2,), 2, generator=torch.Generator().manual_seed(0)),
    ],
    ids=["an epoch", "an experiment", "an evaluation", "a factory"],
)
def test_what_seeds_torch_leaves_every_generator_as_it_was(
    seeding: Callable[[], object], device: torch.Generator
) -> None:
    before = rng_states()
    assert len(before) == 2
    seeding()
    after = rng_states()
    assert all(torch.equal(after[place], state) for place, state in before.items())


def test_stages_that_run_again_draw_what_they_drew_on_their_device(device: torch.Generator) -> None:
    network = adapted(noisy(device), INPUTS, blocks=["1", "2"])
    assert isinstance(network, AdaptedNetwork)
    with torch.no_grad():
        walk = network.walk(INPUTS)
        following = device.get_state()
        again = network.stages_at(walk.states[:-1])
    assert all(map(torch.equal, again, walk.states[1:]))
    assert torch.equal(device.get_state(), following)


def test_a_device_that_was_not_used_yet_is_not_started(
    monkeypatch: pytest.MonkeyPatch, device: torch.Generator
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: pytest.fail("CUDA was started"))
    with forked_rng():
        torch.rand(1)
    assert len(rng_states()) == 1
