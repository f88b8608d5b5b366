"""What is a qualitative claim?  A sentence that records answer: it holds, it fails, or it is undecided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from creditscope.papers.book import Book


class Standing(StrEnum):
    """What the records say of a claim."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said, why, and the runs behind it."""

    standing: Standing
    because: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One run, or one group of runs, held against a claim; `holds` is None where it cannot tell."""

    said: str
    holds: bool | None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, the experiment whose runs answer it, and how."""

    statement: str
    experiment: str
    ask: Callable[[Book], Answer]


def all_of(answers: Iterable[bool | None]) -> bool | None:
    """Whether all are true: one that is false settles it, one that is not known leaves it open."""
    found = list(answers)
    return False if False in found else None if None in found else True


def together(cases: Sequence[Case], wanted: int) -> Answer:
    """One counterexample fails a claim; it holds when all wanted cases are there and say so."""
    keys = tuple(dict.fromkeys(key for case in cases for key in case.keys))
    because = "; ".join(case.said for case in cases) or "no run yet"
    if any(case.holds is False for case in cases):
        return Answer(Standing.FAILS, because, keys)
    if not cases or len(cases) < wanted:
        return Answer(Standing.UNDECIDED, f"{because} ({len(cases)} of {wanted} are there)", keys)
    undecided = any(case.holds is None for case in cases)
    return Answer(Standing.UNDECIDED if undecided else Standing.HOLDS, because, keys)
