"""Comparison of our numbers with a published figure by one rule: a difference, and the limit that it may not pass.

The limit is t · s.e. of the difference, or the rounding of the printed figure where that is larger. Both sides with a
spread over seeds: Welch's t. If only one side reports a spread, the other is assumed to have the same one. Neither: a
fixed tolerance per kind of number. Beyond its limit a number differs. Two numbers within it, but farther apart than the
tolerance and the printed digits, are undecided: too few seeds cannot establish agreement. Scales (norms, growth) are
compared as decimal logarithms. An event that did not happen within our epochs says nothing about later ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from statistics import fmean, stdev
from typing import Literal

from creditscope.batch import PUBLISHED_BATCH
from creditscope.papers.published import PublishedFigure
from creditscope.records.labels import counted
from creditscope.statistics.intervals import t_quantile

Kind = Literal["share", "cosine", "size", "scale", "spread", "points", "degrees", "count", "epoch", "flags"]
LOGARITHMIC = ("scale", "spread")
DRAWS = 20  # behind a spread of a null

# Where neither side has a spread. A share: most methods have a standard deviation below 2 points between
# seeds. A cosine: twice the spread of a null. A scale, or a number of any size: half a decade, since such
# figures are printed with one digit.
TOLERANCE: dict[str, float] = {
    "share": 0.02, "cosine": 0.05, "scale": 0.5, "size": 0.5, "points": 2.0, "degrees": 2.0, "count": 0.0, "epoch": 0.0
}  # fmt: skip
COARSE = {"epoch": 1.0}  # where there is a spread: a history has one row an epoch


class Agreement(StrEnum):
    """How our numbers and a published figure relate."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNDECIDED = "undecided"
    NOT_PUBLISHED = "not published"
    NOT_RUN = "not run"


class Basis(StrEnum):
    """Where the limit of a difference comes from."""

    BOTH = "spreads of both sides"
    OURS = "no published spread, ours stands for both"
    THEIRS = "a single seed of ours, the published spread stands for both"
    DRAWS = "error of a spread of 20 draws"
    DIGITS = "rounding of the printed figure"
    TOLERANCE = "no spread, fixed tolerance"


@dataclass(frozen=True, slots=True)
class Difference:
    """Ours minus published, and the size beyond which it differs (scales: of logarithms).

    errors           the difference in standard errors, where a spread is known
    standard_error   of the difference, with its degrees of freedom
    limit            None also for a number of any size without a spread: its tolerance is in decades
    """

    agreement: Agreement
    difference: float | None = None
    errors: float | None = None
    note: str = ""
    limit: float | None = None
    basis: Basis | None = None
    standard_error: float | None = None
    freedom: float | None = None


@dataclass(frozen=True, slots=True)
class _Side:
    """Numbers on one side: centre, spread (None if unknown), how many seeds stand behind it, and what it may round."""

    mean: float
    std: float | None
    seeds: int
    printed: tuple[float, float] = (math.nan, math.nan)


def compare(
    values: Sequence[float],
    figure: PublishedFigure | None,
    kind: Kind,
    epochs: int | None = None,
    published_epochs: int | None = None,
) -> Difference:
    """Compare our values, one per seed, with a published figure; the lengths of training matter for events."""
    if not values:
        return Difference(Agreement.NOT_RUN)
    if figure is None:
        return Difference(Agreement.NOT_PUBLISHED)
    if any(math.isnan(value) for value in values):
        return Difference(Agreement.DIFFERS, note=_affected("undefined", [math.isnan(value) for value in values]))
    endless = [math.isinf(value) for value in values]
    if kind == "epoch" and (figure.never or any(endless)):
        return _events(endless, figure, epochs, published_epochs)
    if any(endless):
        return Difference(Agreement.DIFFERS, note=_affected("infinite", endless))
    if kind in LOGARITHMIC and min(values) <= 0:
        return _without_logarithm(values, figure)
    ours = _side([_on_scale(value, kind) for value in values])
    return _judged(ours, _theirs(figure, ours.mean, kind), kind)


def errors_apart(values: Sequence[float], figure: PublishedFigure, kind: Kind) -> float:
    """|ours - published| in standard errors, the published spread standing for both sides; infinite if ours has none.

    Without a published spread half the tolerance of the kind counts as one, for a number of any size half of itself.
    0 within the digits of a printed figure.
    """
    usable = all(math.isfinite(value) for value in values) and (kind not in LOGARITHMIC or min(values) > 0)
    if not usable:
        return math.inf
    ours = _side([_on_scale(value, kind) for value in values])
    theirs = _theirs(figure, ours.mean, kind)
    if theirs.printed[0] <= ours.mean <= theirs.printed[1]:
        return 0.0
    error = theirs.std * math.sqrt(1 / ours.seeds + 1 / theirs.seeds) if theirs.std else None
    whole = abs(theirs.mean) if kind == "size" else TOLERANCE[kind]
    return abs(ours.mean - theirs.mean) / (error or whole / 2)


