"""The claims of the paper, each answered from our records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from creditscope.papers import quantities as q
from creditscope.papers.archive import RunArchive
from creditscope.papers.claims import Answer, Case, all_of, claim, decide, each_run
from creditscope.papers.comparison import DRAWS
from creditscope.papers.paper import Where
from creditscope.papers.quantities import ACCURACY
from creditscope.papers.rendering import published
from creditscope.protocols import protocol_named
from creditscope.records.labels import counted
from creditscope.records.run import RunRecord
from creditscope.statistics.intervals import t_quantile
from creditscope.study.tables import AuditRow, SeedRow
from creditscope.verdict import Finding, Status
from creditscope_papers.hao2026 import profiles
from creditscope_papers.hao2026.reporting import JUDGED, STANDARD, seed_by_seed

SEEDS = 3
DFA: Where = {"method": "dfa", "method.index": "output"}
INDICES = ("output", "input")  # the state whose credit trains a block of DFA; published: input
MODES = {mode.name for mode in protocol_named("three").modes if "D0" not in mode.requires}  # D1 with D2, and D3


def _seeds(archive: RunArchive, study: str, where: Where) -> Sequence[SeedRow]:
    row = archive.audit_row(study, where)
    return row.seeds if row is not None else ()


def fires(seed: SeedRow, code: str) -> bool | None:
    """Whether a diagnostic fires on a seed; None where it says neither."""
    return seed.findings[code].status.fired if code in seed.findings else None


@claim(
    "BP passes on every seed, and neither D1 nor D2 fires on it after any epoch",
    "main_audit",
    holds_if=f"all {SEEDS} seeds PASS after 30 epochs, and every run of 100 that has a record; no diagnostic fires "
    "at the end, and neither D1 nor D2 after any epoch",
)
def bp_is_silent(archive: RunArchive) -> Answer:
    """PASS on every seed; no diagnostic fires at the end, and neither D1 nor D2 after any epoch."""
    usual, longer = (
        {seed.key: _silent(source, seed) for seed in _seeds(source, "main_audit", {"method": "bp"})}
        for source in (archive, archive.as_published)
    )
    return decide(list((usual | longer).values()), SEEDS + len(longer.keys() - usual.keys()))


def _silent(archive: RunArchive, seed: SeedRow) -> Case:
    record = archive.record(seed.key)
    firsts = {} if record is None else {"D1": q.FIRST_D1.read(record), "D2": q.FIRST_D2.read(record)}
    fired = [f"{code} fires at the end" for code in seed.findings if fires(seed, code)]
    fired += [f"{code} fired after epoch {first:.0f}" for code, first in firsts.items() if math.isfinite(first)]
    known = seed.verdict.outcome == "pass" and all(math.isinf(first) for first in firsts.values())
    length = f", {counted(len(record.history), 'epoch')}" if record is not None else ""
    silent = ["nothing fires at the end, nor D1 or D2 before"] if known else []
    text = ", ".join((f"seed {seed.seed}{length}: {seed.verdict}", *(fired or silent)))
    return Case(text, False if fired else True if known else None, (seed.key,))


def _dfa(archive: RunArchive) -> Iterator[tuple[str, SeedRow]]:
    """DFA's seeds in the main audit, for both indices."""
    for index in INDICES:
        for seed in _seeds(archive, "main_audit", {"method": "dfa", "method.index": index}):
            yield f"index = {index}", seed


@claim(
    "DFA fails on every seed with D1, D2 and D3",
    "main_audit",
    holds_if='both failures, D1 with D2 and D3, are shown on all 3 seeds, with index = "input", as published, and with '
    'index = "output"',
)
def dfa_fails(archive: RunArchive) -> Answer:
    """Both failure modes are shown on every seed: D1 with D2, and D3."""
    cases = []
    for index, seed in _dfa(archive):
        holds = set(seed.verdict.shown) >= MODES or (False if MODES & set(seed.verdict.ruled_out) else None)
        cases.append(Case(f"{index}, seed {seed.seed}: {seed.verdict}", holds, (seed.key,)))
    return decide(cases, len(INDICES) * SEEDS)


