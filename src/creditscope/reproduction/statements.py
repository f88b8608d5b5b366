"""What does the published audit claim?  Nine sentences, each answered from our records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from creditscope.aggregation import mean, survives
from creditscope.diagnostics import diagnostics
from creditscope.records import HistoryRow, RunRecord
from creditscope.reproduction.book import Book, Where
from creditscope.reproduction.claims import Answer, Case, Claim, together
from creditscope.reproduction.experiments.decision_utility import walked_back
from creditscope.reproduction.experiments.main_audit import METHODS
from creditscope.reproduction.quantities import FIRST_D1, FIRST_D2, NULL_MEAN, NULL_STD
from creditscope.study.tables import AuditRow, SeedRow
from creditscope.verdict import Measurement, Status

SEEDS = 3
SMALL = 0.05  # |Γ| of layers that carry no alignment
INSIDE = 3.0  # standard deviations of a null
DFA: Where = {"method": "dfa", "method.index": "output"}


def _seeds(book: Book, study: str, where: Where) -> tuple[AuditRow | None, Sequence[SeedRow]]:
    row = book.audited(study, where)
    return row, row.seeds if row is not None else ()


def _fires(seed: SeedRow, code: str) -> bool:
    return code in seed.findings and seed.findings[code].status is Status.FIRES


def bp_is_silent(book: Book) -> Answer:
    """PASS on every seed, and D1 and D2 fire after no epoch."""
    cases = []
    for seed in _seeds(book, "main_audit", {"method": "bp"})[1]:
        record = book.record(seed.key)
        never = record is not None and math.isinf(FIRST_D1.read(record)) and math.isinf(FIRST_D2.read(record))
        fired = [code for code in ("D0", "D1", "D2", "D3") if _fires(seed, code)]
        said = f"seed {seed.seed}: {seed.verdict}" + ("" if never else ", but D1 or D2 fired on the way")
        passes = str(seed.verdict) == "PASS"
        cases.append(Case(said, False if fired or not never else True if passes else None, (seed.key,)))
    return together(cases, SEEDS)


def dfa_fails(book: Book) -> Answer:
    """D1, D2 and D3 fire on every seed."""
    cases = []
    for seed in _seeds(book, "main_audit", DFA)[1]:
        fires = all(_fires(seed, code) for code in ("D1", "D2", "D3"))
        open_ = seed.control_accuracy is None
        cases.append(Case(f"seed {seed.seed}: {seed.verdict}", None if open_ and not fires else fires, (seed.key,)))
    return together(cases, SEEDS)


def dfa_below_frozen(book: Book) -> Answer:
    """Every seed lies below its own frozen twin."""
    cases = []
    for seed in _seeds(book, "main_audit", DFA)[1]:
        if seed.control_accuracy is not None:
            margin = 100 * (seed.accuracy - seed.control_accuracy)
            cases.append(Case(f"seed {seed.seed}: {margin:+.1f} points", margin < 0, (seed.key, seed.control_key)))
    return together(cases, SEEDS)


def standard_reporting_is_blind(book: Book) -> Answer:
    """Accuracy and Γ give no cause to doubt any method."""
    cases = []
    for method in METHODS:
        _, seeds = _seeds(book, "decision_utility", {"method": method})
        if seeds:
            back = walked_back(book, method, "accuracy + Γ")
            said = f"{method} {'walked back' if back else 'stays'}"
            cases.append(Case(said, not back, tuple(seed.key for seed in seeds)))
    return together(cases, len(METHODS))


def penalty_removes_the_explosion_only(book: Book) -> Answer:
    """With λ = 1e-2 D1 and D2 pass on every seed, and D3 over seeds does not pass."""
    row, seeds = _seeds(book, "penalty", {"method": "dfa", "penalty": 1e-2})
    if row is None:
        return together([], SEEDS)
    quiet = all(seed.findings[code].status is Status.PASS for seed in seeds for code in ("D1", "D2"))
    depth = row.findings["D3"]
    told = f"D1 and D2 {'pass' if quiet else 'do not pass'} on {len(seeds)} seeds; D3 {depth.status}"
    told += "" if depth.value is None else f" at {depth.value:+.1f} points"
    keys = tuple(seed.key for seed in seeds)
    known = depth.status is not Status.SKIPPED
    holds = quiet and depth.status is not Status.PASS
    return together([Case(told, None if (holds and len(seeds) < SEEDS) or not known else holds, keys)], 1)


def valid_row(record: RunRecord) -> HistoryRow | None:
    """The last epoch at which the reference had not collapsed yet."""
    limit = diagnostics["D2"].limit
    valid = [row for row in record.history if limit.judge(Measurement(row.d2)) is Status.PASS]
    return valid[-1] if valid else None


def profiles(book: Book, index: str) -> Iterator[tuple[int, str, HistoryRow]]:
    """Seed, key and the last valid epoch of DFA's runs with this index."""
    found = book.find("early_epochs", {"method.index": index})
    for key, record in found.records.items():
        row = valid_row(record)
        if row is not None and row.gamma:
            yield found.specs[key].seed, key, row


