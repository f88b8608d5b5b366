"""Simulated studies: the answers of two methods' seeds to the same test images, and how often an interval covers.

A run is right about an image if  μ + u_seed + b_image + w_(method, image) + noise > 0  (probit). A world says which
part of the latent variance is the images' own: shared by all runs, or by the seeds of one method.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist

import numpy as np

from creditscope.statistics.margin import Margin, margin_of_accuracies, margin_of_answers

NORMAL = NormalDist()
TRAINED, CONTROL = 0.45, 0.40
TRUE = TRAINED - CONTROL  # the margin between the methods, for any spread of the seeds
SPREADS = (0.005, 0.01, 0.03)
IMAGES = (1000, 10_000)
SHAPES = ("answers per image", "accuracies, images known", "accuracies alone")
Pair = tuple[int, int]  # seeds of the method and of its control
Cell = tuple[Pair, float, int, str]  # seeds, spread, images, shape of the evidence


@dataclass(frozen=True, slots=True)
class World:
    """Shares of the latent variance: hard for every run, hard for the seeds of one method; the rest is chance."""

    between: float
    within: float


USUAL = World(between=0.5, within=0.25)
WORST = World(between=0.0, within=1.0)  # for accuracies alone: seeds agree on every image, and methods on none


def latents(seeds: Pair, images: int, world: World, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """b + w + noise for both methods, (seeds, images) each."""
    hard = rng.standard_normal(images, dtype=np.float32) * np.float32(math.sqrt(world.between))
    for count in seeds:
        own = rng.standard_normal(images, dtype=np.float32) * np.float32(math.sqrt(world.within))
        noise = rng.standard_normal((count, images), dtype=np.float32)
        yield hard + own + noise * np.float32(math.sqrt(1 - world.between - world.within))


def thresholds(share: float, spread: float, effects: np.ndarray) -> np.ndarray:
    """μ + u for every seed; the seeds' own effect leaves the method's mean accuracy alone."""
    latent = NORMAL.inv_cdf(share)
    scale = spread / NORMAL.pdf(latent)
    return np.float32(latent * math.sqrt(1 + scale**2) + scale * effects)


def simulated(seeds: Pair, spread: float, images: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One study in the usual world: which images each seed of the method and of its control gets right."""
    trained, control = (
        latent + thresholds(share, spread, rng.standard_normal(len(latent)))[:, None] > 0
        for latent, share in zip(latents(seeds, images, USUAL, rng), (TRAINED, CONTROL), strict=True)
    )
    return trained, control


def margins(trained: np.ndarray, control: np.ndarray, shapes: Sequence[str] = SHAPES) -> dict[str, Margin]:
    """The margin from each shape of evidence."""
    shares, images = (trained.mean(1).tolist(), control.mean(1).tolist()), trained.shape[1]
    found: dict[str, Callable[[], Margin]] = {
        SHAPES[0]: lambda: margin_of_answers(trained, control),
        SHAPES[1]: lambda: margin_of_accuracies(*shares, images=images),
        SHAPES[2]: lambda: margin_of_accuracies(*shares),
    }
    return {shape: found[shape]() for shape in shapes}


def covered(
    pairs: Sequence[Pair], world: World, repeats: int, seed: int, shapes: Sequence[str] = SHAPES
) -> dict[Cell, float | None]:
    """How often each cell's interval covers the true margin; None where no interval is given.

    One draw serves all cells: fewer seeds and images are the first ones, and a spread scales the seeds' effects.
    """
    rng, hits, unknown = np.random.default_rng(seed), Counter[Cell](), set[Cell]()
    most = max(n for n, _ in pairs), max(m for _, m in pairs)
    for _ in range(repeats):
        drawn = tuple(latents(most, max(IMAGES), world, rng))
        effects = tuple(rng.standard_normal(count) for count in most)
        for spread in SPREADS:
            trained, control = (
                latent + thresholds(share, spread, effect)[:, None] > 0
                for latent, share, effect in zip(drawn, (TRAINED, CONTROL), effects, strict=True)
            )
            for (n, m), images in product(pairs, IMAGES):
                for shape, margin in margins(trained[:n, :images], control[:m, :images], shapes).items():
                    cell = ((n, m), spread, images, shape)
                    if margin.interval is None:
                        unknown.add(cell)
                    else:
                        hits[cell] += margin.interval[0] <= TRUE <= margin.interval[1]
    cells = product(pairs, SPREADS, IMAGES, shapes)
    return {cell: None if cell in unknown else hits[cell] / repeats for cell in cells}
