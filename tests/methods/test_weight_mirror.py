"""Weight mirrors: noise through a fixed W teaches B its direction, better with every noise vector."""

from __future__ import annotations

import math

import pytest
import torch
from tests.methods.conftest import small

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods.inside_weights import weights_of
from creditscope.methods.learnt import matrices
from creditscope.methods.rule import Moment
from creditscope.methods.weight_mirror import WeightMirror


def cosines(length: int, name: str, batch: Batch) -> dict[str, float]:
    """cos(B, W) by weight, after one noise phase on fixed weights."""
    network, generator = small(name), torch.Generator().manual_seed(3)
    rule = WeightMirror(length=length)
    feedback = rule.feedback(network, batch, generator)
    rule.mirror(network, feedback, generator)
    return {key: math.cos(math.radians(angle)) for key, angle in rule.angles(network, feedback).items()}


@pytest.mark.parametrize("name", ["resmlp", "small_cnn", "vit_mini"])
def test_a_long_noise_phase_turns_the_feedback_to_the_weights(name: str, batch: Batch) -> None:
    short, longer, long = (cosines(length, name, batch) for length in (30, 100, 500))
    for key, cosine in long.items():
        assert cosine > 0.99, key
        assert short[key] < longer[key] < cosine, key


def test_a_phase_is_its_definition(batch: Batch) -> None:
    """B ← (1 - λ_m) B + η_m mean(y ξᵀ), one noise vector after the other."""
    network, rule = small("student_net"), WeightMirror(length=2, samples=3, decay=0.1, rate=0.3, noise=0.5)
    feedback = rule.feedback(network, batch, torch.Generator().manual_seed(3))
    expected = {key: matrix.detach().clone() for key, matrix in matrices(feedback).by_weight().items()}
    weights, drawn = weights_of(network), torch.Generator().manual_seed(4)
    for _ in range(2):
        for key in expected:
            weight = weights[key].detach()
            noise = 0.5 * torch.randn(3, weight.shape[1], generator=drawn).double()
            total = sum(torch.outer(weight @ xi, xi) for xi in noise)
            expected[key] = (1 - 0.1) * expected[key] + 0.3 * total / 3
    rule.mirror(network, feedback, torch.Generator().manual_seed(4))
    for key, matrix in matrices(feedback).by_weight().items():
        torch.testing.assert_close(matrix.detach(), expected[key])


def test_phases_come_every_so_many_steps(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), WeightMirror(every=3, length=1)
    feedback = rule.feedback(network, batch, generator)
    moved = []
    for step in range(7):
        before = {key: matrix.detach().clone() for key, matrix in matrices(feedback).by_weight().items()}
        rule.learn(network, feedback, batch, Moment(step / 7, generator))
        moved.append(any(not torch.equal(before[key], m) for key, m in matrices(feedback).by_weight().items()))
    assert moved == [True, False, False, True, False, False, True]


@pytest.mark.parametrize(
    "options", [{"every": 0}, {"length": 0}, {"samples": 0}, {"decay": 0.0}, {"decay": 1.0}, {"rate": 0}, {"noise": -1}]
)
def test_options_under_which_nothing_is_mirrored_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="never be mirrored|would not settle"):
        WeightMirror(**options)  # type: ignore[arg-type]
