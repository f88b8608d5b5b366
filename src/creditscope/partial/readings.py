"""Readings: what one row of a log tells about a diagnostic, its own number, a bound, a hint or nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, cast

from creditscope.batch import PUBLISHED_BATCH
from creditscope.diagnostics import diagnostics, examine
from creditscope.diagnostics.depth import from_accuracies
from creditscope.partial.fields import LAST
from creditscope.partial.logs import LogRow, Norms
from creditscope.records.record import Record
from creditscope.verdict import Finding, Measurement, Missing, Reason, Status

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence

WEIGHTS = "Audit the weights with `creditscope audit`"


class Coverage(StrEnum):
    """How much of a diagnostic a log holds."""

    EXACT = "exact"  # its own number
    BOUNDED = "bounded"  # a bound that lies on one side of the limit
    OPEN = "open"  # a bound or a hint that decides nothing
    MISSING = "missing"  # nothing


class LogFinding(Record):
    """A finding, and what it rests on.

    at_least  the number is a lower bound
    layer     the number is a hint from this layer, which is not the one that is judged
    needed    what would close an open question; empty if there is none
    first     the first row that fired, of a log with several
    """

    state: Coverage
    finding: Finding
    at_least: bool = False
    layer: int | None = None
    needed: str = ""
    first: str = ""


def finite(row: LogRow) -> LogFinding:
    """D0 fires where a logged norm is not finite, and stays open otherwise."""
    kinds = (("‖h_{}‖", row.hidden), ("‖g_{}‖", row.gradient))
    named = [(name.format(_index(layer)), size) for name, norms in kinds for layer, size in norms.items()]
    bad = [name for name, size in named if not math.isfinite(size)]
    if bad:
        count = Measurement(float(len(bad)), note=f"in the log: {', '.join(bad)}")
        return LogFinding(state=Coverage.BOUNDED, finding=_finding("D0", count), at_least=True)
    said = "the norms of the last row are finite" if named else "the last row holds no norm"
    reason = f"{said}; no log holds single samples, logits or weights"
    if row.null:
        reason += f". Null, which may stand for a number that is not finite: {', '.join(row.null)}"
    if row.elsewhere:
        reason += f". Not finite, but neither state nor gradient: {', '.join(row.elsewhere)}"
    return LogFinding(
        state=Coverage.OPEN,
        finding=_finding("D0", Missing(Reason.INDECISIVE, reason)),
        needed=f"{WEIGHTS}: it looks at every number.",
    )


def scale(norms: Norms, blocks: int | None) -> LogFinding:
    """D1 from the states that were logged.

    For known states i < j:  max_l m_{l+1}/m_l >= (m_j/m_i)^(1/(j-i)), a geometric mean of the growth between them. If
    every state is known this is D1 itself. A bound above the limit fires; one below decides nothing.
    """
    known = dict(sorted((layer, size) for layer, size in norms.items() if layer != LAST))
    complete = blocks is not None and len(known) == blocks + 1 and list(known) == list(range(blocks + 1))
    if len(known) < 2:
        state = Coverage.OPEN if norms else Coverage.MISSING
        return LogFinding(state=state, finding=_finding("D1", _too_few(norms)), needed=_for_scale(norms, blocks))
    growths = [_root(known[j], known[i], j - i) for i, j in pairwise(known)]
    worst = max(range(len(growths)), key=lambda index: math.inf if math.isnan(growths[index]) else growths[index])
    first, last = list(pairwise(known))[worst]
    if complete:
        note = f"largest across block {first}, h_{first} to h_{last}"
        growth = Measurement(growths[worst], tuple(growths), note=note, axis="block")
        return LogFinding(state=Coverage.EXACT, finding=_finding("D1", growth))
    across = f"blocks {first} to {last - 1}" if last - first > 1 else f"block {first}"
    note = f"at least this: geometric mean across {across}, (‖h_{last}‖/‖h_{first}‖)^(1/{last - first})"
    if math.isnan(growths[worst]):
        note = f"undefined across {across}: ‖h_{first}‖ = {known[first]:g}, ‖h_{last}‖ = {known[last]:g}"
    bound = Measurement(growths[worst], note=note)
    if math.isfinite(bound.value) and diagnostics["D1"].limit.past(bound.value):
        return LogFinding(state=Coverage.BOUNDED, finding=_finding("D1", bound), at_least=True)
    why = note if math.isnan(bound.value) else f"{note}; a single block may grow more"
    open_ = _finding("D1", Missing(Reason.INDECISIVE, why, replace(bound, note=why)))
    return LogFinding(state=Coverage.OPEN, finding=open_, at_least=True, needed=_for_scale(norms, blocks))


def reference(norms: Norms, blocks: int | None, batch_size: int | None) -> LogFinding:
    """D2 from the gradient at the deepest state: ‖g_L‖ of the batch-mean loss, times the batch, over 128.

    Without the batch size N the number is bounded below by N = 1: it may pass, but never fires.
    """
    if not norms:
        reason, wanted = (
            "the last row holds no norm of a gradient",
            f"Log the median ‖g_L‖, at the deepest state. {_for_batch(batch_size)}",
        )
        return LogFinding(
            state=Coverage.MISSING, finding=_finding("D2", Missing(Reason.NOT_GIVEN, reason)), needed=wanted.strip()
        )
    deepest = LAST if LAST in norms else blocks
    exact = deepest is not None and deepest in norms
    layer = deepest if exact and deepest is not None else max(norms)
    value = norms[layer] * (batch_size or 1) / PUBLISHED_BATCH
    note = f"‖g_{_index(layer)}‖ of the batch-mean loss, " + (
        f"x {batch_size} / {PUBLISHED_BATCH}" if batch_size else f"x N / {PUBLISHED_BATCH}, where N is at least 1"
    )
    if not exact:
        place = "nothing says whether it is at the deepest state" if blocks is None else "not at the deepest state"
        why = f"only a hint, {place}: {note}"
        return LogFinding(
            state=Coverage.OPEN,
            finding=_finding("D2", Missing(Reason.INDECISIVE, why, Measurement(value, note=why))),
            at_least=batch_size is None,
            layer=layer,
            needed=f"Log the median ‖g_L‖, at the deepest state{_or_blocks(blocks)}. {_for_batch(batch_size)}".strip(),
        )
    return _deepest(Measurement(value, note=note), batch_size)


def _deepest(deepest: Measurement, batch_size: int | None) -> LogFinding:
    """D2 at the deepest layer; a log cannot tell whether a small reference has collapsed or the network fits."""
    past = diagnostics["D2"].limit.past(deepest.value)
    cause = f"{WEIGHTS}: only the gain ‖g_L‖/‖e‖ tells a collapsed reference from a fitted network."
    if batch_size is not None:
        note = deepest.note + ("; without ‖e‖ in the log, collapsed and fitted cannot be told apart" if past else "")
        finding = _finding("D2", replace(deepest, note=note))
        return LogFinding(state=Coverage.EXACT, finding=finding, needed=cause if past else "")
    if math.isfinite(deepest.value) and not past:
        return LogFinding(state=Coverage.BOUNDED, finding=_finding("D2", deepest), at_least=True)
    why = f"{deepest.note}; it depends on the batch size N, which is unknown"
    open_ = _finding("D2", Missing(Reason.INDECISIVE, why, replace(deepest, note=why)))
    return LogFinding(state=Coverage.OPEN, finding=open_, at_least=True, needed=_for_batch(None))


def depth(trained: tuple[float, ...], control: tuple[float, ...] | None, images: int | None) -> LogFinding:
    """D3 is exact: it needs accuracies only."""
    finding = from_accuracies(trained, control, images, variant="published")
    if control is None:
        wanted = "Give --baseline, the accuracy of the same run with frozen blocks, one per seed."
        return LogFinding(state=Coverage.MISSING, finding=finding, needed=wanted)
    wanted = _for_depth(trained, control, images, finding) if finding.status is Status.UNDECIDED else ""
    return LogFinding(state=Coverage.EXACT, finding=finding, needed=wanted)


def drift() -> LogFinding:
    """D4 compares directions, and a norm has none."""
    finding = _finding(
        "D4", Missing(Reason.NOT_GIVEN, "it compares directions of gradients, and a log holds only their norms")
    )
    return LogFinding(state=Coverage.MISSING, finding=finding, needed=f"{WEIGHTS}.")


def _finding(code: str, answer: Measurement | Missing) -> Finding:
    """An answer from a log, judged as the diagnostic judges its own; a skipped one has no remedy."""
    finding = examine(replace(diagnostics[code], measure=lambda _: answer), cast("Evidence", None))
    return replace(finding, remedy="") if finding.status is Status.SKIPPED else finding


def _root(last: float, first: float, blocks: int) -> float:
    """(last/first)^(1/blocks), infinite or NaN where the first is zero; logarithms do not overflow."""
    if first > 0 and last > 0 and math.isfinite(first) and math.isfinite(last):
        return last / first if blocks == 1 else math.exp((math.log(last) - math.log(first)) / blocks)
    if math.isnan(first) or math.isnan(last) or (first == 0 and last == 0) or (math.isinf(first) and math.isinf(last)):
        return math.nan
    return math.inf if first == 0 or math.isinf(last) else 0.0


def _index(layer: int) -> str:
    return "L" if layer == LAST else str(layer)


# --- what would answer an open question ---


def _too_few(norms: Norms) -> Missing:
    if not norms:
        return Missing(Reason.NOT_GIVEN, "the last row holds no norm of a state")
    if LAST in norms:
        return Missing(Reason.TOO_FEW, "‖h_L‖ was logged, but not how many blocks lie below it")
    text = f"only ‖h_{max(norms)}‖ is known in the last row, and growth needs two states"
    return Missing(Reason.TOO_FEW, text)


def _for_scale(norms: Norms, blocks: int | None) -> str:
    bound = [
        *(["--blocks, the number of blocks"] if blocks is None else []),
        *(["--h0, the median ‖h_0‖ of the trained network"] if 0 not in norms else []),
    ]
    exact = f"Log the median ‖h_l‖ of every state, h_0 to h_{'L' if blocks is None else blocks}."
    return f"{exact} For a bound give {' and '.join(bound)}." if bound else exact


def _for_batch(batch_size: int | None) -> str:
    return "" if batch_size else "Give --batch-size of the logged gradients."


def _or_blocks(blocks: int | None) -> str:
    return "; if it was logged, give --blocks" if blocks is None else ""


def _for_depth(trained: Sequence[float], control: Sequence[float], images: int | None, finding: Finding) -> str:
    from creditscope.statistics.power import seeds_to_settle

    seeds = seeds_to_settle(trained, control, finding.limit.at, images)
    about = f" About {seeds} per arm would settle it, if margin and spread stay the same." if seeds else ""
    return f"Train more seeds, with their frozen controls.{about}"
