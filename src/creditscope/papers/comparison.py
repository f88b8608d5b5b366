"""Do two numbers agree?  Ours against the published one, in standard errors, with the rule that was used.

Both sides with a spread over seeds: Welch's t. One side only: the other is read as a mean of as many draws with the
same spread. Neither: a fixed tolerance per kind of number. Two numbers that the spreads do not tell apart, though they
are farther from each other than that tolerance, are left undecided: too few seeds are no agreement. Scales (norms,
growth) are compared as decimal logarithms. A figure that was printed without a spread is known to its last digit only:
ours agrees with it wherever it would be printed the same. An event that did not come within our epochs says nothing
about later ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from statistics import fmean, stdev
from typing import Literal

from creditscope.papers.published import USUAL, Figure
from creditscope.statistics.intervals import LEVEL

Kind = Literal["share", "cosine", "size", "scale", "spread", "points", "count", "epoch", "flags"]
LOGARITHMIC = ("scale", "spread")
DRAWS = 20  # behind a spread of a null

# Where neither side has a spread. A share: seeds of one method differ by less than 2 points. A cosine: twice
# the spread of a null. A scale, or a number of any size: half a decade, since such figures are printed with one digit.
TOLERANCE: dict[str, float] = {
    "share": 0.02, "cosine": 0.05, "scale": 0.5, "size": 0.5, "points": 2.0, "count": 0.0, "epoch": 0.0
}  # fmt: skip
COARSE = {"epoch": 1.0}  # where there is a spread: a history has one row an epoch
USUAL_LIMIT = 2.0  # standard errors that a reader takes for a difference


class Outcome(StrEnum):
    """What is said of a row."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNDECIDED = "undecided"
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


def compare(
    values: Sequence[float], figure: Figure | None, kind: Kind, epochs: int | None = None, over: int | None = None
) -> Compared:
    """Set our values, one per seed, beside a published figure; ours were trained for `epochs`, theirs for `over`."""
    if not values:
        return Compared(Outcome.NOT_RUN)
    if figure is None:
        return Compared(Outcome.NOT_PUBLISHED)
    if any(math.isnan(value) for value in values):
        return Compared(Outcome.DIFFERS, note=_told("undefined", [math.isnan(value) for value in values]))
    endless = [math.isinf(value) for value in values]
    if kind == "epoch" and (figure.never or any(endless)):
        return _events(endless, figure, epochs, over)
    if any(endless):
        return Compared(Outcome.DIFFERS, note=_told("infinite", endless))
    if kind in LOGARITHMIC and min(values) <= 0:
        return _without_logarithm(values, figure)
    ours = _side([_on_scale(value, kind) for value in values])
    return _judged(ours, _theirs(figure, ours.mean, kind), kind)


def compare_flags(
    found: Sequence[tuple[str, ...]], figure: Figure | None, unknown: Sequence[tuple[str, ...]] = ()
) -> Compared:
    """Flags per seed against the published ones; they agree if they are the same on every seed.

    unknown   flags per seed that were not measured; they may be absent where theirs were not measured either
    """
    if not found:
        return Compared(Outcome.NOT_RUN)
    if figure is None or figure.flags is None:
        return Compared(Outcome.NOT_PUBLISHED)
    gaps = list(unknown) or [()] * len(found)
    answers = [_same(flags, figure, gap) for flags, gap in zip(found, gaps, strict=True)]
    same = sum(answer is True for answer in answers)
    absent = ", ".join(dict.fromkeys(flag for gap in gaps for flag in gap))
    parts = [f"the same on {same} of {len(found)} seeds" if len(found) > 1 else ""]
    parts.append(f"{absent} not measured" if absent else "")
    outcome = Outcome.DIFFERS if False in answers else Outcome.NOT_RUN if None in answers else Outcome.AGREES
    return Compared(outcome, note="; ".join(part for part in parts if part))


def _same(flags: tuple[str, ...], figure: Figure, unknown: tuple[str, ...]) -> bool | None:
    """Whether the flags of one seed are the published ones; None where those that are not known would decide."""
    if set(flags) != set(figure.flags or ()) - set(unknown):
        return False
    return None if set(unknown) - set(figure.unmeasured) else True


def _events(absent: Sequence[bool], figure: Figure, epochs: int | None, over: int | None) -> Compared:
    """Epochs of an event, some of which did not come while ours were trained."""
    within = "" if epochs is None else f" within {epochs} epochs"
    shorter = epochs is not None and over is not None and epochs < over
    if figure.never and all(absent):
        note = f"ours: not{within}" + (f", theirs: not within {over}" if shorter else "")
        return Compared(Outcome.UNDECIDED if shorter else Outcome.AGREES, note=note)
    if figure.never:
        return Compared(Outcome.DIFFERS)
    latest = max(figure.values or ((figure.mean,) if figure.mean is not None else ()), default=math.inf)
    later = epochs is not None and latest > epochs
    note = f"not{within} on {sum(absent)} of {len(absent)} of our seeds"
    return Compared(Outcome.UNDECIDED if later else Outcome.DIFFERS, note=note)