def compare_flags(
    seeds: Sequence[tuple[str, ...]], figure: PublishedFigure | None, unknown: Sequence[tuple[str, ...]] = ()
) -> Difference:
    """Compare the flags of each seed with the published ones; `unknown` are the flags that were not measured on it."""
    if not seeds:
        return Difference(Agreement.NOT_RUN)
    if figure is None or figure.flags is None:
        return Difference(Agreement.NOT_PUBLISHED)
    gaps = list(unknown) or [()] * len(seeds)
    answers = [_same(flags, figure, gap) for flags, gap in zip(seeds, gaps, strict=True)]
    same = sum(answer is True for answer in answers)
    absent = ", ".join(dict.fromkeys(flag for gap in gaps for flag in gap))
    parts = [f"the same on {same} of {len(seeds)} seeds" if len(seeds) > 1 else ""]
    parts.append(f"{absent} not measured" if absent else "")
    agreement = Agreement.DIFFERS if False in answers else Agreement.NOT_RUN if None in answers else Agreement.AGREES
    return Difference(agreement, note="; ".join(part for part in parts if part))


def _same(flags: tuple[str, ...], figure: PublishedFigure, unknown: tuple[str, ...]) -> bool | None:
    """Whether the flags of one seed are the published ones; None where those that are not known would decide."""
    if set(flags) != set(figure.flags or ()) - set(unknown):
        return False
    return None if set(unknown) - set(figure.unmeasured) else True


def _events(absent: Sequence[bool], figure: PublishedFigure, epochs: int | None, theirs: int | None) -> Difference:
    """Epochs of an event that did not happen in some of our runs."""
    within = "" if epochs is None else f" within {counted(epochs, 'epoch')}"
    shorter = epochs is not None and theirs is not None and epochs < theirs
    if figure.never and all(absent):
        note = f"ours: not{within}" + (f", theirs: not within {theirs}" if shorter else "")
        return Difference(Agreement.UNDECIDED if shorter else Agreement.AGREES, note=note)
    if figure.never:
        return Difference(Agreement.DIFFERS)
    latest = max(figure.values or ((figure.mean,) if figure.mean is not None else ()), default=math.inf)
    later = epochs is not None and latest > epochs
    note = f"not{within} on {sum(absent)} of {len(absent)} of our seeds"
    return Difference(Agreement.UNDECIDED if later else Agreement.DIFFERS, note=note)


def _affected(word: str, where: Sequence[bool]) -> str:
    return f"ours is {word}" + ("" if all(where) else f" on {sum(where)} of {len(where)} seeds")


def _without_logarithm(values: Sequence[float], figure: PublishedFigure) -> Difference:
    """A zero agrees with a range that holds all of ours, and with nothing else."""
    low = -math.inf if figure.low is None else figure.low
    inside = figure.high is not None and all(low <= value <= figure.high for value in values)
    return Difference(Agreement.AGREES if inside else Agreement.DIFFERS, note="ours is 0, which has no logarithm")


def _theirs(figure: PublishedFigure, near: float, kind: Kind) -> _Side:
    """The published side; of a range the point that lies nearest to ours."""
    if figure.values:
        return _side([_on_scale(value, kind) for value in figure.values])
    if figure.high is not None:
        other = figure.high if figure.low is None else figure.low  # both ends are printed alike, 0.60 to 0.61
        low = -math.inf if figure.low is None else figure.low
        ends = (low if figure.low is None else rounded(low, figure.high)[0], rounded(figure.high, other)[1])
        nearest = min(max(near, _on_scale(low, kind)), _on_scale(figure.high, kind))
        return _Side(nearest, None, 1, (_on_scale(ends[0], kind), _on_scale(ends[1], kind)))
    if figure.mean is None:
        return _Side(math.nan, None, 1)
    batches = figure.images / PUBLISHED_BATCH  # the norm of a batch-mean gradient shrinks with the size of the batch
    centre = _on_scale(figure.mean * batches, kind)
    std = None if kind in LOGARITHMIC else figure.std
    if std is not None:
        return _Side(centre, std, figure.seeds)
    low, high = (_on_scale(end * batches, kind) for end in rounded(figure.mean))
    return _Side(centre, None, figure.seeds, (math.nan, math.nan) if kind in ("count", "epoch") else (low, high))


