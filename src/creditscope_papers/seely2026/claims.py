"""What the paper claims of predictive coding with multipliers, and what the audit adds, answered from our records."""

from __future__ import annotations

import math
from collections.abc import Iterator

from creditscope.options import Option
from creditscope.papers.archive import RunArchive
from creditscope.papers.claims import Answer, Case, all_of, claim, decide
from creditscope.papers.comparison import TOLERANCE
from creditscope.papers.quantities import Reader
from creditscope.records.run import RunRecord
from creditscope.verdict import Status
from creditscope_papers.seely2026.rows import ALM, CELLS, GAMMAS, GRID, HEADLINE, METHODS, WHOLE

SEEDS = 3
PUBLISHED = 0.909  # the cosine of the whole network
CLOSE, ALIKE = TOLERANCE["share"], TOLERANCE["cosine"]
UNEVEN = 0.1  # by which a quarter may lie below the cosine of the whole network

Pair = tuple[str, dict[str, tuple[str, RunRecord]]]


def _cells(archive: RunArchive) -> Iterator[Pair]:
    """Every seed of the published cell and every other cell of the grid, with the run of each method."""
    seeds = sorted({spec.seed for spec in archive.plan(HEADLINE).values()})
    places: list[tuple[str, str, dict[str, Option]]] = [
        (HEADLINE, f"N = 32, L = 32, seed {seed}", {"seed": seed}) for seed in seeds
    ]
    places += [
        (GRID, f"N = {width}, L = {layers}", {"network.width": width, "network.depth": layers - 2})
        for width, layers in CELLS
        if (width, layers) != (32, 32)
    ]
    for study, name, where in places:
        found = {
            method: run
            for method, settings in METHODS.items()
            for run in archive.select(study, {**settings, **where}).records.items()
        }
        yield name, found


def _both(archive: RunArchive, one: str, other: str) -> Iterator[tuple[str, RunRecord, RunRecord, tuple[str, str]]]:
    """The cells in which both methods have a run."""
    for name, found in _cells(archive):
        if one in found and other in found:
            yield name, found[one][1], found[other][1], (found[one][0], found[other][0])


WANTED = SEEDS + len(CELLS) - 1


@claim(
    "PC-ALM matches BP across all widths and depths",
    GRID,
    holds_if=f"its accuracy lies no more than {100 * CLOSE:g} points below BP's on every seed of the published cell "
    f"and in {len(CELLS) - 1} other cells, one seed each",
)
def matches_bp(archive: RunArchive) -> Answer:
    """In every cell of our part of the grid its accuracy lies no more than two points below BP's."""
    cases = [
        Case(f"{name}: {alm.accuracy:.3f} against {bp.accuracy:.3f}", alm.accuracy >= bp.accuracy - CLOSE, keys)
        for name, alm, bp, keys in _both(archive, "PC-ALM", "bp")
    ]
    return decide(cases, WANTED)


@claim(
    "The update of PC-ALM has the cosine .909 with BP's, over the whole network",
    HEADLINE,
    holds_if=f"on all {SEEDS} seeds of the published cell it lies within {ALIKE:g} of {PUBLISHED:g}",
)
def cosine_as_published(archive: RunArchive) -> Answer:
    """On every seed of the published cell within 0.05 of the published cosine."""
    runs = archive.select(HEADLINE, ALM)
    cases = []
    for key, record in runs.records.items():
        cosine = WHOLE.read(record)
        near = None if math.isnan(cosine) else abs(cosine - PUBLISHED) <= ALIKE
        cases.append(Case(f"seed {runs.specs[key].seed}: {cosine:.3f}", near, (key,)))
    return decide(cases, SEEDS)


@claim(
    "PC-ALM is more accurate than PC, and its update nearer to BP's, across all widths and depths",
    GRID,
    holds_if=f"accuracy and cosine over the whole network are higher than PC's by more than {100 * CLOSE:g} points and "
    f"{ALIKE:g} on every seed of the published cell and in {len(CELLS) - 1} other cells, one seed each; one that is "
    "lower by more than that is a counterexample, and within it a single seed cannot tell",
)
def better_than_pc(archive: RunArchive) -> Answer:
    """In every cell: a higher accuracy and a higher cosine of the whole network, by more than one seed leaves open."""
    cases = []
    for name, alm, pc, keys in _both(archive, "PC-ALM", "PC"):
        cosines = WHOLE.read(alm), WHOLE.read(pc)
        higher = _higher(alm.accuracy, pc.accuracy, CLOSE), _higher(*cosines, ALIKE)
        text = (
            f"{name}: {alm.accuracy:.4f} against {pc.accuracy:.4f}{'' if higher[0] is not None else ' (too close)'}, "
            f"cosine {cosines[0]:.3f} against {cosines[1]:.3f}{'' if higher[1] is not None else ' (too close)'}"
        )
        cases.append(Case(text, all_of(higher), keys))
    return decide(cases, WANTED)


