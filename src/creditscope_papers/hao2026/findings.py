"""Findings of ours that the paper does not state, each answered from our records."""

from __future__ import annotations

import math

from creditscope.batch import PUBLISHED_BATCH
from creditscope.diagnostics import diagnostics
from creditscope.papers import quantities as q
from creditscope.papers.archive import RunArchive, SelectedRuns
from creditscope.papers.claims import Answer, Case, all_of, any_of, claim, decide, each_run
from creditscope.papers.tables import ComparisonRow, group_rows
from creditscope.records.run import RunRecord
from creditscope.statistics.layers import mean
from creditscope.verdict import Measurement
from creditscope_papers.hao2026 import experiments, profiles
from creditscope_papers.hao2026.claims import SEEDS, reported
from creditscope_papers.hao2026.experiments import LARGER, NORMALISATIONS, RATES
from creditscope_papers.hao2026.readings import NEAREST
from creditscope_papers.hao2026.reporting import METHODS
from creditscope_papers.hao2026.units import collapse_is_of_units

CLOSE = 2.0  # points: what seeds of one method differ by
FURTHER = 10.0  # times as large
HALF = RATES[1]
SMALL = 0.05  # |Γ| of layers that carry no alignment
SOUND = 0.9  # the gradient's own ρ where nothing is lost is 1


def exploded(record: RunRecord) -> bool | None:
    """Whether D1 fires at the end of a run."""
    return diagnostics["D1"].limit.judge(Measurement(q.GROWTH.read(record))).fired


@claim(
    "Normalising the credit of each sample is what makes the stream explode",
    "credit_normalisation",
    holds_if="D1 fires on every run whose credit is normalised for each sample, and on no other",
)
def normalisation_explodes(archive: RunArchive) -> Answer:
    """D1 fires with the credit of each sample normalised, and not otherwise."""
    cases, wanted = [], 0
    words = {True: "D1 fires", False: "D1 is silent", None: "not known"}
    for method in ("dfa", "fa"):
        for how in NORMALISATIONS:
            runs = _normalised(archive, method, how)
            wanted += len(runs.specs)
            for key, record in runs.records.items():
                fires = exploded(record)
                text = f"{method}, {how}: ‖h_L‖ {q.DEEPEST_STATE.read(record):.0e}, {words[fires]}"
                cases.append(Case(text, None if fires is None else fires == (how == "sample"), (key,)))
    return decide(cases, wanted)


@claim(
    "Normalising the credit of each sample makes the stream at least ten times larger",
    "credit_normalisation",
    holds_if=f"for DFA and FA the smallest ‖h_L‖ of any seed with it is at least {FURTHER:g} times the largest without",
)
def normalisation_drives(archive: RunArchive) -> Answer:
    """With the credit of each sample normalised ‖h_L‖ ends at least ten times as large as otherwise, on all seeds."""
    cases = []
    for method in ("dfa", "fa"):
        driven = _normalised(archive, method, "sample")
        for how in ("batch", "none"):
            other = _normalised(archive, method, how)
            if driven.records and other.records:
                cases.append(_further(f"{method}, sample against {how}", driven, other))
    return decide(cases, 4)


def _normalised(archive: RunArchive, method: str, how: str) -> SelectedRuns:
    return archive.select("credit_normalisation", {"method": method, "method.normalisation": how})


def _further(what: str, driven: SelectedRuns, other: SelectedRuns) -> Case:
    """The smallest ‖h_L‖ of one side over the largest of the other; open while a seed or a finite number is missing."""
    low, high = ([q.DEEPEST_STATE.read(record) for record in side.records.values()] for side in (driven, other))
    keys = (*driven.records, *other.records)
    if not all(map(math.isfinite, (*low, *high))) or max(high) == 0:
        return Case(f"{what}: ‖h_L‖ is not known", None, keys)
    ratio, absent = min(low) / max(high), len(driven.missing) + len(other.missing)
    seeds = ", ".join(str(driven.specs[key].seed) for key in driven.records)
    text = f"{what}, seed {seeds}: {ratio:.2g} times as large" + (f", {absent} runs missing" if absent else "")
    return Case(text, None if absent else ratio >= FURTHER, keys)


