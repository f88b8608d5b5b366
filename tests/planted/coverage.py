"""How often D3's interval covers the true margin, by simulation: seeds, spread between them, images, evidence."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from tests.statistics.test_margin import simulated

from creditscope.statistics.margin import Margin, margin_of_accuracies, margin_of_answers

SEEDS = ((1, 1), (2, 2), (3, 3), (5, 5), (10, 10), (3, 1), (10, 1))
SPREADS = (0.005, 0.01, 0.03)
IMAGES = (1000, 10_000)
REPEATS = 1000
TRUE = 0.05  # the margin of the simulated methods


def margins(trained: np.ndarray, control: np.ndarray) -> dict[str, Margin]:
    """The margin from each shape of evidence."""
    shares = trained.mean(1).tolist(), control.mean(1).tolist()
    return {
        "answers per image": margin_of_answers(trained, control),
        "accuracies, images known": margin_of_accuracies(*shares, images=trained.shape[1]),
        "accuracies alone": margin_of_accuracies(*shares),
    }


def coverage_table(repeats: int = REPEATS) -> list[dict[str, Any]]:
    """One row per cell of the grid; a share is None where no interval is given."""
    rows = []
    for (n, m), spread, images in product(SEEDS, SPREADS, IMAGES):
        rng = np.random.default_rng([n, m, int(1e4 * spread), images])
        hits: dict[str, int | None] = {}
        for _ in range(repeats):
            for shape, margin in margins(*simulated(n, m, spread, images, rng)).items():
                if margin.interval is None:
                    hits[shape] = None
                else:
                    hits[shape] = (hits.get(shape) or 0) + (margin.interval[0] <= TRUE <= margin.interval[1])
        shares = {shape: None if count is None else count / repeats for shape, count in hits.items()}
        rows.append({"seeds": [n, m], "spread": spread, "images": images, "repeats": repeats, "covers": shares})
    return rows
