"""Experiment 14: functional triangulation."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book, Where
from creditscope.papers.experiments import experiment
from creditscope.papers.experiments.penalty import penalised
from creditscope.papers.quantities import (
    BLOCK_DRIFT,
    DEEP_GAMMA,
    EMBED_DRIFT,
    LOSS_DROP,
    NUDGE,
    NUDGE_ABSOLUTE,
    RHO,
    RHO_ABSOLUTE,
    RHO_ABSOLUTE_BP,
    Quantity,
)
from creditscope.papers.sheet import Line, lines

FUNCTION = (
    DEEP_GAMMA,
    RHO,
    RHO_ABSOLUTE,
    RHO_ABSOLUTE_BP,
    NUDGE,
    NUDGE_ABSOLUTE,
    LOSS_DROP,
    BLOCK_DRIFT,
    EMBED_DRIFT,
)

OF_BP = Quantity("rho_bp", "the gradient's own ρ as published, on BP", "cosine", RHO_ABSOLUTE_BP.read)
OF_DFA = Quantity("rho_dfa_penalised", "deep ρ as published, DFA with penalty 0.01", "cosine", RHO_ABSOLUTE.read)


@experiment("triangulation", number=14, question="Does alignment go with what it should stand for?")
def triangulation(book: Book) -> Iterator[Line]:
    """Every method under the penalty, DFA over λ, and what ρ makes of the gradient itself."""
    rows = [(method, 1e-2) for method in ("bp", "fa", "dfa", "state_bridge", "credit_bridge")]
    rows += [("dfa", strength) for strength in (0.0, 1e-4, 1e-1)]
    for method, strength in rows:
        where: Where = {"method": method, "penalty": strength}
        yield from lines(book, "triangulation", penalised(method, strength), where, FUNCTION)
    yield from lines(book, "triangulation", "calibration", {"method": "bp"}, (OF_BP,), study="main_audit")
    yield from lines(book, "triangulation", "calibration", {"method": "dfa", "penalty": 1e-2}, (OF_DFA,))
