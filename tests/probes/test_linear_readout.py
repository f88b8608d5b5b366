"""Linear read-outs: ridge in closed form, equal to a slow twin, blind to units."""

from __future__ import annotations

import pytest
import torch

from creditscope.batch import Batch
from creditscope.probes.linear_readout import PENALTIES, _solutions, fit_readout, training_images


def data(rows: int, width: int, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    features = torch.randn(rows, width, generator=generator) * torch.linspace(0.1, 30, width) + 5
    labels = (features[:, 0] * 3 + torch.randn(rows, generator=generator)).sort().indices.argsort() * classes // rows
    return features, labels


@pytest.mark.parametrize(("rows", "width"), [(60, 8), (40, 90)])
@pytest.mark.parametrize("penalty", [1e-4, 1.0, 100.0])
def test_the_weights_solve_the_normal_equations(rows: int, width: int, penalty: float) -> None:
    """A slow twin: the same ridge problem as one least-squares problem with the penalty as further rows."""
    features, labels = data(rows, width)
    (readout,) = _solutions(features, labels, 3, (penalty,))
    x = (features.double() - features.double().mean(0)) / features.double().std(0, correction=0)
    y = torch.eye(3).double()[labels]
    strength = (penalty * x.square().sum() / width) ** 0.5
    stacked = torch.cat([x, strength * torch.eye(width).double()])
    targets = torch.cat([y - y.mean(0), torch.zeros(width, 3).double()])
    expected = torch.linalg.lstsq(stacked, targets).solution
    torch.testing.assert_close(readout.weight, expected, rtol=1e-8, atol=1e-10)


def test_the_penalty_is_chosen_on_images_that_were_held_out() -> None:
    """More features than images: without a penalty every training image is right and the held-out ones are not."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(120) % 2
    features = torch.randn(120, 400, generator=generator)
    features[:, 0] += 6 * labels
    readout = fit_readout(features, labels, 2)
    assert readout.penalty > min(PENALTIES)


def test_units_and_offsets_of_a_feature_do_not_matter() -> None:
    features, labels = data(200, 12)
    moved = features.double() * torch.logspace(-6, 6, 12).double() + 1000 * torch.arange(12)
    first, second = fit_readout(features, labels, 3), fit_readout(moved, labels, 3)
    assert torch.equal(first.answers(features), second.answers(moved))


def test_a_feature_that_never_changes_is_harmless() -> None:
    features, labels = data(100, 5)
    features[:, 2] = 7.0
    assert fit_readout(features, labels, 3).weight.isfinite().all()


def test_at_most_ten_thousand_training_images_are_kept() -> None:
    batches = [Batch(torch.zeros(4000, 2), torch.zeros(4000)) for _ in range(4)]
    assert [len(batch.labels) for batch in training_images(batches)] == [4000, 4000, 2000]
