"""Experiment 4: CIFAR-100."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.quantities import ACCURACY, DEEPEST_GRADIENT, GROWTH
from creditscope.papers.sheet import Line, lines


@experiment("cifar100", number=4, question="Does the same happen with a hundred classes?")
def cifar100(book: Book) -> Iterator[Line]:
    """BP, FA, DFA, and BP's frozen twin."""
    for method in ("bp", "fa", "dfa"):
        yield from lines(book, "cifar100", method, {"method": method}, (ACCURACY, GROWTH, DEEPEST_GRADIENT))
    yield from lines(book, "cifar100", "bp, frozen", {"method": "bp", "control": "frozen"}, (ACCURACY,))
