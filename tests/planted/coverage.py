"""How often D3's interval covers the true margin, by simulation: seeds, spread between them, images, evidence."""

from __future__ import annotations

from typing import Any

from tests.statistics.simulated_seeds import SHAPES, USUAL, WORST, Cell, Pair, covered

PAIRS: tuple[Pair, ...] = ((1, 1), (2, 2), (3, 3), (5, 5), (10, 10), (2, 1), (3, 1), (5, 1), (10, 1))
REPEATS = 1000


def coverage_table(repeats: int = REPEATS) -> list[dict[str, Any]]:
    """One row per cell of the grid, in the usual world and in the worst one for accuracies; None: no interval."""
    usual, worst = covered(PAIRS, USUAL, repeats, 0), covered(PAIRS, WORST, repeats, 1, SHAPES[1:])
    cells: dict[tuple[Pair, float, int], list[Cell]] = {}
    for cell in usual:
        cells.setdefault(cell[:3], []).append(cell)
    return [
        {
            "seeds": list(seeds),
            "spread": spread,
            "images": images,
            "repeats": repeats,
            "covers": {cell[3]: usual[cell] for cell in shapes},
            "worst": {cell[3]: worst[cell] for cell in shapes if cell in worst},
        }
        for (seeds, spread, images), shapes in cells.items()
    ]
