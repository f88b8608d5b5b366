"""Experiment 2: a wider stream."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.reproduction.book import Book
from creditscope.reproduction.experiments import experiment
from creditscope.reproduction.experiments.main_audit import METHODS
from creditscope.reproduction.quantities import ACCURACY, DEEPEST_GRADIENT, DEEPEST_STATE, GROWTH
from creditscope.reproduction.sheet import Line, lines


@experiment("wide", number=2, question="Does the same happen at d = 512?")
def wide(book: Book) -> Iterator[Line]:
    """Every method at d = 512."""
    for method in METHODS:
        yield from lines(book, "wide", method, {"method": method}, (ACCURACY, GROWTH, DEEPEST_STATE, DEEPEST_GRADIENT))
