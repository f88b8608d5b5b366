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
    fires: Literal["above", "below"]

    @property
    def decades(self) -> float:
        """Its width, log₁₀ of the ratio of its ends; negative where the groups overlap."""
        low, high = (self.sound, self.broken) if self.fires == "above" else (self.broken, self.sound)
        if low == 0 or high == 0:
            return math.inf if high > low else -math.inf
        return math.log10(high / low)

    @property
    def decides(self) -> bool:
        """Whether it is wide enough for a diagnostic that fails networks; else the diagnostic only advises."""
        return self.decades >= NARROW

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
    return Gap(max(sound), min(broken), fires) if fires == "above" else Gap(min(sound), max(broken), fires)
