"""Experiment 1: the main audit."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.quantities import (
    ACCURACY,
    DEEP_GAMMA,
    DEEP_GAMMA_INEXACT,
    DEEPEST_GRADIENT,
    DEEPEST_STATE,
    DRIFT,
    GROWTH,
    REPORTED_GAMMA,
    gamma,
)
from creditscope.papers.sheet import Line, flag_line, lines

METHODS = ("bp", "fa", "dfa", "ep", "state_bridge", "credit_bridge")
STREAM = (ACCURACY, DEEPEST_STATE, DEEPEST_GRADIENT, GROWTH, DRIFT, REPORTED_GAMMA)
LAYERS = tuple(gamma(layer) for layer in range(5))


@experiment("main_audit", number=1, question="Which methods does the audit walk back, and why?")
def main_audit(book: Book) -> Iterator[Line]:
    """Every method, DFA for both states that a block may hear, then the controls."""
    rows = [(method, {"method": method}) for method in METHODS]
    rows[2:3] = [(f"dfa, index {index}", {"method": "dfa", "method.index": index}) for index in ("input", "output")]
    for row, where in rows:
        yield from lines(book, "main_audit", row, where, STREAM)
        if row == "fa":
            yield from lines(book, "main_audit", row, where, (DEEP_GAMMA, DEEP_GAMMA_INEXACT))
        if where["method"] == "dfa":
            yield from lines(book, "main_audit", row, where, LAYERS)
        yield flag_line(book, "main_audit", row, where)
    for control in ("frozen", "shallow"):
        for method in METHODS:
            where = {"method": method, "control": control, **({"method.index": "output"} if method == "dfa" else {})}
            yield from lines(book, "main_audit", f"{method}, {control}", where, (ACCURACY,))
