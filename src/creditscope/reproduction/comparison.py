"""Do two numbers agree?  Ours against the published one, in standard errors, with the rule that was used.

Both sides with a spread over seeds: Welch's t. One side only: the other is read as one more draw of it. Neither: a
fixed tolerance per kind of number. Scales (norms, growth) are compared as decimal logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev
from typing import Literal

from creditscope.intervals import LEVEL
from creditscope.reproduction.published import Figure

Kind = Literal["share", "cosine", "scale", "points", "count", "flags"]

# Where no spread is known on either side. A share: seeds of one method differ by less than 2 points. A cosine: twice
# the spread of a null. A scale: half a decade, since such figures are printed with one digit.
TOLERANCE: dict[str, float] = {"share": 0.02, "cosine": 0.05, "scale": 0.5, "points": 2.0, "count": 0.0}


class Outcome(StrEnum):
    """What is said of a row."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_PUBLISHED = "not published"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Compared:
    """Ours minus published, in standard errors where a spread is known (scales: of logarithms)."""

    outcome: Outcome
    difference: float | None = None
    errors: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Side:
    """Numbers on one side: centre, spread (None if unknown) and how many seeds stand behind it."""

    mean: float
    std: float | None
    seeds: int


def compare(values: Sequence[float], figure: Figure | None, kind: Kind) -> Compared:
    """Set our values, one per seed, beside a published figure."""
    if not values:
        return Compared(Outcome.NOT_RUN)
    if figure is None:
        return Compared(Outcome.NOT_PUBLISHED)
    if figure.never or any(math.isinf(value) for value in values):
        return _events(values, figure)
    if any(math.isnan(value) for value in values):
        return Compared(Outcome.DIFFERS, note="ours is undefined")
    ours, theirs = _ours(values, kind), _theirs(figure, fmean(values), kind)
    return _judged(ours, theirs, kind)


def compare_flags(found: Sequence[tuple[str, ...]], figure: Figure | None) -> Compared:
    """Flags per seed against the published ones; they agree if they are the same on every seed."""
    if not found:
        return Compared(Outcome.NOT_RUN)
    if figure is None or figure.flags is None:
        return Compared(Outcome.NOT_PUBLISHED)
    same = sum(flags == figure.flags for flags in found)
    note = "" if len(found) == 1 else f"the same on {same} of {len(found)} seeds"
    return Compared(Outcome.AGREES if same == len(found) else Outcome.DIFFERS, note=note)


def _events(values: Sequence[float], figure: Figure) -> Compared:
    """Epochs of an event, where infinity means that it never came."""
    never = [math.isinf(value) for value in values]
    if figure.never:
        return Compared(Outcome.AGREES if all(never) else Outcome.DIFFERS)
    return Compared(Outcome.DIFFERS, note=f"never on {sum(never)} of {len(never)} of our seeds")


def _ours(values: Sequence[float], kind: Kind) -> _Side:
    return _side([_on_scale(value, kind) for value in values])


def _theirs(figure: Figure, near: float, kind: Kind) -> _Side:
    if figure.values:
        return _side([_on_scale(value, kind) for value in figure.values])
    if figure.low is not None and figure.high is not None:  # the nearest point of the range
        return _Side(_on_scale(min(max(near, figure.low), figure.high), kind), None, 1)
    if figure.mean is None:
        return _Side(math.nan, None, 1)
    std = None if kind == "scale" else figure.std
    return _Side(_on_scale(figure.mean, kind), std, figure.seeds if std is not None else 1)


def _side(values: Sequence[float]) -> _Side:
    return _Side(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def _on_scale(value: float, kind: Kind) -> float:
    if kind != "scale":
        return value
    return math.log10(value) if value > 0 else -math.inf


def _judged(ours: _Side, theirs: _Side, kind: Kind) -> Compared:
    difference = ours.mean - theirs.mean
    if math.isnan(difference):
        return Compared(Outcome.NOT_PUBLISHED)
    error, freedom, note = _standard_error(ours, theirs)
    if error is None or error == 0:
        within = abs(difference) <= TOLERANCE[kind]
        note = f"no spread known: compared within {TOLERANCE[kind]:g}{' decades' if kind == 'scale' else ''}"
        return Compared(Outcome.AGREES if within else Outcome.DIFFERS, difference, None, note)
    errors = difference / error
    return Compared(Outcome.AGREES if abs(errors) <= _quantile(freedom) else Outcome.DIFFERS, difference, errors, note)


def _standard_error(ours: _Side, theirs: _Side) -> tuple[float | None, float, str]:
    """√(s₁²/n₁ + s₂²/n₂) with Welch's degrees of freedom; s·√(1 + 1/n) where one side alone has a spread."""
    if ours.std is not None and theirs.std is not None:
        parts = [side.std**2 / side.seeds for side in (ours, theirs) if side.std is not None]
        shares = sum(part**2 / (side.seeds - 1) for part, side in zip(parts, (ours, theirs), strict=True))
        return math.sqrt(sum(parts)), sum(parts) ** 2 / shares if shares else 1.0, ""
    for known, note in ((ours, "no published spread"), (theirs, "one seed of ours")):
        if known.std is not None:
            return known.std * math.sqrt(1 + 1 / known.seeds), known.seeds - 1, note
    return None, 1.0, ""


def _quantile(freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + LEVEL) / 2))
