"""What did we find that the published audit does not say?  Seven sentences, each answered from our records."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase

from creditscope.diagnostics import diagnostics
from creditscope.papers.book import Book, Found
from creditscope.papers.claims import Answer, Case, Claim, all_of, together
from creditscope.papers.experiments.early_epochs import BEFORE
from creditscope.papers.experiments.learning_rate import RATES, at_rate
from creditscope.papers.profiles import carried, carried_by_layer_zero, carried_by_one, early, lengths
from creditscope.papers.published import LARGER, USUAL
from creditscope.papers.quantities import DEEP_GAMMA, DEEPEST_STATE, GROWTH, RHO, RHO_ABSOLUTE, RHO_ABSOLUTE_BP
from creditscope.papers.sheet import Line, lines
from creditscope.papers.statements import SEEDS
from creditscope.records.run import RunRecord
from creditscope.statistics.layers import mean
from creditscope.verdict import Measurement

CLOSE = 2.0  # points: what seeds of one method differ by
FURTHER = 10.0  # times as large
HALF = RATES[1]
SOUND = 0.9  # the gradient's own ρ where nothing is lost is 1


def exploded(record: RunRecord) -> bool | None:
    """Whether D1 fires at the end of a run."""
    return diagnostics["D1"].limit.judge(Measurement(GROWTH.read(record))).fired


def normalisation_explodes(book: Book) -> Answer:
    """D1 fires with the credit of each sample normalised, and not otherwise."""
    cases, wanted = [], 0
    words = {True: "D1 fires", False: "D1 is silent", None: "not known"}
    for method in ("dfa", "fa"):
        for how in ("sample", "batch", "none"):
            found = book.find("credit_normalisation", {"method": method, "method.normalisation": how})
            wanted += len(found.specs)
            for key, record in found.records.items():
                answer = exploded(record)
                said = f"{method}, {how}: ‖h_L‖ {DEEPEST_STATE.read(record):.0e}, {words[answer]}"
                cases.append(Case(said, None if answer is None else answer == (how == "sample"), (key,)))
    return together(cases, wanted)


def normalisation_drives(book: Book) -> Answer:
    """With the credit of each sample normalised ‖h_L‖ ends at least ten times as large as otherwise, on all seeds."""
    cases = []
    for method in ("dfa", "fa"):
        found = {
            how: book.find("credit_normalisation", {"method": method, "method.normalisation": how})
            for how in ("sample", "batch", "none")
        }
        for how in ("batch", "none"):
            if found["sample"].records and found[how].records:
                cases.append(_further(f"{method}, sample against {how}", found["sample"], found[how]))
    return together(cases, 4)


def _further(what: str, driven: Found, other: Found) -> Case:
    """The smallest ‖h_L‖ of one side over the largest of the other; open while a seed or a finite number is missing."""
    low, high = ([DEEPEST_STATE.read(record) for record in side.records.values()] for side in (driven, other))
    keys = (*driven.records, *other.records)
    if not all(map(math.isfinite, (*low, *high))) or max(high) == 0:
        return Case(f"{what}: ‖h_L‖ is not known", None, keys)
    ratio, absent = min(low) / max(high), len(driven.missing) + len(other.missing)
    seeds = ", ".join(str(driven.specs[key].seed) for key in driven.records)
    said = f"{what}, seed {seeds}: {ratio:.2g} times as large" + (f", {absent} runs missing" if absent else "")
    return Case(said, None if absent else ratio >= FURTHER, keys)


def index_decides(book: Book) -> Answer:
    """D5 fires with index = input, on layer 0, and passes with index = output; audited while the reference is valid."""
    epochs, _ = lengths(book)
    cases = []
    for index in ("input", "output"):
        for key, spec, record in early(book, index, epochs):
            spread_out = None if (alone := carried_by_one(record)) is None else not alone
            holds = carried_by_layer_zero(record) if index == "input" else spread_out
            cases.append(Case(f"{index}, seed {spec.seed}: {carried(record)}, after {epochs} epochs", holds, (key,)))
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
            close = None if math.isnan(margin) else margin >= -CLOSE
            cases.append(Case(said, all_of((close, passes)), (seed.key, key)))
    return together(cases, len(bp.specs))


def published_rho_is_attenuated(book: Book) -> Answer:
    """On penalised DFA even the gradient, whose ρ is 1 up to rounding and curvature, scores below 0.9 as published."""
    found = book.find("triangulation", {"method": "dfa", "penalty": 1e-2})
    cases = []
    for key, record in found.records.items():
        own, absolute, relative = (q.read(record) for q in (RHO_ABSOLUTE_BP, RHO_ABSOLUTE, RHO))
        seed, known = found.specs[key].seed, all(map(math.isfinite, (own, absolute, relative))) and own != 0
        if not known:
            cases.append(Case(f"seed {seed}: ρ is not known", None, (key,)))
            continue
        said = (
            f"seed {seed}: the gradient scores {own:.2f} and DFA {absolute:.3f}, {absolute / own:.3f} of it; with a "
            f"step relative to the stream and float64 DFA scores {relative:.3f}"
        )
        cases.append(Case(said, own < SOUND, (key,)))
    return together(cases, len(found.specs))


def exact_layer_carries_fa(book: Book) -> Answer:
    """Of FA's mean Γ over layers 1..L more than half is the one layer that is exact by construction."""
    found = book.find("main_audit", {"method": "fa"})
    cases = []
    for key, record in found.records.items():
        depth = record.report.subject.depth if record.report is not None else 0
        whole = DEEP_GAMMA.read(record)
        share = 1 / depth / whole if depth and whole > 0 else math.nan
        part = "" if math.isnan(share) else f", of it {share:.0%} from the exact layer"
        said = f"seed {found.specs[key].seed}: deep Γ {whole:.2f}{part}"
        cases.append(Case(said, share > 0.5 if math.isfinite(share) else None, (key,)))
    return together(cases, len(found.specs))


