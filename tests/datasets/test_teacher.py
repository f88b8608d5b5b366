"""The generated task follows from its seed and its options."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from creditscope.datasets.teacher import teacher
from creditscope.errors import InvalidInput


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    assert teacher(seed=3).checksum == teacher(seed=3).checksum != teacher(seed=4).checksum


def test_the_options_decide_the_shapes() -> None:
    data = teacher(samples=(70, 30), inputs=9, classes=3, widths=(5,))
    assert data.shape == (9,)
    assert (len(data.train.labels), len(data.test.labels), data.classes) == (70, 30, 3)


def test_inputs_are_standard_normal() -> None:
    inputs = teacher().train.inputs
    assert abs(inputs.mean().item()) < 5 / inputs.numel() ** 0.5
    assert abs(inputs.var().item() - 1) < 5 * (2 / inputs.numel()) ** 0.5


def test_every_class_occurs_about_equally_often() -> None:
    shares = teacher().train.labels.bincount(minlength=10) / 4000
    assert shares.min() > 0.05
    assert shares.max() < 0.2


def test_a_teacher_with_alpha_0_is_linear() -> None:
    """On Gaussian inputs least squares finds the direction along which a linear teacher separates two classes."""
    data = teacher(samples=(4000, 1000), inputs=20, classes=2, widths=(20, 20), alpha=0.0)
    design = torch.cat([data.train.inputs, torch.ones(4000, 1)], dim=1)
    weights = torch.linalg.lstsq(design, data.train.labels.float()[:, None] - 0.5).solution
    answers = torch.cat([data.test.inputs, torch.ones(1000, 1)], dim=1) @ weights > 0
    assert (answers[:, 0] == data.test.labels.bool()).float().mean() > 0.97


@pytest.mark.parametrize(
    "options", [{"samples": (0, 5)}, {"samples": (5, 0)}, {"inputs": 0}, {"classes": 1}, {"widths": (4, 0)}]
)
def test_a_teacher_of_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="nothing to learn or nothing to test on"):
        teacher(**options)
