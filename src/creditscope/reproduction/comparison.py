"""Do two numbers agree?  Ours against the published one, in standard errors, with the rule that was used.

Both sides with a spread over seeds: Welch's t. One side only: the other is read as one more draw of it. Neither: a
fixed tolerance per kind of number. Scales (norms, growth) are compared as decimal logarithms. A figure that was printed
without a spread is known to its last digit only: ours agrees with it wherever it would be printed the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from statistics import fmean, stdev
from typing import Literal

from creditscope.intervals import LEVEL
from creditscope.reproduction.published import Figure

Kind = Literal["share", "cosine", "scale", "points", "count", "flags"]

# Where neither side has a spread. A share: seeds of one method differ by less than 2 points. A cosine: twice
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
    """Numbers on one side: centre, spread (None if unknown), how many seeds stand behind it, and what it may round."""

    mean: float
    std: float | None
    seeds: int
    printed: tuple[float, float] = (math.nan, math.nan)


def compare(values: Sequence[float], figure: Figure | None, kind: Kind) -> Compared:
    """Set our values, one per seed, beside a published figure."""
    if not values:
        return Compared(Outcome.NOT_RUN)
    if figure is None:
        return Compared(Outcome.NOT_PUBLISHED)
    if any(math.isnan(value) for value in values):
        return Compared(Outcome.DIFFERS, note=_told("undefined", [math.isnan(value) for value in values]))
    endless = [math.isinf(value) for value in values]
    if figure.never:
        return Compared(Outcome.AGREES if all(endless) else Outcome.DIFFERS)
    if any(endless):
        return Compared(Outcome.DIFFERS, note=_told("never" if kind == "count" else "infinite", endless))
    if kind == "scale" and min(values) <= 0:
        return _without_logarithm(values, figure)
    ours = _side([_on_scale(value, kind) for value in values])
    return _judged(ours, _theirs(figure, ours.mean, kind), kind)


def compare_flags(
    found: Sequence[tuple[str, ...]], figure: Figure | None, unknown: Sequence[tuple[str, ...]] = ()
) -> Compared:
    """Flags per seed against the published ones; they agree if they are the same on every seed.

    unknown   flags per seed that were not measured. (d) alone may be absent, if it was not raised there either.
    """
    if not found:
        return Compared(Outcome.NOT_RUN)
    if figure is None or figure.flags is None:
        return Compared(Outcome.NOT_PUBLISHED)
    gaps = list(unknown) or [()] * len(found)
    answers = [_same(flags, figure.flags, gap) for flags, gap in zip(found, gaps, strict=True)]
    same = sum(answer is True for answer in answers)
    absent = ", ".join(dict.fromkeys(flag for gap in gaps for flag in gap))
    parts = [f"the same on {same} of {len(found)} seeds" if len(found) > 1 else ""]
    parts.append(f"{absent} not measured" if absent else "")
    outcome = Outcome.DIFFERS if False in answers else Outcome.NOT_RUN if None in answers else Outcome.AGREES
    return Compared(outcome, note="; ".join(part for part in parts if part))


def _same(flags: tuple[str, ...], theirs: tuple[str, ...], unknown: tuple[str, ...]) -> bool | None:
    """Whether the flags of one seed are the published ones; None where those that are not known would decide."""
    if set(flags) != set(theirs) - set(unknown):
        return False
    return None if set(unknown) & {*theirs, "(a)", "(b)"} else True


def _told(word: str, where: Sequence[bool]) -> str:
    return f"ours is {word}" + ("" if all(where) else f" on {sum(where)} of {len(where)} seeds")


def _without_logarithm(values: Sequence[float], figure: Figure) -> Compared:
    """A zero agrees with a range that holds all of ours, and with nothing else."""
    low, high = figure.low, figure.high
    inside = low is not None and high is not None and all(low <= value <= high for value in values)
    return Compared(Outcome.AGREES if inside else Outcome.DIFFERS, note="ours is 0, which has no logarithm")


def _theirs(figure: Figure, near: float, kind: Kind) -> _Side:
    """The published side; of a range the point that lies nearest to ours."""
    if figure.values:
        return _side([_on_scale(value, kind) for value in figure.values])
    if figure.low is not None and figure.high is not None:
        low, high = _on_scale(figure.low, kind), _on_scale(figure.high, kind)
        return _Side(min(max(near, low), high), None, 1)
    if figure.mean is None:
        return _Side(math.nan, None, 1)
    std = None if kind == "scale" else figure.std
    if std is not None:
        return _Side(_on_scale(figure.mean, kind), std, figure.seeds)
    low, high = (_on_scale(end, kind) for end in rounded(figure.mean))
    return _Side(_on_scale(figure.mean, kind), None, 1, (math.nan, math.nan) if kind == "count" else (low, high))


def rounded(printed: float) -> tuple[float, float]:
    """The numbers that a figure may stand for: half a unit of its last digit to either side."""
    exponent = Decimal(repr(printed)).normalize().as_tuple().exponent
    half = 0.5 * 10.0**exponent if printed and isinstance(exponent, int) else 0.0
    return printed - half, printed + half


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
    same = theirs.printed[0] <= ours.mean <= theirs.printed[1]
    if error is None or error == 0:
        within = same or abs(difference) <= TOLERANCE[kind]
        unit = " decades" if kind == "scale" else ""
        rule = f"no spread: compared within {TOLERANCE[kind]:g}{unit}" if TOLERANCE[kind] else ""
        return Compared(Outcome.AGREES if within else Outcome.DIFFERS, difference, None, rule)
    errors = difference / error
    if same and abs(errors) > _quantile(freedom):
        return Compared(Outcome.AGREES, difference, errors, f"{note}; the same to the printed digits")
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