GROWTHS = (  # what is compared, the names of its quantities, and the unit of its differences
    ("‖g_L‖ after epochs 1 to 5", "g_L_*", "decades"),
    ("first epoch of D1", "first_D1", "epochs"),
    ("first epoch of D2 at N = 1,024", "first_D2_*", "epochs"),
    ("‖h_L‖ after epochs 1 to 3 with random labels", "h_L_*", "decades"),
)


def half_the_rate_comes_nearest(book: Book) -> Answer:
    """Of three learning rates half the stated one lies nearest to how DFA's stream grew, by each of four measures.

    Two of them read the published gradients at N = 1,024; what was published before training must bear that out.
    """
    tables = {rate: list(at_rate(book, rate)) for rate in RATES}
    cases = []
    for what, pattern, unit in GROWTHS:
        groups = {rate: [one for one in table if fnmatchcase(one.quantity, pattern)] for rate, table in tables.items()}
        if not all(one.values for group in groups.values() for one in group):
            continue
        apart = {rate: mean([_apart(one) for one in group]) for rate, group in groups.items()}
        others = min(distance for rate, distance in apart.items() if rate != HALF)
        absent = any(one.missing for group in groups.values() for one in group)
        known = not absent and not any(map(math.isnan, apart.values()))
        said = ", ".join(f"{_told(distance)} at {rate:g}" for rate, distance in apart.items())
        keys = tuple(dict.fromkeys(key for group in groups.values() for one in group for key in one.keys))
        cases.append(Case(f"{what}, {unit} apart: {said}", apart[HALF] < others if known else None, keys))
    return together([*cases, *_larger_batch(book)], len(GROWTHS) + 1)


def _larger_batch(book: Book) -> list[Case]:
    """Whether the published gradient before training is nearer to ours at N = 1,024 than at N = 128."""
    (one,) = lines(book, "early_epochs", "index input", {"seed": 42}, (BEFORE,), study="random_init")
    if one.difference is None:
        return []
    larger, usual = abs(one.difference), abs(one.difference + math.log10(LARGER / USUAL))
    said = f"‖g_L‖ before training, decades apart: {larger:.2g} at N = {LARGER:,}, {usual:.2g} at N = {USUAL}"
    return [Case(said, larger < usual, one.keys)]


def _told(distance: float) -> str:
    """A distance in words."""
    return "not on every seed" if math.isinf(distance) else f"{distance:.2g}"


def _apart(line: Line) -> float:
    """How far ours lies from the published figure; infinitely where an event did not come."""
    if line.difference is None:
        return math.inf if math.inf in line.values else math.nan
    return abs(line.difference)


FINDINGS = (
    Claim(
        "Normalising the credit of each sample is what makes the stream explode",
        "credit_normalisation",
        normalisation_explodes,
    ),
    Claim(
        "Normalising the credit of each sample drives the stream at least ten times further",
        "credit_normalisation",
        normalisation_drives,
    ),
    Claim(
        "Which state a block listens to decides whether layer 0 alone carries DFA's Γ", "early_epochs", index_decides
    ),
    Claim("EP that is properly relaxed tracks BP", "main_audit", relaxed_ep_tracks_bp),
    Claim(
        "The published ρ, an absolute step in float32, is attenuated by rounding on penalised DFA",
        "triangulation",
        published_rho_is_attenuated,
    ),
    Claim("FA's deep Γ is mostly its one exact layer", "main_audit", exact_layer_carries_fa),
    Claim(
        "Half the stated learning rate comes nearest to the published growth of DFA's stream in the first epochs",
        "learning_rate",
        half_the_rate_comes_nearest,
    ),
)