def layer_zero_carries(book: Book) -> Answer:
    """With index = input D5 fires: without its best layer less than a third of the mean is left."""
    cases = []
    for seed, key, row in profiles(book, "input"):
        share = survives(row.gamma)
        fires = diagnostics["D5"].limit.judge(Measurement(share)) is Status.FIRES
        best = max(range(len(row.gamma)), key=row.gamma.__getitem__)
        said = f"seed {seed}: R = {share:.2f} without layer {best}, after epoch {row.epoch + 1}"
        cases.append(Case(said, fires and best == 0, (key,)))
    return together(cases, SEEDS)


def deep_layers_carry_nothing(book: Book) -> Answer:
    """With index = output the layers from 2 on average less than 0.05 in size."""
    cases = []
    for seed, key, row in profiles(book, "output"):
        found = mean(row.gamma[2:])
        said = f"seed {seed}: {found:+.3f} after epoch {row.epoch + 1}"
        cases.append(Case(said, abs(found) < SMALL, (key,)))
    return together(cases, SEEDS)


def no_collapse_without_layernorm(book: Book) -> Answer:
    """D2 fires after no epoch of any run without terminal LayerNorm."""
    found = book.find("temporal", {"network": "resmlp", "network.terminal_ln": False})
    cases = []
    for key, record in found.records.items():
        first = FIRST_D2.read(record)
        when = "never" if math.isinf(first) else f"after epoch {first:.0f}"
        said = f"{found.specs[key].method}, seed {found.specs[key].seed}: {when}"
        cases.append(Case(said, math.isinf(first), (key,)))
    return together(cases, len(found.specs))


def fresh_feedback_is_chance(book: Book) -> Answer:
    """The mean over fresh draws lies within three of their standard deviations of 0."""
    found = book.find("fresh_feedback", {})
    cases = []
    for key, record in found.records.items():
        centre, spread = NULL_MEAN.read(record), NULL_STD.read(record)
        inside = abs(centre) < INSIDE * spread if math.isfinite(spread) else None
        cases.append(Case(f"seed {found.specs[key].seed}: {centre:+.3f} ± {spread:.3f}", inside, (key,)))
    return together(cases, len(found.specs))


STATEMENTS = (
    Claim("BP passes and never fires on any seed", "main_audit", bp_is_silent),
    Claim("DFA fails on every seed with D1, D2 and D3", "main_audit", dfa_fails),
    Claim("DFA is below its frozen twin", "main_audit", dfa_below_frozen),
    Claim("Standard reporting (accuracy and Γ) walks back nobody", "decision_utility", standard_reporting_is_blind),
    Claim(
        "The penalty 1e-2 removes D1 and D2 from DFA, and D3 still does not pass",
        "penalty",
        penalty_removes_the_explosion_only,
    ),
    Claim('With index = "input" layer 0 carries DFA\'s Γ: D5 fires', "early_epochs", layer_zero_carries),
    Claim('With index = "output" the layers from 2 on average |Γ| < 0.05', "early_epochs", deep_layers_carry_nothing),
    Claim("Without terminal LayerNorm D2 never fires", "temporal", no_collapse_without_layernorm),
    Claim("Γ of fresh feedback is inside its null", "fresh_feedback", fresh_feedback_is_chance),
)