@claim(
    "DFA is below its frozen control",
    "main_audit",
    holds_if=f"for either index the interval of D3 lies below 0: on each of {SEEDS} seeds, where it covers the test "
    "images alone, and over the seeds",
)
def dfa_below_frozen(archive: RunArchive) -> Answer:
    """Every seed lies below its own frozen control by more than the test images leave open, and so do all together."""
    cases = []
    for index in INDICES:
        row = archive.audit_row("main_audit", {"method": "dfa", "method.index": index})
        paired = [seed for seed in row.seeds if seed.control_accuracy is not None] if row is not None else []
        for seed in paired:
            keys = (seed.key, seed.control_key)
            cases += _below(f"index = {index}, seed {seed.seed}", seed.findings["D3"], "test images only", keys)
        if row is not None and len(paired) >= SEEDS:
            cases += _below(f"index = {index}", row.findings["D3"], f"over {len(paired)} seeds")
    return decide(cases, len(INDICES) * (SEEDS + 1))


def _below(title: str, depth: Finding, covers: str, keys: tuple[str, ...] = ()) -> list[Case]:
    """Whether the interval of D3 lies below 0; open where it holds 0."""
    if depth.value is None:
        return []
    low, high = depth.interval or (depth.value, depth.value)
    text = f"{title}: {depth.value:+.1f} points ({low:+.1f} to {high:+.1f}, {covers})"
    return [Case(text, high < 0 or (False if low > 0 else None), keys)]


@claim(
    f"Standard reporting (accuracy and Γ) rejects none of {len(JUDGED)} methods",
    "decision_utility",
    holds_if="none of the methods of the published count is rejected on every seed; a seed is rejected if its accuracy "
    "is not above chance by more than the test images leave open, or its clamped mean Γ is not positive",
)
def standard_reporting_is_blind(archive: RunArchive) -> Answer:
    """Accuracy and Γ reject no method on every seed, the unit in which the paper counts."""
    cases = [case for method in JUDGED for case in reported(archive, method, all_of)]
    return decide(cases, len(JUDGED))


def reported(
    archive: RunArchive, method: str, counts_as_rejected: Callable[[list[bool | None]], bool | None]
) -> list[Case]:
    """Whether standard reporting rejects a method, by this reading of its seeds; one with a rejection names accuracies.

    Seeds that have not been run leave it open, unless those that have decide against the claim.
    """
    row = archive.audit_row("decision_utility", {"method": method})
    if row is None or row.accuracy is None:
        return []
    answers = seed_by_seed(archive, method, STANDARD[-1])
    rejections = sum(answer is True for answer in answers)
    text = f"{method} rejected on {rejections} of {counted(len(answers), 'seed')}"
    if rejections:
        theirs = published(archive.figure("main_audit", method, ACCURACY.name), ACCURACY.kind)
        text += f" (its accuracy over the seeds: {100 * row.accuracy.mean:.1f} %, published: {theirs})"
    rejected = counts_as_rejected([*answers, *(None for _ in row.missing)])
    known = rejected is True or (rejected is False and not row.missing)
    return [Case(text, not rejected if known else None, tuple(seed.key for seed in row.seeds))]


@claim(
    "The penalty 1e-2 removes D1 and D2 from DFA, and D3 still does not pass",
    "penalty",
    holds_if="on all 3 seeds D1 and D2 fire without the penalty and pass with it, where D3 over the seeds fires or is "
    'undecided; index = "output" (published: "input")',
)
def penalty_removes_the_explosion_only(archive: RunArchive) -> Answer:
    """D1 and D2 fire on every seed of plain DFA and pass with λ = 1e-2, where D3 over seeds does not pass."""
    cases = []
    for strength, wanted in ((0.0, True), (1e-2, False)):
        row = archive.audit_row("penalty", {**DFA, "penalty": strength})
        if row is None:
            continue
        answers = [fires(seed, code) for seed in row.seeds for code in ("D1", "D2")]
        holds = all_of(None if answer is None else answer is wanted for answer in answers)
        word = "fire" if wanted else "pass"
        verb = {True: word, False: f"do not {word}", None: f"cannot be shown to {word}"}[holds]
        text = f"λ = {strength:g}: D1 and D2 {verb} on all of {len(row.seeds)} seeds"
        keys = tuple(seed.key for seed in row.seeds)
        cases.append(Case(text, None if holds and len(row.seeds) < SEEDS else holds, keys))
        if not wanted:
            cases.append(_depth_does_not_pass(row))
    return decide(cases, 3)  # without penalty, with it, and depth


