"""Failure modes: what each one needs to be shown, what it means, and the sentence that a page opens with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from creditscope.verdict import Finding, Reason, Status


@dataclass(frozen=True, slots=True)
class Cited:
    """A number of a report: the value or the limit of a finding, or one of the two accuracies that D3 compares."""

    of: str  # a code, ACCURACY or CONTROL
    part: Literal["value", "limit"] = "value"


ACCURACY, CONTROL = "accuracy", "control accuracy"


@dataclass(frozen=True, slots=True)
class Headline:
    """A mode in words: what to say if it is shown, ruled out or open, and the numbers that carry each of the three.

    shown, question   "The accuracy is not earned by depth", "whether the accuracy is earned by depth"
    ruled_out  said of a network that passes; empty for modes that a PASS does not rest on
    because    a clause with a placeholder for every number
    numbers    what the placeholders cite
    leads      whether it is said first where several modes are shown or open
    """

    shown: str
    question: str
    because: str
    numbers: Mapping[str, Cited]
    ruled_out: str = ""
    leads: bool = False


@dataclass(frozen=True, slots=True)
class Mode:
    """A failure mode: shown when all its diagnostics fire, ruled out when any of them passes.

    requires  maps a code to the cause that counts ("" = any). A diagnostic that fires for another cause counts as
              passed: a reference that is small because the network fits its data has not collapsed.
    excused   maps a code to the cause that does not count: a diagnostic that fires for it counts as passed
    headline  the mode in words, with the numbers that carry it
    flag, letter  its names in protocols that judge by flags
    consequence   a sentence that several modes may share and the reader is told once
    instead   the mode that is judged in its place where the control that it needs was not supplied
    """

    name: str
    means: str
    requires: Mapping[str, str]
    headline: Headline = field(kw_only=True)
    flag: str = ""
    letter: str = ""
    consequence: str = ""
    instead: Mode | None = None
    excused: Mapping[str, str] = field(default_factory=dict)

    def judged(self, findings: Mapping[str, Finding]) -> Mode:
        """This mode, or the one in its place."""
        if self.instead is None:
            return self
        without = [findings[code] for code in self.requires if code in findings]
        other = [findings.get(code) for code in self.instead.requires]
        lacks = any(finding.reason is Reason.NO_CONTROL for finding in without)
        known = all(finding is not None and finding.status is not Status.SKIPPED for finding in other)
        return self.instead if lacks and known else self

    def state(self, findings: Mapping[str, Finding]) -> Literal["shown", "ruled out", "open"]:
        """What the findings say about this mode."""
        answers = [self._answer(findings.get(code), code) for code in self.requires]
        if all(answer is Status.FIRES for answer in answers):
            return "shown"
        return "ruled out" if Status.PASS in answers else "open"

    def _answer(self, finding: Finding | None, code: str) -> Status:
        if finding is None:
            return Status.SKIPPED
        cause = self.requires[code]
        if finding.status is Status.FIRES and cause and finding.cause != cause:
            return Status.PASS if finding.cause else Status.UNDEFINED
        excused = finding.status is Status.FIRES and finding.cause and finding.cause == self.excused.get(code)
        return Status.PASS if excused else finding.status


INVALID = (
    "The reference gradient fell below the clamp of the usual cosine, so that Γ as usually computed is invalid. Exact "
    "Γ is not."
)
EXPLODES = (
    "The stream explodes, but the reference stays above the clamp of the usual cosine: Γ is valid. Norms, penalties "
    "and absolute steps are not comparable across these states."
)
WITHOUT_GROWTH = "without growth"  # the cause of a reference that collapsed at states where the stream has not grown
NON_FINITE = Mode(
    "non-finite numbers",
    "The network holds numbers that are not finite.",
    {"D0": ""},
    headline=Headline(
        "The network holds numbers that are not finite",
        "whether every number is finite",
        "{count} of them",
        {"count": Cited("D0")},
        leads=True,
    ),
    flag="non-finite",
    letter="non-finite",
)
UNUSED_DEPTH = Mode(
    "unused depth",
    "The trained blocks are no better than frozen random ones.",
    {"D3": ""},
    headline=Headline(
        "The accuracy is not earned by depth",
        "whether the accuracy is earned by depth",
        "{trained} with trained blocks, {frozen} with frozen random ones",
        {"trained": Cited(ACCURACY), "frozen": Cited(CONTROL)},
        ruled_out="depth earns a part of the accuracy",
        leads=True,
    ),
)
DEPTH_UNREAD = Mode(
    "unused depth",
    "The trained blocks add nothing for a linear read-out. No frozen control was supplied.",
    {"D10": ""},
    headline=Headline(
        "The trained blocks add nothing for a linear read-out",
        "whether the trained blocks add something for a linear read-out",
        "{gain}, limit {limit}; no frozen control was supplied",
        {"gain": Cited("D10"), "limit": Cited("D10", "limit")},
        ruled_out="the trained blocks add something for a linear read-out",
        leads=True,
    ),
)


def _exploded(because: str, growth: str, reference: str) -> Headline:
    return Headline(
        "The stream exploded, and Γ as usually computed is invalid",
        "whether the stream exploded and made the usual Γ invalid",
        because + ", and the reference fell to {reference} (limit {floor})",
        {"growth": Cited(growth), "reference": Cited(reference), "floor": Cited(reference, "limit")},
    )


EXPLODED_BLOCK = Mode(
    "exploded block",
    "One block made the stream explode.",
    {"D1": "", "D2:tail": ""},
    headline=_exploded("one block multiplied it by {growth}", "D1", "D2:tail"),
    consequence=INVALID,
    excused={"D2:tail": WITHOUT_GROWTH},
)
EXPLODED_STREAM = Mode(
    "exploded stream",
    "The stream exploded over the whole network, or in a part of the images.",
    {"D1:stream": "", "D2:tail": ""},
    headline=_exploded("it grew by a factor of {growth}", "D1:stream", "D2:tail"),
    consequence=INVALID,
    excused={"D2:tail": WITHOUT_GROWTH},
)
DEGENERACY = Mode(
    "measurement degeneracy",
    "The stream exploded and the reference gradient collapsed with it: Γ is invalid, because a "
    "clamped cosine then compares credit with its clamp.",
    {"D1": "", "D2": "collapsed"},
    headline=_exploded("one block multiplied it by {growth}", "D1", "D2"),
)


def _measured(shown: str, question: str, quantity: str, code: str) -> Headline:
    """A mode of one diagnostic: its value and its limit."""
    numbers = {"value": Cited(code), "limit": Cited(code, "limit")}
    return Headline(shown, question, quantity + " {value}, limit {limit}", numbers)


DEAD_STATES = Mode(
    "dead states",
    "The loss does not depend on one of the states.",
    {"D11": ""},
    headline=_measured(
        "The loss does not depend on one of the states",
        "whether the loss depends on every state",
        "lowest sensitivity",
        "D11",
    ),
)
SCALE = Mode(
    "scale",
    "The residual stream explodes.",
    {"D1": ""},
    headline=_measured(
        "The residual stream explodes", "whether the residual stream explodes", "largest growth over a block", "D1"
    ),
    flag="(a) scale",
    letter="(a)",
)
SCALE_RELATIVE = replace(
    SCALE,
    headline=_measured(
        "The residual stream explodes", "whether the residual stream explodes", "largest ‖h‖/‖h_0‖", "D1"
    ),
)
REFERENCE = Mode(
    "reference",
    "The reference gradient lies below the floor.",
    {"D2": ""},
    headline=_measured(
        "The reference gradient lies below the floor",
        "whether the reference gradient lies below the floor",
        "‖g_L‖/128",
        "D2",
    ),
    flag="(b) reference",
    letter="(b)",
)
DRIFT = Mode(
    "drift",
    "One direction dominates the reference gradients.",
    {"D4": ""},
    headline=_measured(
        "One direction dominates the reference gradients",
        "whether one direction dominates the reference gradients",
        "mean cosine",
        "D4",
    ),
    flag="(c) drift",
    letter="(c)",
)
DEPTH_FLAG = replace(
    UNUSED_DEPTH,
    name="depth",
    means="The trained blocks are no better than frozen ones.",
    flag="(d) depth",
    letter="(d)",
)
