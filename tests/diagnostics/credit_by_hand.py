"""Credit evidence that a test writes down instead of measuring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.diagnostics.evidence_by_hand import evidence

from creditscope.evidence.alignment import Alignment
from creditscope.evidence.credit import CreditEvidence, Null
from creditscope.evidence.records import Evidence


def aligned(gammas: Sequence[float], clamped: Sequence[float] | None = None) -> Alignment:
    layers = tuple(gammas)
    return Alignment(layers, tuple(clamped or layers), (0,) * len(layers), (100,) * len(layers), 100)


def spread(own: Sequence[float], sigma: float, draws: int = 20) -> Null:
    """A null around 0 whose draws have exactly this standard deviation at every layer, and between layers in step."""
    unit = [1.0 if k % 2 else -1.0 for k in range(draws)]
    scale = sigma * ((draws - 1) / draws) ** 0.5
    return Null(tuple((scale * u,) * len(own) for u in unit), tuple(own))


def credit(gammas: Sequence[float], *, sigma: float | None = 0.01, **rest: Any) -> Evidence:
    """Evidence with this Γ per layer, and with a null of this spread."""
    untrusted = rest.pop("untrusted", frozenset())
    null = {} if sigma is None else {"null": spread(gammas, sigma)}
    given = CreditEvidence(**({"alignment": aligned(gammas)} | null | rest))
    return evidence(credit=given, untrusted=untrusted)
