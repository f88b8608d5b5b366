"""Limits from two groups of networks: the geometric middle between the sound ones and the broken ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from creditscope.errors import InvalidInput

NARROW = 1.0  # decades: a diagnostic whose gap is narrower only advises


@dataclass(frozen=True, slots=True)
class Gap:
    """The two ends of a gap: the sound network nearest to the broken ones, and the broken one nearest to the sound."""

    sound: float
    broken: float

    @property
    def decades(self) -> float:
        """Its width, log₁₀ of the ratio of its ends; negative where the groups overlap."""
        outer, inner = sorted((self.sound, self.broken))
        width = math.log10(inner / outer) if outer > 0 else math.inf
        return width

    @property
    def middle(self) -> float:
        """√(sound · broken)."""
        return math.sqrt(self.sound * self.broken)


def gap(sound: Sequence[float], broken: Sequence[float], fires: Literal["above", "below"]) -> Gap:
    """The gap between sound and broken networks of a diagnostic that fires on one side.

    >>> gap([10.0, 40.0], [4e5, 1e9], "above").middle
    4000.0
    """
    for values, name in ((sound, "sound"), (broken, "broken")):
        if not values or not all(value >= 0 for value in values):
            raise InvalidInput(
                f"The values of the {name} networks are {list(values)[:5]}.\n"
                "A limit between two groups needs numbers of at least 0 in both. Leave out networks without a value."
            )
    found = Gap(max(sound), min(broken)) if fires == "above" else Gap(min(sound), max(broken))
    apart = found.broken > found.sound if fires == "above" else found.broken < found.sound
    if not apart:
        raise InvalidInput(
            f"Sound networks reach {found.sound:g} and broken ones {found.broken:g}: the groups overlap.\n"
            "No limit tells them apart. Use another quantity, or let it advise only."
        )
    return found
