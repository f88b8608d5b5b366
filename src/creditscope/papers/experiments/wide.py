"""Experiment 2: a wider stream."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.experiments.main_audit import METHODS
from creditscope.papers.quantities import ACCURACY, DEEPEST_GRADIENT, DEEPEST_STATE, GROWTH
from creditscope.papers.sheet import Line, lines


@experiment("wide", number=2, question="Does the same happen at d = 512?")
def wide(book: Book) -> Iterator[Line]:
    """Every method at d = 512."""
    for method in METHODS:
        yield from lines(book, "wide", method, {"method": method}, (ACCURACY, GROWTH, DEEPEST_STATE, DEEPEST_GRADIENT))