def rounded(printed: float, *alike: float) -> tuple[float, float]:
    """The numbers that a figure may stand for: half a unit of its last digit to either side.

    alike   figures that were printed with the same digits, since a final 0 is not seen
    """
    exponents = [Decimal(repr(one)).normalize().as_tuple().exponent for one in (printed, *alike) if one]
    half = 0.5 * 10.0 ** min(one for one in exponents if isinstance(one, int)) if printed and exponents else 0.0
    return printed - half, printed + half


def _side(values: Sequence[float]) -> _Side:
    return _Side(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def _on_scale(value: float, kind: Kind) -> float:
    if kind not in LOGARITHMIC:
        return value
    return math.log10(value) if value > 0 else -math.inf


def _judged(ours: _Side, theirs: _Side, kind: Kind) -> Difference:
    difference = ours.mean - theirs.mean
    if math.isnan(difference):
        return Difference(Agreement.NOT_PUBLISHED)
    error, freedom, basis = _error_of_spreads(ours) if kind == "spread" else _standard_error(ours, theirs)
    same = theirs.printed[0] <= ours.mean <= theirs.printed[1]
    digits = _rounding(theirs, difference) if same else 0.0
    distance, tolerance = _distance(ours.mean, theirs.mean, kind), TOLERANCE.get(kind, math.inf)
    if error is None or error == 0:
        agreement = Agreement.AGREES if same or distance <= tolerance else Agreement.DIFFERS
        if digits > tolerance or (same and kind == "size"):
            return Difference(agreement, difference, limit=digits, basis=Basis.DIGITS)
        return Difference(agreement, difference, limit=None if kind == "size" else tolerance, basis=Basis.TOLERANCE)
    errors, limit = difference / error, t_quantile(freedom) * error
    apart = distance > COARSE.get(kind, tolerance)
    if same:
        agreement = Agreement.AGREES
    elif abs(difference) > limit:
        agreement = Agreement.DIFFERS
    else:
        agreement = Agreement.UNDECIDED if apart else Agreement.AGREES
    if digits > limit:
        limit, basis = digits, Basis.DIGITS
    return Difference(agreement, difference, errors, "", limit, basis, error, freedom)


def _rounding(theirs: _Side, difference: float) -> float:
    """How far the number behind a printed figure may lie from it, on the side of ours."""
    low, high = theirs.printed
    return high - theirs.mean if difference >= 0 else theirs.mean - low


def welch_of(left: PublishedFigure, right: PublishedFigure) -> tuple[float, float]:
    """Welch's 95 % interval of the difference of two published means; NaN where a spread was not published."""
    if left.mean is None or right.mean is None or left.std is None or right.std is None:
        return math.nan, math.nan
    sides = (_Side(left.mean, left.std, left.seeds), _Side(right.mean, right.std, right.seeds))
    error, freedom, _ = _standard_error(*sides)
    half = t_quantile(freedom) * (error or 0.0)
    return left.mean - right.mean - half, left.mean - right.mean + half


def _distance(ours: float, theirs: float, kind: Kind) -> float:
    """|ours - theirs|; of a number of any size in decades, infinite where the signs differ."""
    if kind != "size":
        return abs(ours - theirs)
    return abs(math.log10(ours / theirs)) if ours * theirs > 0 else 0.0 if ours == theirs else math.inf


def _error_of_spreads(ours: _Side) -> tuple[float, float, Basis]:
    """The logarithm of a standard deviation of m draws has the error 1/(ln 10 · √(2(m - 1))), on either side."""
    own = 1 / (math.log(10) * math.sqrt(2 * (DRAWS - 1)))
    return own * math.sqrt(1 + 1 / ours.seeds), DRAWS - 1.0, Basis.DRAWS


def _standard_error(ours: _Side, theirs: _Side) -> tuple[float | None, float, Basis]:
    """√(s₁²/n₁ + s₂²/n₂) with Welch's degrees of freedom; s·√(1/n₁ + 1/n₂) where one side alone has a spread."""
    if ours.std is not None and theirs.std is not None:
        parts = [side.std**2 / side.seeds for side in (ours, theirs) if side.std is not None]
        shares = sum(part**2 / (side.seeds - 1) for part, side in zip(parts, (ours, theirs), strict=True))
        return math.sqrt(sum(parts)), sum(parts) ** 2 / shares if shares else 1.0, Basis.BOTH
    for known, basis in ((ours, Basis.OURS), (theirs, Basis.THEIRS)):
        if known.std is not None:
            return known.std * math.sqrt(1 / ours.seeds + 1 / theirs.seeds), known.seeds - 1, basis
    return None, 1.0, Basis.TOLERANCE
