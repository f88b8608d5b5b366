"""Clauses of the contract: what one states, what it cannot see, and the outcome of checking it on a rule."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from creditscope.conformance.subject import CheckedRule

MOST = 3  # faults that a result names


class Outcome(StrEnum):
    """Of one clause on one rule."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_CHECKED = "not checked"


class NotChecked(Exception):
    """Raised by a clause that has nothing to check on this rule and network; its text says why.

    unknown   what nobody knows of the rule now, and what would help; empty if the clause does not apply to it
    """

    def __init__(self, why: str, unknown: str = "") -> None:
        super().__init__(why)
        self.unknown = unknown


@dataclass(frozen=True, slots=True)
class Remark:
    """What a clause found: a fault, or a note that does not count against the rule."""

    text: str
    fault: bool = True


def note(text: str) -> Remark:
    """A remark that is no fault."""
    return Remark(text, fault=False)


@dataclass(frozen=True, slots=True)
class ClauseResult:
    """The outcome of one clause.

    clause   its name
    states   what it states
    blind    what it cannot see; empty if nothing is known
    detail   the faults, why it was not checked, or what was measured
    unknown  what stays unknown of the rule because it was not checked; empty if nothing does
    """

    clause: str
    states: str
    blind: str
    outcome: Outcome
    detail: str
    seconds: float
    unknown: str = ""


Check = Callable[[CheckedRule], Iterator[Remark]]


@dataclass(frozen=True, slots=True)
class Clause:
    """One promise of a rule; `check` yields what speaks against it."""

    name: str
    states: str
    check: Check
    blind: str = ""

    def result(self, subject: CheckedRule) -> ClauseResult:
        """The outcome on one rule; an error that the rule raises is a fault of the rule."""
        started, remarks, outcome, unknown = time.perf_counter(), list[Remark](), Outcome.HOLDS, ""
        try:
            for remark in self.check(subject):
                remarks.append(remark)
        except NotChecked as reason:
            remarks.append(note(str(reason)))
            outcome, unknown = Outcome.NOT_CHECKED, reason.unknown
        except Exception as error:  # noqa: BLE001  the rule is somebody else's code: whatever it raises is the finding
            remarks.append(Remark(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"))
        faults = [remark.text for remark in remarks if remark.fault]
        texts = faults or [remark.text for remark in remarks]
        more = [f"and {len(texts) - MOST} more"] if len(texts) > MOST else []
        detail = "; ".join([*texts[:MOST], *more])
        seconds = time.perf_counter() - started
        outcome = Outcome.FAILS if faults else outcome
        return ClauseResult(self.name, self.states, self.blind, outcome, detail, seconds, unknown)


def clause(name: str, *, states: str, blind: str = "") -> Callable[[Check], Clause]:
    """Make a clause of a function that yields remarks."""
    return lambda check: Clause(name, states, check, blind)
