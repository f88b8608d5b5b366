"""What did we find that the published audit does not say?  Five sentences, each answered from our records."""

from __future__ import annotations

import math

from creditscope.aggregation import survives
from creditscope.diagnostics import diagnostics
from creditscope.reproduction.book import Book
from creditscope.reproduction.claims import Answer, Case, Claim, together
from creditscope.reproduction.quantities import (
    DEEP_GAMMA,
    DEEPEST_GRADIENT,
    DEEPEST_STATE,
    GROWTH,
    RHO,
    RHO_ABSOLUTE,
    RHO_ABSOLUTE_BP,
)
from creditscope.reproduction.statements import SEEDS, profiles
from creditscope.verdict import Measurement, Status

CLOSE = 2.0  # points: what seeds of one method differ by
SOUND = 0.9  # the gradient's own ρ where nothing is lost; it should be 1


def normalisation_explodes(book: Book) -> Answer:
    """D1 and D2 fire together with the credit of each sample normalised, and not otherwise."""
    cases = []
    for method in ("dfa", "fa"):
        for how in ("sample", "batch", "none"):
            found = book.find("credit_normalisation", {"method": method, "method.normalisation": how})
            for key, record in found.records.items():
                growth, gradient = Measurement(GROWTH.read(record)), Measurement(DEEPEST_GRADIENT.read(record))
                fires = [
                    diagnostics[code].limit.judge(value) is Status.FIRES
                    for code, value in (("D1", growth), ("D2", gradient))
                ]
                said = f"{method}, {how}: ‖h_L‖ {DEEPEST_STATE.read(record):.0e}, " + (
                    "D1 and D2 fire" if all(fires) else "not both fire"
                )
                cases.append(Case(said, all(fires) == (how == "sample"), (key,)))
    return together(cases, 6)


def index_decides(book: Book) -> Answer:
    """D5 fires with index = input and is silent with index = output, at the last epoch with a valid reference."""
    cases = []
    for index in ("input", "output"):
        for seed, key, row in profiles(book, index):
            share = survives(row.gamma)
            fires = diagnostics["D5"].limit.judge(Measurement(share)) is Status.FIRES
            said = f"{index}, seed {seed}: R = {share:.2f}"
            cases.append(Case(said, fires == (index == "input"), (key,)))
    return together(cases, 2 * SEEDS)


def relaxed_ep_tracks_bp(book: Book) -> Answer:
    """EP is at most two points below BP of the same seed and length, and passes."""
    bp = book.find("main_audit", {"method": "bp"})
    by_seed = {bp.specs[key].seed: (key, record) for key, record in bp.records.items()}
    row = book.audited("main_audit", {"method": "ep"})
    cases = []
    for seed in row.seeds if row is not None else ():
        if seed.seed in by_seed:
            key, record = by_seed[seed.seed]
            margin = 100 * (seed.accuracy - record.accuracy)
            passes = {"pass": True, "fail": False}.get(seed.verdict.outcome)
            said = f"seed {seed.seed}: {100 * seed.accuracy:.1f} %, {margin:+.1f} points to BP, {seed.verdict}"
            holds = False if margin < -CLOSE else passes
            cases.append(Case(said, holds, (seed.key, key)))
    return together(cases, 1)


def published_rho_is_attenuated(book: Book) -> Answer:
    """Under the published setting even the gradient's own ρ is below 0.9, and DFA's is below its true one."""
    found = book.find("triangulation", {"method": "dfa", "penalty": 1e-2})
    cases = []
    for key, record in found.records.items():
        own, absolute, relative = (q.read(record) for q in (RHO_ABSOLUTE_BP, RHO_ABSOLUTE, RHO))
        said = (
            f"seed {found.specs[key].seed}: the gradient scores {own:.2f}, DFA {absolute:.3f}; with a step relative to "
            f"the stream and float64 DFA scores {relative:.3f}"
        )
        known = all(map(math.isfinite, (own, absolute, relative)))
        cases.append(Case(said, own < SOUND and absolute < relative if known else None, (key,)))
    return together(cases, len(found.specs))


def exact_layer_carries_fa(book: Book) -> Answer:
    """Of FA's mean Γ over layers 1..L more than half is the one layer that is exact by construction."""
    found = book.find("main_audit", {"method": "fa"})
    cases = []
    for key, record in found.records.items():
        depth = record.report.subject.depth if record.report is not None else 0
        whole = DEEP_GAMMA.read(record)
        share = 1 / depth / whole if depth and whole > 0 else math.nan
        said = f"seed {found.specs[key].seed}: deep Γ {whole:.2f}, of it {share:.0%} from the exact layer"
        cases.append(Case(said, share > 0.5 if math.isfinite(share) else None, (key,)))
    return together(cases, len(found.specs))


FINDINGS = (
    Claim(
        "Normalising the credit of each sample is what makes the stream explode",
        "credit_normalisation",
        normalisation_explodes,
    ),
    Claim(
        "Which state a block listens to decides whether layer 0 alone carries DFA's Γ", "early_epochs", index_decides
    ),
    Claim("EP that is properly relaxed tracks BP", "main_audit", relaxed_ep_tracks_bp),
    Claim("The published ρ is attenuated by float32 rounding", "triangulation", published_rho_is_attenuated),
    Claim("FA's deep Γ is mostly its one exact layer", "main_audit", exact_layer_carries_fa),
)