def _higher(ours: float, theirs: float, tolerance: float) -> bool | None:
    """Whether one number of a single seed is higher; None within the tolerance of its kind, or where one is unknown."""
    return ours > theirs if abs(ours - theirs) > tolerance else None


def _lowest(record: RunRecord) -> tuple[float, str]:
    """The quarter of the depth with the smallest Γ."""
    reads: list[tuple[Reader, str]] = [(quantity.read, quantity.heading) for quantity in GAMMAS]
    return min((read(record), heading) for read, heading in reads)


@claim(
    "The cosine of the whole network stands for every depth: no quarter of the layers lies 0.1 below it",
    HEADLINE,
    holds_if=f"on all {SEEDS} seeds the smallest mean Γ of a quarter lies no more than {UNEVEN:g} below that cosine",
)
def even_over_depth(archive: RunArchive) -> Answer:
    """PC-ALM in the published cell: Γ of every quarter against the cosine of the update over the whole network."""
    runs = archive.select(HEADLINE, ALM)
    cases = []
    for key, record in runs.records.items():
        whole, (lowest, heading) = WHOLE.read(record), _lowest(record)
        known = not math.isnan(whole) and not math.isnan(lowest)
        text = f"seed {runs.specs[key].seed}: whole {whole:.3f}; {heading}: {lowest:.3f}"
        cases.append(Case(text, lowest >= whole - UNEVEN if known else None, (key,)))
    return decide(cases, SEEDS)


@claim(
    "PC-ALM uses its depth: in the published cell it beats its frozen control by two points (D3)",
    HEADLINE,
    holds_if=f"D3 passes over the {SEEDS} seeds of PC-ALM; BP and PC are shown beside it",
)
def depth_is_used(archive: RunArchive) -> Answer:
    """D3 passes over the three seeds; BP and PC beside it."""
    texts, holds, keys = [], None, []
    for name, where in METHODS.items():
        row = archive.audit_row(HEADLINE, where)
        found = None if row is None else row.findings.get("D3")
        if row is None or found is None or found.value is None:
            continue
        texts.append(f"{name}: {found.value:+.1f} points, {found.status.value}")
        keys += [key for seed in row.seeds for key in (seed.key, seed.control_key) if key]
        if where == ALM and not row.missing:
            holds = {Status.PASS: True, Status.FIRES: False}.get(found.status)
    return decide([Case("; ".join(texts), holds, tuple(keys))] if texts else [], 1)


REACHED = f"D13 passes on all {SEEDS} seeds of the published cell"


def _reach(name: str, archive: RunArchive) -> Answer:
    """On every seed of the published cell: D13 passes."""
    runs = archive.select(HEADLINE, METHODS[name])
    cases = []
    for key, record in runs.records.items():
        found = None if record.report is None else record.report.findings.get("D13")
        if found is not None and found.value is not None:
            text = f"seed {runs.specs[key].seed}: {found.value:.4g} of the images at the state with the fewest"
            cases.append(Case(text, {Status.PASS: True, Status.FIRES: False}.get(found.status), (key,)))
    return decide(cases, SEEDS)


@claim(
    "PC's credit reaches every state: at each of them most images have some (D13)",
    HEADLINE,
    holds_if=REACHED,
)
def pc_reaches_every_state(archive: RunArchive) -> Answer:
    """PC in the published cell."""
    return _reach("PC", archive)


@claim(
    "PC-ALM's credit reaches every state: at each of them most images have some (D13)",
    HEADLINE,
    holds_if=REACHED,
)
def pc_alm_reaches_every_state(archive: RunArchive) -> Answer:
    """PC-ALM in the published cell."""
    return _reach("PC-ALM", archive)


CLAIMS = (matches_bp, cosine_as_published, better_than_pc)
FINDINGS = (even_over_depth, depth_is_used, pc_reaches_every_state, pc_alm_reaches_every_state)