def _depth_does_not_pass(row: AuditRow) -> Case:
    """D3 over all seeds; undecided does not count as a pass."""
    depth = row.findings["D3"]
    paired = [seed for seed in row.seeds if seed.control_key]
    known = len(paired) >= SEEDS and depth.status in (Status.PASS, Status.FIRES, Status.UNDECIDED)
    text = f"D3 {profiles.verb(depth.status)}" + ("" if depth.value is None else f" at {depth.value:+.1f} points")
    keys = tuple(seed.control_key for seed in paired)
    return Case(text, depth.status is not Status.PASS if known else None, keys)


@claim(
    "While the reference is valid, layer 0 alone carries DFA's Γ",
    "early_epochs",
    holds_if=f"on all {SEEDS} seeds D5 fires after {profiles.SHORT} epochs, and layer 0 has the largest Γ; "
    'index = "input", as published',
)
def layer_zero_carries(archive: RunArchive) -> Answer:
    """With index = input D5 fires while the reference is valid, and the layer that carries Γ is layer 0."""
    runs = profiles.early_runs(archive, "input", profiles.SHORT)
    judged = each_run(runs, lambda record: (profiles.aggregation_text(record), profiles.carried_by_layer_zero(record)))
    return decide(judged, SEEDS)


@claim(
    "Without a terminal LayerNorm D2 never fires",
    "temporal",
    holds_if="D2 fires after no epoch of any run without one, 30 epochs long, nor of any of 100 that has a record: DFA "
    'with index = "output" (published: "input") and BP',
)
def no_collapse_without_layernorm(archive: RunArchive) -> Answer:
    """D2 fires after no epoch of any run without terminal LayerNorm."""

    def judge(record: RunRecord) -> tuple[str, bool | None]:
        first = q.FIRST_D2.read(record)
        lasting = f"not within {counted(len(record.history), 'epoch')}"
        when = "not known" if math.isnan(first) else lasting if math.isinf(first) else f"after epoch {first:.0f}"
        return when, None if math.isnan(first) else math.isinf(first)

    where: Where = {"network": "resmlp", "network.terminal_ln": False}
    planned: set[str] = set()
    cases: dict[tuple[str, ...], Case] = {}
    for source in (archive, archive.as_published):
        for method in ("dfa", "bp"):
            runs = source.select("temporal", {**where, "method": method})
            planned |= set(runs.specs) if source is archive else set(runs.records)
            cases |= {case.keys: case for case in each_run(runs, judge, method)}
    return decide(list(cases.values()), len(planned))


def null_bound(spread: float) -> float:
    """How far the mean of a null's draws may lie from 0:  t(19, 0.975) · s/√20."""
    return t_quantile(DRAWS - 1) * spread / math.sqrt(DRAWS)


@claim(
    "The mean Γ of 20 fresh draws of the feedback is 0 within its error",
    "fresh_feedback",
    holds_if="on every seed |mean| ≤ t(19, 0.975) · s/√20, s the spread of the draws; DFA with penalty 0.01, "
    'index = "output" (published: "input")',
)
def fresh_feedback_is_chance(archive: RunArchive) -> Answer:
    """The mean over fresh draws is 0 within its own error:  |mean| ≤ t(19, 0.975) · s/√20,  s the draws' spread."""

    def judge(record: RunRecord) -> tuple[str, bool | None]:
        centre, bound = q.NULL_MEAN.read(record), null_bound(q.NULL_STD.read(record))
        known = math.isfinite(centre) and math.isfinite(bound)
        text = f"mean {centre:+.4f}, t(19, 0.975) · s/√20 = {bound:.4f}"
        return text, abs(centre) <= bound if known else None

    runs = archive.select("fresh_feedback", {})
    return decide(each_run(runs, judge), len(runs.specs))


CLAIMS = (
    bp_is_silent,
    dfa_fails,
    dfa_below_frozen,
    standard_reporting_is_blind,
    penalty_removes_the_explosion_only,
    layer_zero_carries,
    no_collapse_without_layernorm,
    fresh_feedback_is_chance,
)
