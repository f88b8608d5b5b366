"""Experiment 5: the penalty sweep."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book, Where
from creditscope.papers.experiments import experiment
from creditscope.papers.quantities import (
    ACCURACY,
    DEEP_GAMMA,
    DEEPEST_GRADIENT,
    DEEPEST_STATE,
    GROWTH,
    RHO_ABSOLUTE,
)
from creditscope.papers.sheet import Line, flag_line, lines

SWEEP = {
    "dfa": (0.0, 1e-4, 1e-3, 1e-2, 1e-1),
    "bp": (0.0, 1e-2),
    "fa": (0.0, 1e-4, 1e-2),
    "state_bridge": (0.0, 1e-2),
    "credit_bridge": (0.0, 1e-2),
}


@experiment("penalty", number=5, question="Does a penalty on the blocks make depth useful?")
def penalty(book: Book) -> Iterator[Line]:
    """Every method and λ."""
    for method, strengths in SWEEP.items():
        for strength in strengths:
            where: Where = {"method": method, "penalty": strength}
            row = penalised(method, strength)
            yield from lines(
                book,
                "penalty",
                row,
                where,
                (ACCURACY, DEEPEST_STATE, DEEPEST_GRADIENT, GROWTH, DEEP_GAMMA, RHO_ABSOLUTE),
            )
            yield flag_line(book, "penalty", row, where)


def penalised(method: str, strength: float) -> str:
    """The name of a row."""
    return f"{method}, penalty {strength:g}" if strength else method
