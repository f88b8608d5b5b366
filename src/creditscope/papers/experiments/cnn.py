"""Experiment 9: a CNN with BatchNorm."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.quantities import ACCURACY, DEEPEST_GRADIENT, FIRST_D2, GROWTH
from creditscope.papers.sheet import Line, flag_line, lines


@experiment("cnn", number=9, question="Does the gradient collapse without a terminal LayerNorm, on a CNN?")
def cnn(book: Book) -> Iterator[Line]:
    """All published rows; the bridges refuse a stream whose width changes and stay not run."""
    for method in ("bp", "fa", "dfa", "ep", "state_bridge", "credit_bridge"):
        yield from lines(book, "cnn", method, {"method": method}, (ACCURACY, GROWTH, DEEPEST_GRADIENT, FIRST_D2))
        yield flag_line(book, "cnn", method, {"method": method})