def _told(word: str, where: Sequence[bool]) -> str:
    return f"ours is {word}" + ("" if all(where) else f" on {sum(where)} of {len(where)} seeds")


def _without_logarithm(values: Sequence[float], figure: Figure) -> Compared:
    """A zero agrees with a range that holds all of ours, and with nothing else."""
    low = -math.inf if figure.low is None else figure.low
    inside = figure.high is not None and all(low <= value <= figure.high for value in values)
    return Compared(Outcome.AGREES if inside else Outcome.DIFFERS, note="ours is 0, which has no logarithm")


def _theirs(figure: Figure, near: float, kind: Kind) -> _Side:
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
    usual = figure.images / USUAL  # a norm of a batch-mean gradient is smaller by the size of the batch
    centre = _on_scale(figure.mean * usual, kind)
    std = None if kind in LOGARITHMIC else figure.std
    if std is not None:
        return _Side(centre, std, figure.seeds)
    low, high = (_on_scale(end * usual, kind) for end in rounded(figure.mean))
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


def _judged(ours: _Side, theirs: _Side, kind: Kind) -> Compared:
    difference = ours.mean - theirs.mean
    if math.isnan(difference):
        return Compared(Outcome.NOT_PUBLISHED)
    error, freedom, note = _error_of_spreads(ours) if kind == "spread" else _standard_error(ours, theirs)
    same = theirs.printed[0] <= ours.mean <= theirs.printed[1]
    if error is None or error == 0:
        within = same or _distance(ours.mean, theirs.mean, kind) <= TOLERANCE[kind]
        unit = " decades" if kind in ("scale", "size") else ""
        rule = f"no spread: compared within {TOLERANCE[kind]:g}{unit}" if TOLERANCE[kind] else ""
        return Compared(Outcome.AGREES if within else Outcome.DIFFERS, difference, None, rule)
    errors, limit = difference / error, _quantile(freedom)
    apart = _distance(ours.mean, theirs.mean, kind) > (TOLERANCE | COARSE).get(kind, math.inf)
    if same:
        outcome, why = Outcome.AGREES, "the same to the printed digits" if abs(errors) > limit else ""
    elif abs(errors) > limit:
        outcome, why = Outcome.DIFFERS, ""
    else:
        outcome = Outcome.UNDECIDED if apart else Outcome.AGREES
        why = f"so few seeds tell apart from {limit:.1f} s.e. on" if apart or abs(errors) > USUAL_LIMIT else ""
    return Compared(outcome, difference, errors, "; ".join(part for part in (note, why) if part))


def welch_of(left: Figure, right: Figure) -> tuple[float, float]:
    """Welch's 95 % interval of the difference of two published means; NaN where a spread was not published."""
    if left.mean is None or right.mean is None or left.std is None or right.std is None:
        return math.nan, math.nan
    sides = (_Side(left.mean, left.std, left.seeds), _Side(right.mean, right.std, right.seeds))
    error, freedom, _ = _standard_error(*sides)
    half = _quantile(freedom) * (error or 0.0)
    return left.mean - right.mean - half, left.mean - right.mean + half


def _distance(ours: float, theirs: float, kind: Kind) -> float:
    """|ours - theirs|; of a number of any size in decades, infinite where the signs differ."""
    if kind != "size":
        return abs(ours - theirs)
    return abs(math.log10(ours / theirs)) if ours * theirs > 0 else 0.0 if ours == theirs else math.inf


def _error_of_spreads(ours: _Side) -> tuple[float, float, str]:
    """The logarithm of a standard deviation of m draws has the error 1/(ln 10 · √(2(m - 1))), on either side."""
    own = 1 / (math.log(10) * math.sqrt(2 * (DRAWS - 1)))
    return own * math.sqrt(1 + 1 / ours.seeds), DRAWS - 1.0, f"error of a spread of {DRAWS} draws"


def _standard_error(ours: _Side, theirs: _Side) -> tuple[float | None, float, str]:
    """√(s₁²/n₁ + s₂²/n₂) with Welch's degrees of freedom; s·√(1/n₁ + 1/n₂) where one side alone has a spread."""
    if ours.std is not None and theirs.std is not None:
        parts = [side.std**2 / side.seeds for side in (ours, theirs) if side.std is not None]
        shares = sum(part**2 / (side.seeds - 1) for part, side in zip(parts, (ours, theirs), strict=True))
        return math.sqrt(sum(parts)), sum(parts) ** 2 / shares if shares else 1.0, ""
    for known, note in ((ours, "no published spread"), (theirs, "one seed of ours")):
        if known.std is not None:
            return known.std * math.sqrt(1 / ours.seeds + 1 / theirs.seeds), known.seeds - 1, note
    return None, 1.0, ""


def _quantile(freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + LEVEL) / 2))
