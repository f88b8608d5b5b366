"""The caption says how most runs were trained, then names the rows that were trained otherwise."""

from __future__ import annotations

import pytest
from tests.papers.made import MADE, archive

from creditscope.papers.captions import describe_training


@pytest.mark.parametrize(
    ("study", "budget", "caption"),
    [
        ("speed", "laptop", "5 epochs, seeds 1, 2, 3; 2 methods"),
        ("size", "paper", "10 epochs, seeds 1, 2, 3; 2 methods"),
        (
            "size",
            "laptop",
            "5 epochs, seeds 1, 2, 3; vit_mini(patch=8): 1 epoch, seed 2; resmlp(terminal_ln=false): 5 epochs, seed 1; "
            "patch = 8 instead of 4; 2 methods",
        ),
    ],
)
def test_the_caption_names_the_rows_that_were_trained_otherwise(study, budget, caption):
    assert describe_training(archive(MADE, budget=budget), study) == caption