@claim(
    "The state whose credit trains a block decides whether layer 0 alone carries DFA's Γ",
    "early_epochs",
    holds_if=f'after {profiles.SHORT} epochs D5 fires on layer 0 on all 3 seeds with index = "input", and passes on '
    'all 3 with index = "output"',
)
def index_decides(archive: RunArchive) -> Answer:
    """D5 fires with index = input, on layer 0, and passes with index = output; audited while the reference is valid."""

    def carried(record: RunRecord) -> tuple[str, bool | None]:
        return profiles.aggregation_text(record), profiles.carried_by_layer_zero(record)

    def spread_out(record: RunRecord) -> tuple[str, bool | None]:
        alone = profiles.carried_by_one(record)
        return profiles.aggregation_text(record), None if alone is None else not alone

    with_input = profiles.early_runs(archive, "input", profiles.SHORT)
    with_output = profiles.early_runs(archive, "output", profiles.SHORT)
    cases = [*each_run(with_input, carried, "input"), *each_run(with_output, spread_out, "output")]
    return decide(cases, 2 * SEEDS)


@claim(
    'With index = "output" the layers from 2 on average |Γ| < 0.05',
    "early_epochs",
    holds_if=f"on all {SEEDS} seeds the mean of |Γ_l| over the layers from 2 on is less than {SMALL:g} after the last "
    "epoch with a valid reference",
)
def deep_layers_carry_nothing(archive: RunArchive) -> Answer:
    """With index = output the mean of |Γ_l| over the layers from 2 on is less than 0.05, at the last valid epoch."""

    def judge(record: RunRecord) -> tuple[str, bool | None]:
        row = profiles.last_valid_row(record)
        size = profiles.mean_size(row, 2)
        when = "no valid epoch" if row is None else f"{size:.3f} after epoch {row.epoch + 1}, the last valid one"
        return when, None if math.isnan(size) else size < SMALL

    return decide(each_run(profiles.early_runs(archive, "output", profiles.LONG), judge), SEEDS)


@claim(
    "Properly relaxed EP tracks BP",
    "main_audit",
    holds_if=f"every seed PASSes and lies no more than {CLOSE:g} points below BP of the same seed and length",
)
def relaxed_ep_tracks_bp(archive: RunArchive) -> Answer:
    """EP is at most two points below BP of the same seed and length, and passes."""
    bp = archive.select("main_audit", {"method": "bp"})
    by_seed = {bp.specs[key].seed: (key, record) for key, record in bp.records.items()}
    row = archive.audit_row("main_audit", {"method": "ep"})
    cases = []
    for seed in row.seeds if row is not None else ():
        if seed.seed in by_seed:
            key, record = by_seed[seed.seed]
            margin = 100 * (seed.accuracy - record.accuracy)
            passes = {"pass": True, "fail": False}.get(seed.verdict.outcome)
            text = f"seed {seed.seed}: {100 * seed.accuracy:.1f} %, {margin:+.1f} points to BP, {seed.verdict}"
            close = None if math.isnan(margin) else margin >= -CLOSE
            cases.append(Case(text, all_of((close, passes)), (seed.key, key)))
    return decide(cases, len(bp.specs))


@claim(
    "The published ρ, an absolute step in float32, is attenuated by rounding on penalised DFA",
    "triangulation",
    holds_if=f"on every seed the published ρ of the gradient itself, which is 1 up to rounding and curvature, is less "
    f"than {SOUND:g}",
)
def published_rho_is_attenuated(archive: RunArchive) -> Answer:
    """On penalised DFA even the gradient, whose ρ is 1 up to rounding and curvature, scores below 0.9 as published."""

    def judge(record: RunRecord) -> tuple[str, bool | None]:
        own, absolute, relative = (one.read(record) for one in (q.RHO_ABSOLUTE_BP, q.RHO_ABSOLUTE, q.RHO))
        if own == 0 or not all(map(math.isfinite, (own, absolute, relative))):
            return "ρ is not known", None
        text = (
            f"the gradient scores {own:.2f} and DFA {absolute:.3f}, {absolute / own:.3f} of it; with a step relative "
            f"to the stream and float64 DFA scores {relative:.3f}"
        )
        return text, own < SOUND

    runs = archive.select("triangulation", {"method": "dfa", "penalty": 1e-2})
    return decide(each_run(runs, judge), len(runs.specs))


@claim(
    "FA's deep Γ is mostly its one exact layer",
    "main_audit",
    holds_if="on every seed that layer gives more than half of the mean Γ over layers 1 to L",
)
def exact_layer_carries_fa(archive: RunArchive) -> Answer:
    """Of FA's mean Γ over layers 1..L more than half is the one layer that is exact by construction."""

    def judge(record: RunRecord) -> tuple[str, bool | None]:
        depth = record.report.subject.depth if record.report is not None else 0
        deep = q.DEEP_GAMMA.read(record)
        share = 1 / depth / deep if depth and deep > 0 else math.nan
        part = "" if math.isnan(share) else f", {share:.0%} of it from the exact layer"
        return f"deep Γ {deep:.2f}{part}", share > 0.5 if math.isfinite(share) else None

    runs = archive.select("main_audit", {"method": "fa"})
    return decide(each_run(runs, judge), len(runs.specs))


