"""Claims: sentences that hold, fail or stay undecided, as computed from records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from creditscope.papers.archive import RunArchive, SelectedRuns
from creditscope.records.run import RunRecord


class ClaimStatus(StrEnum):
    """The answer of the records to a claim."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Answer:
    """The status of a claim, the evidence in words, and the runs behind it."""

    status: ClaimStatus
    because: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One run, or one group of runs, tested against a claim; `holds` is None if it cannot decide."""

    text: str
    holds: bool | None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, the experiment whose runs answer it, the function that does, and its rule in words for the page."""

    statement: str
    experiment: str
    ask: Callable[[RunArchive], Answer]
    holds_if: str


def claim(statement: str, experiment: str, *, holds_if: str) -> Callable[[Callable[[RunArchive], Answer]], Claim]:
    """Make a claim of the function below: it answers this sentence from the runs of an experiment, by this rule."""
    return lambda ask: Claim(statement, experiment, ask, holds_if)


def each_run(runs: SelectedRuns, judge: Callable[[RunRecord], tuple[str, bool | None]], group: str = "") -> list[Case]:
    """One case for every run, named by its group and seed; `judge` gives the evidence and whether it holds."""
    judged = {key: judge(record) for key, record in runs.records.items()}
    name = f"{group}, " if group else ""
    return [Case(f"{name}seed {runs.specs[key].seed}: {text}", holds, (key,)) for key, (text, holds) in judged.items()]


def all_of(answers: Iterable[bool | None]) -> bool | None:
    """Whether all are true: a false one settles it, an unknown one leaves it open."""
    known = list(answers)
    return False if False in known else None if None in known else True


def any_of(answers: Iterable[bool | None]) -> bool | None:
    """Whether any is true: a true one settles it, an unknown one leaves it open."""
    known = list(answers)
    return True if True in known else None if None in known else False


def decide(cases: Sequence[Case], wanted: int) -> Answer:
    """One counterexample makes a claim fail; it holds if all wanted cases exist and hold."""
    keys = tuple(dict.fromkeys(key for case in cases for key in case.keys))
    because = "; ".join(case.text for case in cases) or "no run yet"
    if any(case.holds is False for case in cases):
        return Answer(ClaimStatus.FAILS, because, keys)
    if not cases or len(cases) < wanted:
        return Answer(ClaimStatus.UNDECIDED, f"{because} ({len(cases)} of {wanted} cases available)", keys)
    undecided = any(case.holds is None for case in cases)
    return Answer(ClaimStatus.UNDECIDED if undecided else ClaimStatus.HOLDS, because, keys)