@claim(
    "Standard reporting (accuracy and Γ) rejects no method on any single seed",
    "decision_utility",
    holds_if="no seed of any method, FA included, is rejected by its accuracy or its Γ: stricter than the published "
    "count, which is one of methods",
)
def no_seed_is_rejected(archive: RunArchive) -> Answer:
    """Accuracy and Γ reject no method on any seed; one rejection is a counterexample."""
    cases = [case for method in METHODS for case in reported(archive, method, any_of)]
    return decide(cases, len(METHODS))


GROWTHS = (  # a measure of how the stream grows, its quantities, and the unit of its differences
    ("‖g_L‖ after epochs 1 to 5", experiments.FIRST_GRADIENTS, "decades"),
    ("first epoch of D1", (q.FIRST_D1,), "epochs"),
    ("first epoch of D2 at N = 1,024", (experiments.FIRST_D2_LARGER,), "epochs"),
    ("‖h_L‖ after epochs 1 to 3 with random labels", experiments.FIRST_STATES, "decades"),
)


@claim(
    "Half the stated learning rate comes nearest to the published growth of DFA's stream in the first epochs",
    "learning_rate",
    holds_if="of three rates it lies nearest by each of four measures, and the gradient published before training is "
    "nearer to ours at N = 1,024, where two of them are read, than at N = 128",
)
def half_the_rate_comes_nearest(archive: RunArchive) -> Answer:
    """Of three learning rates half the stated one lies nearest to how DFA's stream grew, by each of four measures.

    Two of them read the published gradients at N = 1,024; the figure published before training must confirm that.
    """
    tables = {
        rate: [row for group in experiments.rate_groups(rate) for row in group_rows(archive, "learning_rate", group)]
        for rate in RATES
    }
    cases = []
    for measure, quantities, unit in GROWTHS:
        names = {quantity.name for quantity in quantities}
        groups = {rate: [row for row in table if row.quantity in names] for rate, table in tables.items()}
        if not all(row.values for group in groups.values() for row in group):
            continue
        apart = {rate: mean([_apart(row) for row in group]) for rate, group in groups.items()}
        others = min(distance for rate, distance in apart.items() if rate != HALF)
        absent = any(row.missing for group in groups.values() for row in group)
        known = not absent and not any(map(math.isnan, apart.values()))
        distances = ", ".join(f"{_distance(distance)} at {rate:g}" for rate, distance in apart.items())
        keys = tuple(dict.fromkeys(key for group in groups.values() for row in group for key in row.keys))
        cases.append(Case(f"{measure}, {unit} apart: {distances}", apart[HALF] < others if known else None, keys))
    return decide([*cases, *_larger_batch(archive)], len(GROWTHS) + 1)


def _larger_batch(archive: RunArchive) -> list[Case]:
    """Whether the published gradient before training is nearer to ours at N = 1,024 than at N = 128."""
    (row,) = group_rows(archive, "early_epochs", experiments.BEFORE_TRAINING)
    if row.difference is None:
        return []
    larger, usual = abs(row.difference), abs(row.difference + math.log10(LARGER / PUBLISHED_BATCH))
    text = f"‖g_L‖ before training, decades apart: {larger:.2g} at N = {LARGER:,}, {usual:.2g} at N = {PUBLISHED_BATCH}"
    return [Case(text, larger < usual, row.keys)]


def _distance(distance: float) -> str:
    return "not on every seed" if math.isinf(distance) else f"{distance:.2g}"


def _apart(row: ComparisonRow) -> float:
    """The distance of ours from the published figure; infinite where an event did not happen."""
    if row.difference is None:
        return math.inf if math.inf in row.values else math.nan
    return abs(row.difference)


FINDINGS = (
    normalisation_explodes,
    normalisation_drives,
    index_decides,
    deep_layers_carry_nothing,
    relaxed_ep_tracks_bp,
    published_rho_is_attenuated,
    exact_layer_carries_fa,
    no_seed_is_rejected,
    half_the_rate_comes_nearest,
    collapse_is_of_units,
    *NEAREST,
)
